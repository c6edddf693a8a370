"""Low-level ops whose fake kernel is an implementation under Meta."""

from __future__ import annotations

from pathlib import Path

import pytest
from migrating import apply, run, write

HEAD = """\
import torch

lib = torch.library.Library("demo", "DEF")
lib.define("scale(Tensor x, float w=1.0, {star}Tensor(a!)? out=None) -> Tensor")


@torch.library.impl(lib, "scale", "CPU")
def scale(x, w=1.0, {star}out=None):
    if out is None:
        out = torch.empty_like(x)
    torch.mul(x, w, out=out)
    return out
"""

METAS = {
    "decorated": """

@torch.library.impl(lib, "scale", "Meta")
def scale_meta(x, w=1.0, {star}out=None):
    if out is None:
        out = torch.empty_like(x)
    return out
""",
    "called": """

def scale_meta(x, w=1.0, {star}out=None):
    return torch.empty_like(x) if out is None else out


lib.impl("scale", scale_meta, "Meta")
""",
    "allocating": """

@torch.library.impl(lib, "scale", "Meta")
def scale_meta(x, w=1.0, {star}out=None):
    return torch.empty_like(x)
""",
}

RUN = """
x, out = torch.ones(3), torch.zeros(3)
assert torch.ops.demo.scale(x, 2.0).sum() == 6
torch.ops.demo.scale_out(x, out, 2.0)
assert out.sum() == 6
fresh = torch.compile(lambda x: torch.ops.demo.scale(x, 2.0), backend="aot_eager", fullgraph=True)
assert fresh(x).sum() == 6
given = torch.compile(
    lambda x, o: torch.ops.demo.scale_out(x, o, 3.0), backend="aot_eager", fullgraph=True
)
given(x, out)
assert out.sum() == 9
"""


def migrated(root: Path, kind: str, star: str) -> str:
    text = (HEAD + METAS[kind]).format(star=star)
    write(root, {"ops.py": text})
    apply(run(root))
    return (root / "ops.py").read_text()


@pytest.mark.parametrize("star", ["", "*, "])
@pytest.mark.parametrize("kind", METAS)
def test_the_fake_under_meta_stays_with_the_functional_half(
    tmp_path: Path, kind: str, star: str
) -> None:
    text = migrated(tmp_path, kind, star)
    assert "def scale_meta(x, w=1.0):" in text
    assert 'lib.define("scale(Tensor x, float w=1.0) -> Tensor")' in text
    assert text.count('"Meta"') == 1


def test_one_function_for_every_key_is_split_as_a_kernel(tmp_path: Path) -> None:
    stacked = '@torch.library.impl(lib, "scale", "Meta")\n@torch.library.impl(lib, "scale", "CPU")'
    text = HEAD.format(star="").replace('@torch.library.impl(lib, "scale", "CPU")', stacked)
    write(tmp_path, {"ops.py": text})
    apply(run(tmp_path))
    assert (tmp_path / "ops.py").read_text().count('"Meta"') == 2


@pytest.mark.torch
def test_both_halves_run_and_compile(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    text = migrated(tmp_path, "decorated", "")
    exec(compile(text + RUN, "ops.py", "exec"), {"__name__": "ops"})
