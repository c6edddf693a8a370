"""What rules about registrations see across the files of a project."""

from __future__ import annotations

from pathlib import Path

from opscaffold.findings.model import Finding
from opscaffold.rules.catalog import all_rules, apply_rules
from opscaffold.source.project import load_project

HEAD = "import torch\nfrom torch import Tensor\n\n\n"
BLEND = (
    HEAD
    + """@torch.library.custom_op("demo::blend", mutates_args=())
def blend(x: Tensor) -> Tensor:
    return x + 1
"""
)
STORE = (
    HEAD
    + """@torch.library.custom_op("demo::store", mutates_args={"cache"})
def store(x: Tensor, cache: Tensor) -> None:
    cache.copy_(x)
"""
)


def findings(root: Path, code: str, files: dict[str, str]) -> list[Finding]:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    project = load_project([root], root)
    assert not project.problems
    return list(apply_rules(project, [rule for rule in all_rules() if rule.code == code]))


def places(root: Path, code: str, files: dict[str, str]) -> list[tuple[str, int]]:
    return [
        (f.position.path.relative_to(root).as_posix(), f.position.line)
        for f in findings(root, code, files)
    ]


def test_one_name_in_two_modules_of_a_package_is_registered_twice(tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "", "pkg/a.py": BLEND, "pkg/sub/__init__.py": ""}
    files["pkg/sub/b.py"] = BLEND
    assert places(tmp_path, "OPS601", files) == [("pkg/sub/b.py", 6)]


def test_one_name_in_two_files_of_a_directory_is_registered_twice(tmp_path: Path) -> None:
    assert places(tmp_path, "OPS601", {"a.py": BLEND, "b.py": BLEND}) == [("b.py", 6)]


def test_scripts_in_different_directories_do_not_meet(tmp_path: Path) -> None:
    assert places(tmp_path, "OPS601", {"one/run.py": BLEND, "two/run.py": BLEND}) == []


def test_scripts_of_one_directory_do_not_meet(tmp_path: Path) -> None:
    script = BLEND + '\n\nif __name__ == "__main__":\n    print(blend(torch.ones(1)))\n'
    assert places(tmp_path, "OPS601", {"a.py": script, "b.py": script}) == []


def test_a_fake_in_another_file_is_no_missing_fake(tmp_path: Path) -> None:
    compiled = BLEND + "\n\nrun = torch.compile(blend)\n"
    fake = HEAD + 'torch.library.register_fake("demo::blend", lambda x: torch.empty_like(x))\n'
    assert places(tmp_path, "OPS110", {"ops.py": compiled}) == [("ops.py", 6)]
    assert places(tmp_path, "OPS110", {"ops.py": compiled, "fakes.py": fake}) == []


def test_a_caller_that_compiles_makes_the_fake_missing(tmp_path: Path) -> None:
    caller = "import torch\nfrom ops import blend as mix\n\nrun = torch.compile(lambda x: mix(x))\n"
    assert places(tmp_path, "OPS110", {"ops.py": BLEND}) == []
    assert places(tmp_path, "OPS110", {"ops.py": BLEND, "use.py": caller}) == [("ops.py", 6)]


def test_a_helper_that_is_given_no_fake_leaves_it_missing(tmp_path: Path) -> None:
    helper = """import torch
from torch import Tensor

LIB = torch.library.Library("demo", "FRAGMENT")


def install(name, kernel, fake=None):
    LIB.define(name + torch.library.infer_schema(kernel, mutates_args=()))
    LIB.impl(name, kernel, "CPU")
    if fake is not None:
        LIB._register_fake(name, fake)


def double(x: Tensor) -> Tensor:
    return x * 2


def triple(x: Tensor) -> Tensor:
    return x * 3


install("double", double, fake=lambda x: torch.empty_like(x))
install("triple", triple)
"""
    found = findings(tmp_path, "OPS110", {"ops.py": helper})
    assert [f.op for f in found] == ["demo::triple"]


def test_a_call_in_another_file_of_an_op_that_is_gone_is_found(tmp_path: Path) -> None:
    caller = "import torch\n\n\ndef run(x):\n    return torch.ops.demo.blended(x)\n"
    assert places(tmp_path, "OPS603", {"ops.py": BLEND, "use.py": caller}) == [("use.py", 5)]


def test_compiled_sources_may_define_the_op(tmp_path: Path) -> None:
    caller = "import torch\n\n\ndef run(x):\n    return torch.ops.demo.blended(x)\n"
    files = {"ops.py": BLEND, "use.py": caller, "csrc/deep/ops.cu": "// TORCH_LIBRARY"}
    assert places(tmp_path, "OPS603", files) == []


def test_a_helper_out_of_sight_may_define_the_op(tmp_path: Path) -> None:
    files = {
        "ops.py": BLEND + '\n\nfrom far import install\n\ninstall("blended", mutates_args=())\n',
        "use.py": "import torch\n\nrun = torch.ops.demo.blended\n",
    }
    assert places(tmp_path, "OPS603", files) == []


def test_a_function_around_an_op_of_another_file_is_found(tmp_path: Path) -> None:
    caller = """import torch
from ops import blend


class Blend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return blend(x)
"""
    assert places(tmp_path, "OPS504", {"ops.py": BLEND, "use.py": caller}) == [("use.py", 5)]


def test_a_gradient_lost_in_another_file_is_found(tmp_path: Path) -> None:
    caller = """import torch
from ops import store as keep

x = torch.ones(2, requires_grad=True)
keep(-x, torch.zeros(2))
with torch.no_grad():
    keep(-x, torch.zeros(2))
"""
    assert places(tmp_path, "OPS506", {"ops.py": STORE, "use.py": caller}) == [("use.py", 5)]


def test_a_kernel_that_calls_the_op_is_no_public_wrapper(tmp_path: Path) -> None:
    inner = """

@torch.library.custom_op("demo::outer", mutates_args={"cache"})
def outer(x: Tensor, cache: Tensor) -> None:
    store(x, cache)


def train(loss: Tensor) -> None:
    loss.backward()
"""
    assert places(tmp_path, "OPS506", {"ops.py": STORE + inner}) == []


def test_a_library_op_with_a_keyword_only_tensor_is_read_by_its_signature(tmp_path: Path) -> None:
    source = """import torch
from torch import Tensor

LIB = torch.library.Library("demo", "FRAGMENT")


def attend(q: Tensor, out: Tensor, *, bias: Tensor | None = None) -> None:
    out.copy_(q if bias is None else q + bias)


def attend_fake(q, out, *, bias):
    return None


LIB.define("attend" + torch.library.infer_schema(attend, mutates_args=("out",)))
LIB.impl("attend", attend, "CPU")
LIB._register_fake("attend", attend_fake)
"""
    (finding,) = findings(tmp_path, "OPS111", {"ops.py": source})
    assert "`bias` has a default in the op" in finding.message
