"""Count what opscaffold makes of source trees, next to a count that does not use its reader.

For each tree: the ops that ``check --list-ops`` lists; the registrations that stand in the text,
counted by the shape of the calls alone; the findings by rule; what ``migrate`` would rewrite and
what it leaves, with the reason. Nothing is written to a tree, and nothing of it is run.

    python benchmarks/real_world.py ../flashinfer ../sglang --helper direct_register_custom_op
    python benchmarks/real_world.py ../sglang --details

The second count is crude on purpose. It takes every call and decorator named ``custom_op`` or
``triton_op`` with a name to register, every ``define`` with a schema, and every use of a
``--helper``. It counts the body of a helper as one op, and an op that a loop registers four times
as one. Where the two counts differ, ``--details`` shows both lists, and the ops that are called
as ``torch.ops.ns.op`` in a namespace of the tree and are not listed: those of compiled code, or
ones that were missed.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_CALLED = re.compile(r"torch\.ops\.(\w+)\.(\w+)")
_SKIPPED = frozenset({".git", ".venv", "node_modules", "site-packages"})
_NAMED = ("custom_op", "triton_op")


@dataclass
class Counts:
    """What was counted in one tree."""

    tree: Path
    commit: str = "not a checkout"
    files: int = 0
    seconds: float = 0.0
    ops: list[str] = field(default_factory=list)
    computed: int = 0
    written: list[str] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    rules: Counter[str] = field(default_factory=Counter)
    rewrites: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


def main() -> int:
    options = parsed()
    if not options.details:
        print(
            "| tree | commit | .py files | ops listed | of them named in part | registrations"
            " in the text | findings | rewrites | left with reason |"
        )
        print("|---|---|---|---|---|---|---|---|---|")
    for tree in options.trees:
        found = counted(tree.resolve(), options.helper)
        print(details(found) if options.details else row(found), flush=True)
    return 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trees", nargs="+", type=Path, help="directories of source")
    parser.add_argument(
        "--helper",
        action="append",
        default=["direct_register_custom_op", "register_custom_op"],
        help="a function whose uses the second count takes for registrations; may be repeated",
    )
    parser.add_argument("--details", action="store_true", help="list instead of counting")
    return parser.parse_args()


def counted(tree: Path, helpers: Sequence[str]) -> Counts:
    """Run the three commands on a tree, and count by text beside them."""
    found = Counts(tree)
    found.commit = commit_of(tree)
    start = time.monotonic()
    listed = json.loads(run(tree, "check", "--list-ops", "--format", "json"))
    reported = json.loads(run(tree, "check", "--format", "json"))
    with tempfile.TemporaryDirectory() as directory:
        plan = Path(directory) / "plan.json"
        run(tree, "migrate", "--quiet", "--plan", str(plan))
        planned = json.loads(plan.read_text("utf-8"))
    found.seconds = time.monotonic() - start
    found.ops = [f"{op['name']}  {op['path']}:{op['line']}" for op in listed["ops"]]
    names = [str(op["name"]) for op in listed["ops"]]
    found.computed = sum("{" in name for name in names)
    for one in reported["findings"]:
        found.findings.append(f"{one['path']}:{one['line']}: {one['code']} {one['message']}")
        found.rules[f"{one['code']} {one['name']}"] += 1
    repairs = [repair for step in planned["steps"] for repair in step["repairs"]]
    found.rewrites = [f"{repair['op']}: {repair['does']}" for repair in repairs]
    found.refusals = [json.dumps(refusal, sort_keys=True) for refusal in planned["refusals"]]
    spaces = {name.partition("::")[0] for name in names} - {""}
    known = {name.partition(".")[0] for name in names}
    called: dict[str, str] = {}
    for path, text in sources(tree):
        found.files += 1
        found.written += written(path, text, helpers)
        for match in _CALLED.finditer(text):
            name = f"{match[1]}::{match[2]}"
            if match[1] in spaces and name not in known:
                called.setdefault(name, f"{name}  {path}")
    found.unlisted = [called[name] for name in sorted(called)]
    return found


def commit_of(tree: Path) -> str:
    if not (tree / ".git").exists():
        return "not a checkout"
    command = ["git", "-C", str(tree), "rev-parse", "--short=12", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "not a checkout"


def run(tree: Path, *arguments: str) -> str:
    """Run opscaffold in a tree; its exit code tells of findings, and 2 or more of a fault."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
    code += "from opscaffold.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{tree}: {' '.join(arguments)} failed:\n{done.stderr}")
    return done.stdout


def sources(tree: Path) -> Iterator[tuple[Path, str]]:
    for path in sorted(tree.rglob("*.py")):
        relative = path.relative_to(tree)
        if path.is_file() and not _SKIPPED.intersection(relative.parts):
            yield relative, path.read_text("utf-8", errors="replace")


def written(path: Path, text: str, helpers: Sequence[str]) -> Iterator[str]:
    """The registrations that stand in a file, by what the calls look like."""
    if not any(word in text for word in (*_NAMED, "define", *helpers)):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    bare = [d for node in ast.walk(tree) for d in getattr(node, "decorator_list", ())]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name, shown = last(node.func), [*node.args, *(k.value for k in node.keywords)]
            texts = [part for part in shown[:2] if is_text(part)]
            if name in helpers or (name in _NAMED and texts) or is_definition(name, texts):
                first = ast.unparse(texts[0]) if texts else ""
                yield f"{name}({first[:60]})  {path}:{node.lineno}"
    for decorator in bare:
        if not isinstance(decorator, ast.Call) and last(decorator) in helpers:
            yield f"@{last(decorator)}  {path}:{decorator.lineno}"


def is_definition(name: str, texts: list[ast.expr]) -> bool:
    return name == "define" and any("->" in ast.unparse(part) for part in texts)


def is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.BinOp):
        return is_text(node.left) or is_text(node.right)
    return isinstance(node, ast.JoinedStr)


def last(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def row(found: Counts) -> str:
    rules = ", ".join(f"{count} {rule.partition(' ')[0]}" for rule, count in found.rules.items())
    cells = (
        *(found.tree.name, found.commit, found.files, len(found.ops), found.computed),
        *(len(found.written), f"{len(found.findings)}" + (f" ({rules})" if rules else "")),
        *(len(found.rewrites), len(found.refusals)),
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def details(found: Counts) -> str:
    parts = [
        ("ops listed", found.ops),
        ("registrations in the text", found.written),
        ("called, in a namespace of the tree, and not listed", found.unlisted),
        ("findings", found.findings),
        ("rewrites", found.rewrites),
        ("left as they are", found.refusals),
    ]
    lines = [f"# {found.tree.name} {found.commit}: {found.files} files, {found.seconds:.0f} s"]
    for title, items in parts:
        lines += ["", f"## {title}: {len(items)}", *(f"- {item}" for item in items)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main())
