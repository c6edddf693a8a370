"""Programs that attach something to a maybe-out op, migrated and run together."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from migrating import apply, python, run, write

from opscaffold.migrate.engine import Request, migrate
from opscaffold.migrate.plan import Options

RUNNER = Path(__file__).with_name("run_attached.py")

HEAD = "import torch\nfrom torch import Tensor\n\n\n"

LAST = "x: Tensor, k: float = 2.0, out: Tensor | None = None"
MIDDLE = "x: Tensor, out: Tensor | None = None, k: float = 2.0"


def scale(namespace: str, parameters: str = LAST, more: str = "") -> str:
    """An op that scales, with its fake kernel. ``more`` are further arguments of custom_op."""
    names = "x, k=2.0, out=None" if parameters == LAST else "x, out=None, k=2.0"
    return f"""{HEAD}@torch.library.custom_op("{namespace}::scale", mutates_args=(){more})
def scale({parameters}) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x.detach(), k, out=out)
    return out


@scale.register_fake
def _({names}):
    return torch.empty_like(x)


"""


def faults(
    root: Path, programs: Mapping[str, tuple[str, str]], options: Options | None = None
) -> dict[str, str]:
    """Migrate each program, a module and what it is held to, and run them all in one process.

    Returns what went wrong, by name: that it was not rewritten, or a traceback.
    """
    found: dict[str, str] = {}
    request = Request(options=options or Options())
    for name, (source, check) in programs.items():
        folder = root / "each" / name
        write(folder, {f"{name}.py": source})
        migration = migrate([folder], request, root=folder)
        apply(migration)
        again = migrate([folder], request, root=folder)
        if not migration.plans:
            found[name] = f"not rewritten: {[f.message for f in migration.findings]}"
        elif again.changes or again.plans:
            found[name] = "a second run changes something"
        else:
            after = (folder / f"{name}.py").read_bytes()
            write(root, {f"{name}.py": after, f"{name}.check": check})
    results = json.loads(python(RUNNER, root).splitlines()[-1])
    return found | {name: fault for name, fault in results.items() if fault}


def reason_against(root: Path, source: str) -> tuple[str, int]:
    """Why a program is not rewritten, and in which line; it must be left as it is."""
    write(root, {"ops.py": source})
    migration = run(root)
    assert migration.changes == {}
    assert migration.findings
    finding = next(f for f in migration.findings if "not rewritten: " in f.message)
    assert finding.remedy
    return finding.message.rpartition("not rewritten: ")[2], finding.position.line
