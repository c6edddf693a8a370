"""Whatever an author puts between what was generated: no line of it is lost, nor its layout."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
from pathlib import Path

from generated import BROADCAST, op, package

from opscaffold.scaffold.render import preview
from opscaffold.scaffold.wiring_python import wire_python

SCALE = op("ns::scale(Tensor x, float alpha=1.0) -> Tensor")
SHIFT = op("ns::shift_(Tensor(a!) x, float by=1.0) -> Tensor(a!)")
BLEND = op("ns::blend(Tensor x, Tensor y) -> Tensor", BROADCAST, family=True)
OLD = preview(package("demo-ops", [SCALE, SHIFT]))
NEW = preview(package("demo-ops", [BLEND, SCALE, SHIFT]))
PLACES = {Path("src/demo_ops/__init__.py"): "demo_ops", Path("opscaffold_samples.py"): ""}

MINE = (
    "X = 1",
    "# A comment.",
    "import os",
    "from demo_ops.util import q",
    "from . import w{n}",
    "def f{n}():\n    return 1",
    'class C{n}:\n    """Mine."""',
    "if True:\n    Y{n} = 2",
    "@known\ndef g{n}(x):\n    # Inside.\n    return x",
    "try:\n    import z{n}\nexcept ImportError:\n    z{n} = None",
    "X{n} = [\n    1,\n    2,\n]",
    '"""A string."""',
    "x{n}: int = 3  # Behind.",
)
RUFF = """\
line-length = 100
[lint]
select = ["I"]
[lint.isort]
combine-as-imports = true
known-first-party = ["demo_ops"]
order-by-type = false
"""


def edited(text: str, chance: random.Random) -> str:
    """The text with a few statements of an author's between those at its top."""
    lines = text.split("\n")
    starts = [node.lineno - 1 for node in ast.parse(text).body[1:]] + [len(lines) - 1]
    for number in range(chance.randint(1, 4)):
        at = chance.choice(starts)
        lines[at] = chance.choice(MINE).replace("{n}", str(number)) + "\n" + lines[at]
    return "\n".join(lines)


def ruff(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ruff", *arguments, "--no-cache", folder]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def kept(text: str) -> list[str]:
    """The lines that have to be there in the end: all but those of the tables, and blank ones."""
    tables = ("__all__", "SAMPLES")
    lines = [line for line in text.splitlines() if line and not line.startswith(tables)]
    return [line for line in lines if line != "}" and "_samples," not in line]


def test_any_edit_keeps_its_lines_and_its_layout(tmp_path: Path) -> None:
    chance = random.Random(5)
    (tmp_path / "ruff.toml").write_text(RUFF, "utf-8")
    made: dict[Path, Path] = {}
    for number in range(30):
        path = chance.choice(list(PLACES))
        made[tmp_path / f"case_{number}.py"] = path
        (tmp_path / f"case_{number}.py").write_text(edited(OLD[path], chance), "utf-8")
    # As an author who runs ruff would leave them.
    ruff(tmp_path, "check", "--fix")
    ruff(tmp_path, "format")
    for file, path in made.items():
        theirs = file.read_text("utf-8")
        text = wire_python(theirs, OLD[path], NEW[path], width=100, package=PLACES[path])
        rest = iter(text.splitlines())
        lost = [line for line in kept(theirs) if line not in rest]
        assert lost == [], text
        file.write_text(text, "utf-8")
    for command in (["check"], ["format", "--diff"]):
        done = ruff(tmp_path, *command)
        assert done.returncode == 0, done.stdout + done.stderr
