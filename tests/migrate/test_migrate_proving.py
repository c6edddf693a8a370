from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from migrating import OP, write

from opscaffold.migrate.engine import Migration, migrate

DOUBLE = """\
def {name}(x: Tensor, out: Tensor | None = None) -> Tensor:
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, 2, out=out)
    return out
"""


def project(root: Path) -> None:
    ops = [
        OP.replace("double", name).removeprefix("import torch\nfrom torch import Tensor\n\n\n")
        + DOUBLE.format(name=name)
        for name in ("one", "two")
    ]
    head = "import torch\nfrom torch import Tensor\n\n\n"
    write(root, {"ops.py": head + "\n\n".join(ops), "use.py": "from ops import one, two\n"})


def test_what_fails_is_withdrawn_and_the_rest_is_made(tmp_path: Path) -> None:
    project(tmp_path)
    asked: list[list[str]] = []

    def prove(result: Migration) -> Mapping[str, str]:
        asked.append([step.plan.op for step in result.steps])
        return {"demo::one": "it differs"} if "demo::one" in asked[-1] else {}

    result = migrate([tmp_path], root=tmp_path, prove=prove)
    assert asked == [["demo::one", "demo::two"], ["demo::two"]]
    (finding,) = result.findings
    assert (finding.op, "it differs" in finding.message) == ("demo::one", True)
    (new,) = (new.decode() for _, new in result.changes.values())
    assert '"demo::two_out"' in new
    assert '"demo::one_out"' not in new


def test_what_stands_is_asked_about_once(tmp_path: Path) -> None:
    project(tmp_path)
    asked = []

    def prove(result: Migration) -> Mapping[str, str]:
        asked.append(len(result.steps))
        return {}

    assert migrate([tmp_path], root=tmp_path, prove=prove).findings == []
    assert asked == [2]
