"""What is reported of files and comments rather than of ops, described as the rules are."""

from __future__ import annotations

from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.records import dataclass
from opscaffold.source.load import Problem


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the check itself reports. The fields are those of a rule."""

    code: str
    name: str
    severity: Severity
    summary: str
    why: str
    remedy: str
    hits: tuple[str, ...] = ()
    misses: tuple[str, ...] = ()
    repair: str | None = None

    def finding(
        self, position: Position, message: str, *, op: str = "", remedy: str = ""
    ) -> Finding:
        """Make a finding of this kind."""
        return Finding(
            self.code, self.name, self.severity, position, message, op, remedy or self.remedy
        )


_HEADER = """\
import torch
from torch import Tensor


"""

UNREADABLE = Notice(
    "OPS001",
    "unreadable",
    Severity.WARNING,
    "A file cannot be read or parsed, or an op is nested too deeply to be followed.",
    "What the file does with ops is not known: ops that it defines are not checked, and calls in "
    "it are neither seen nor migrated. All other files are still read. Of an op that is nested "
    "too deeply, only the rules that need not follow its code say anything.",
    "mend or exclude it",
    hits=("def double(x:\n    return x\n",),
    misses=("def double(x):\n    return x\n",),
)

UNUSED_IGNORE = Notice(
    "OPS002",
    "unused-ignore",
    Severity.WARNING,
    "An ignore comment holds back nothing, or names a rule that there is not.",
    "A comment that outlives what it was written for would hide the next breach on its line, "
    "which nobody has looked at.",
    "remove the code from the comment",
    hits=(
        _HEADER
        + """\
def double(x: Tensor) -> Tensor:  # opscaffold: ignore[OPS101]
    return x * 2
""",
        _HEADER
        + """\
def double(x: Tensor) -> Tensor:  # opscaffold: ignore[maybe-outs]
    return x * 2
""",
    ),
    misses=(
        _HEADER
        + """\
@torch.library.custom_op("demo::double", mutates_args=("out",))  # opscaffold: ignore[OPS101]
def double(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    return torch.mul(x, 2, out=out)
""",
        _HEADER
        + """\
def double(x: Tensor) -> str:
    return "# opscaffold: ignore[OPS101]"
""",
    ),
)

BARE_IGNORE = Notice(
    "OPS004",
    "bare-ignore",
    Severity.WARNING,
    "An ignore comment names no rule.",
    "It is not followed: it would hold back whatever is found on its line from now on, also what "
    "nobody has looked at.",
    "name what is ignored: `# opscaffold: ignore[CODE]`",
    hits=(
        _HEADER
        + """\
def double(x: Tensor) -> Tensor:  # opscaffold: ignore
    return x * 2
""",
    ),
    misses=(
        _HEADER
        + """\
def double(x: Tensor) -> Tensor:  # opscaffold ignores plain functions
    return x * 2
""",
    ),
)

NOTICES = (UNREADABLE, UNUSED_IGNORE, BARE_IGNORE)

MENTION = Notice(
    "OPS190",
    "mention",
    Severity.INFO,
    "`opscaffold migrate` split an op, and here is what it may concern but did not change.",
    "An example in prose, a string, a test or an attribute names the op, and whether the call "
    "passes the buffer cannot be told; or what is attached to the op stays with one half. The "
    "program is rewritten without it. Only `migrate` reports this, of ops that it changes.",
    "look at the place, and call the out= op there where a buffer is meant",
)

OLD_NAME = Notice(
    "OPS191",
    "old-name",
    Severity.INFO,
    "A split op is to be kept callable under its old name.",
    "Callers outside the project may still pass the buffer to the old name. With `--compat`, "
    "`opscaffold migrate` keeps a plain function there that calls one half or the other; where "
    "it cannot, it says so by this code. Only `migrate` reports this.",
    "run without --compat, or write that function by hand",
)

# What ``migrate`` says beside the rules: there is nothing to select or to ignore.
MIGRATION_NOTES = (MENTION, OLD_NAME)


def unreadable(problem: Problem) -> Finding:
    """Report a file that could not be read."""
    where = Position(problem.path, problem.line, problem.column)
    return UNREADABLE.finding(
        where, f"{problem.message}; what this file does with ops is not known"
    )
