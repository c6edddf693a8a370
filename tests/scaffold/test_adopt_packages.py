"""Packages that somebody wrote, taken in: each layout is found, and nothing of it is lost."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from adopting import INIT, OPS, adopt, package, plan, project
from generated import BROADCAST, op, pytest_in, require
from generated import package as generated

from opscaffold.scaffold.add import CannotAddError, plan_addition
from opscaffold.scaffold.add_names import NameTakenError
from opscaffold.scaffold.add_write import write_addition
from opscaffold.scaffold.adopt_layout import CannotAdoptError, ChoiceError
from opscaffold.scaffold.managed import Record, read_record
from opscaffold.scaffold.managed_render import spec_of
from opscaffold.scaffold.render import render_package
from opscaffold.scaffold.spec import KernelLanguage, OpSpec
from opscaffold.scaffold.update_apply import plan as plan_update

BLEND = op("acme::blend(Tensor x, Tensor y) -> Tensor", BROADCAST, family=True)
PYPROJECT = '[project]\nname = "acme-ops"\ndependencies = ["torch>=2.6"]\n'
SETUP = (
    "from setuptools import find_packages, setup\n\nNAME = 'acme-ops'\nraise SystemExit\n"
    "setup(name=NAME, package_dir={'': 'lib'}, packages=find_packages(where='lib'),\n"
    "      install_requires=['numpy', 'torch >= 2.5.1'])\n"
)
CFG = (
    "[metadata]\nname = acme-ops\n[options]\npackage_dir =\n    = src\npackages = find:\n"
    "install_requires =\n    torch==2.7.*\n[options.packages.find]\nwhere = src\n"
    "[tool:pytest]\ntestpaths = checks\npythonpath = .\n"
)
# The files beside the package, and: its folder, that of its tests, its name, the oldest torch.
LAYOUTS = {
    "flat, pyproject": ({"pyproject.toml": PYPROJECT, "tests/test_a.py": ""}, "", "tests", "2.6"),
    "src, hatch": (
        {
            "pyproject.toml": PYPROJECT
            + '[tool.hatch.build.targets.wheel]\npackages = ["src/acme"]\n',
            "other/__init__.py": "",
            "test/test_a.py": "",
        },
        "src",
        "test",
        "2.6",
    ),
    "setup.py, no tests": ({"setup.py": SETUP}, "lib", "tests", "2.5"),
    "setup.cfg and setup.py": (
        {
            "setup.cfg": CFG,
            "setup.py": "from setuptools import setup\n\nsetup()\n",
            "checks/a.py": "",
        },
        "src",
        "checks",
        "2.7",
    ),
    "poetry": (
        {
            "pyproject.toml": '[tool.poetry]\nname = "acme-ops"\n'
            'packages = [{ include = "acme", from = "python" }]\n'
            '[tool.poetry.dependencies]\npython = ">=3.10"\ntorch = "^2.9"\n'
            '[tool.pytest.ini_options]\ntestpaths = "python/tests unit"\n',
            "python/tests/test_a.py": "",
        },
        "python",
        "python/tests",
        "2.9",
    ),
    "flit": (
        {
            "pyproject.toml": '[project]\nname = "acme-ops"\ndependencies = ["torch>=2.6"]\n'
            '[tool.flit.module]\nname = "acme"\n',
            "acme_tools/__init__.py": OPS,
        },
        "",
        "tests",
        "2.6",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_layout_is_found_and_ops_are_added_where_they_belong(
    tmp_path: Path, name: str
) -> None:
    files, inside, tests, torch_min = LAYOUTS[name]
    if name == "flit":
        # Two packages have ops: what the backend says decides.
        files = {**files, "acme_tools/__init__.py": OPS.replace("acme::", "tools::")}
    root = project(tmp_path, {**files, **package(inside)})
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    planned = adopt(root)
    assert planned.spec.name == "acme-ops"
    assert planned.spec.namespace == "acme"
    assert ".".join(map(str, planned.spec.torch_min)) == torch_min
    assert (planned.adopted.module, planned.adopted.source) == ("acme", inside or ".")
    assert planned.adopted.tests == tests
    assert {path: path.read_bytes() for path in before} == before
    add(root, BLEND)
    where = root / inside / "acme"
    init = (where / "__init__.py").read_text("utf-8")
    assert "from acme.ops.blend import blend, blend_, blend_out\n" in init
    assert '__all__ = ["blend", "blend_", "blend_out", "double"]' in init
    assert (where / "ops/blend.py").is_file()
    assert (root / tests / "test_blend.py").is_file()
    changed = {path for path, data in before.items() if path.read_bytes() != data}
    assert changed == {where / "__init__.py"}


def add(root: Path, *ops: OpSpec) -> Record:
    record = read_record(root)
    spec = spec_of(record.answers, record.adopted)
    moved = [replace(o, contract=replace(o.contract, namespace=spec.namespace)) for o in ops]
    whole = replace(spec, ops=(*spec.ops, *moved))
    write_addition(plan_addition(root, record, whole, len(ops)))
    return read_record(root)


def test_what_can_be_told_is_recorded_and_the_rest_is_named_with_place_and_reason(
    tmp_path: Path,
) -> None:
    computed = (
        "import torch\n\nfor kind in ('a', 'b'):\n"
        "    @torch.library.custom_op(f'acme::{kind}_op', mutates_args=())\n"
        "    def made(x: torch.Tensor) -> torch.Tensor:\n        return x.clone()\n"
    )
    root = project(
        tmp_path,
        {
            "pyproject.toml": PYPROJECT,
            **package(),
            "acme/made.py": computed,
            "acme/bad.py": "import torch.library\ndef (\n",
        },
    )
    planned = adopt(root)
    double, fill = planned.ops.written[:2]
    assert (double.name, double.file, double.kind) == (
        "acme::double",
        "acme/kernels.py",
        "functional",
    )
    assert double.autograd
    assert (fill.name, fill.schema) == ("acme::fill", "")
    left = {(each.path, each.line): each.reason for each in planned.ops.left}
    assert "Optional 'out'" in left["acme/kernels.py", 22]
    assert any(path == "acme/made.py" and "computed" in why for (path, _), why in left.items())
    assert any(path == "acme/bad.py" and "cannot be read" in why for (path, _), why in left.items())
    record = read_record(root)
    assert record.adopted == planned.adopted
    assert record.answers.ops == ()


def test_update_leaves_all_that_is_the_authors(tmp_path: Path) -> None:
    root = project(tmp_path, {"pyproject.toml": PYPROJECT, **package(), "tests/test_a.py": ""})
    adopt(root)
    record = add(root, BLEND)
    kept = {PurePosixPath("acme/__init__.py"), PurePosixPath("acme/kernels.py")}
    assert not kept & record.files.keys()
    assert PurePosixPath("tests/conftest.py") not in record.files
    assert not plan_update(root, record.answers, None, lambda _: None).writes
    # An older base stands for templates that changed since.
    stale = PurePosixPath("acme/_contract.py")
    (root / stale).write_bytes(record.files[stale].data + b"\n# Mine.\n")
    planned = plan_update(root, record.answers, None, lambda _: None)
    assert not {entry.path for entry in planned.entries} & kept


@pytest.mark.parametrize(
    ("files", "folder", "support"),
    [
        ({}, "ops", "_contract"),
        ({"acme/ops.py": ""}, "custom_ops", "_contract"),
        ({"acme/ops/__init__.py": "", "acme/_contract.py": ""}, "ops", "_opscaffold_contract"),
        ({"acme/ops/data.txt": ""}, "custom_ops", "_contract"),
        ({"acme/__init__.py": "import torch\nops = torch.ops.acme\n"}, "custom_ops", "_contract"),
    ],
)
def test_only_free_names_are_taken(
    tmp_path: Path, files: dict[str, str], folder: str, support: str
) -> None:
    root = project(tmp_path, {**package(), **files})
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    planned = adopt(root)
    assert (planned.adopted.folder, planned.adopted.support) == (folder, support)
    add(root, BLEND)
    module = (root / "acme" / folder / "blend.py").read_text("utf-8")
    assert f"from acme.{support} import" in module
    assert f'"acme.{folder}.blend"' in (root / "tests/test_blend.py").read_text("utf-8")
    changed = {path.name for path, data in before.items() if path.read_bytes() != data}
    assert changed == {"__init__.py"}


def test_several_namespaces_or_packages_are_a_choice_for_a_person(tmp_path: Path) -> None:
    other = OPS.replace("acme::", "zeta::")
    root = project(tmp_path, {**package(), "acme/more.py": other, **package(module="zulu")})
    with pytest.raises(ChoiceError, match="acme, zulu; say which with --module"):
        plan(root)
    with pytest.raises(ChoiceError, match="acme, zeta; say which with --namespace"):
        plan(root, module="acme")
    planned = plan(root, module="acme", namespace="zeta")
    assert planned.spec.namespace == "zeta"
    assert {written.name.partition("::")[0] for written in planned.adopted.written} == {
        "acme",
        "zeta",
    }


def test_a_hand_written_op_keeps_its_name_to_itself(tmp_path: Path) -> None:
    root = project(tmp_path, package())
    adopt(root)
    with pytest.raises(NameTakenError, match=r"taken by an op at acme/kernels\.py"):
        add(root, op("acme::double(Tensor x) -> Tensor"))
    with pytest.raises(NameTakenError, match=r"acme/kernels\.py is a module"):
        add(root, op("acme::kernels(Tensor x) -> Tensor"))


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"acme.py": OPS}, "there is no package below"),
        ({**package(), "opscaffold_samples.py": "SAMPLES = {}\n"}, "has no CASES, CONTIGUOUS"),
        ({**package(), "acme/__init__.py": "def (\n"}, r"__init__.py:1: cannot be read"),
        ({**package(), "tests/opscaffold_checks.py/x": ""}, "is a directory"),
        (
            {**package(), **{f"acme/{n}.py": "" for n in ("ops", "custom_ops", "opscaffold_ops")}},
            "no name is left",
        ),
    ],
)
def test_what_cannot_be_adopted_is_refused_with_the_way_out(
    tmp_path: Path, files: dict[str, str], reason: str
) -> None:
    root = project(tmp_path, files)
    before = sorted(root.rglob("*"))
    with pytest.raises(CannotAdoptError, match=reason):
        adopt(root)
    assert sorted(root.rglob("*")) == before


def test_what_is_kept_already_is_refused(tmp_path: Path) -> None:
    root = project(tmp_path, package())
    adopt(root)
    with pytest.raises(CannotAdoptError, match="kept by opscaffold already"):
        plan(root)
    with pytest.raises(CannotAdoptError, match="lies in"):
        plan(root / "acme")


def test_a_conftest_of_the_authors_is_left_and_pytest_told_otherwise(tmp_path: Path) -> None:
    files = {**package(), "tests/conftest.py": "MINE = 1\n"}
    planned = plan(project(tmp_path / "a", files))
    assert PurePosixPath("conftest.py") in planned.files
    files["conftest.py"] = ""
    planned = plan(project(tmp_path / "b", files))
    assert PurePosixPath("conftest.py") not in planned.files
    assert 'pythonpath = [".", "tests"]' in " ".join(planned.notes)
    files["pytest.ini"] = "[pytest]\npythonpath = . tests\n"
    planned = plan(project(tmp_path / "c", files))
    assert "pythonpath" not in " ".join(planned.notes)


def test_a_kernel_that_must_be_built_is_refused(tmp_path: Path) -> None:
    root = project(tmp_path, package())
    adopt(root)
    with pytest.raises(CannotAddError, match="needs to be built"):
        add(root, replace(BLEND, kernel=KernelLanguage.CPP))


def test_ops_through_a_library_are_added_likewise(tmp_path: Path) -> None:
    defined = (
        "import torch\n\nlib = torch.library.Library('acme', 'DEF')\n"
        "lib.define('twice(Tensor x) -> Tensor')\n"
    )
    root = project(tmp_path, {"acme/__init__.py": "", "acme/kernels.py": defined})
    assert plan(root).spec.registration.value == "library"
    assert plan(root, registration="custom_op").spec.registration.value == "custom_op"


@pytest.mark.torch
@pytest.mark.slow
def test_tests_of_added_ops_run_beside_those_that_are_there(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    inside = "src"
    mine = "import acme\n\n\ndef test_mine():\n    assert acme.double\n"
    init = INIT.replace("acme.kernels", ".kernels")
    kernels = OPS.partition('@torch.library.custom_op("acme::fill"')[0].rstrip() + "\n"
    files = {**package(inside, init=init), "tests/test_mine.py": mine, "tests/__init__.py": ""}
    files[f"{inside}/acme/kernels.py".lstrip("/")] = kernels
    root = project(tmp_path, files)
    adopt(root)
    add(root, op("acme::scale(Tensor x, float alpha=1.0) -> Tensor"))
    text = (root / inside / "acme/__init__.py").read_text("utf-8")
    assert "from .kernels import double\nfrom .ops.scale import scale\n" in text
    found = require(pytest_in(root, "-k", "mine or schema or numbers"))
    assert " passed" in found


@pytest.mark.parametrize("language", [KernelLanguage.NUMPY, KernelLanguage.TRITON])
def test_what_kernels_of_a_language_need_comes_along(
    tmp_path: Path, language: KernelLanguage
) -> None:
    root = project(tmp_path, {**package(), "tests/conftest.py": "MINE = 1\n"})
    adopt(root)
    record = read_record(root)
    spec = spec_of(record.answers, record.adopted)
    added = replace(op("acme::scale(Tensor x) -> Tensor"), kernel=language)
    planned = plan_addition(root, record, replace(spec, ops=(added,)), 1)
    write_addition(planned)
    told = {each.where: each.text for each in planned.by_hand}
    if language is KernelLanguage.NUMPY:
        assert told["what the package depends on"] == "numpy"
    else:
        assert (root / "acme/_triton.py").is_file()
        assert "MINE = 1\n" in (root / "tests/conftest.py").read_text("utf-8")
    assert not plan_update(root, read_record(root).answers, None, lambda _: None).writes


def test_a_generated_package_that_lost_its_record_is_taken_in_as_it_is(tmp_path: Path) -> None:
    root = render_package(generated("acme", [op("ns::scale(Tensor x) -> Tensor")]), tmp_path).path
    shutil.rmtree(root / ".opscaffold")
    planned = adopt(root)
    assert planned.shown == []
    assert planned.notes == ()
    assert [each.name for each in planned.adopted.written] == ["acme::scale"]
    record = add(root, op("acme::blend(Tensor x) -> Tensor"))
    assert record.files.keys() >= {PurePosixPath("src/acme/_contract.py")}
    assert PurePosixPath("src/acme/ops/scale.py") not in record.files
    text = (root / "opscaffold_samples.py").read_text("utf-8")
    assert '"acme::scale": scale_samples' in text
    assert '"acme::blend": blend_samples' in text
