"""Samples that an author gives: in a file, by an entry point, by a function; and saved ones."""

from __future__ import annotations

import ast
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from verifying import op_of

from opscaffold.findings.promises import CHECK_FAILED, SAMPLE_FAILS
from opscaffold.verify.checks.base import Bench
from opscaffold.verify.discover import Loaded, load
from opscaffold.verify.imports import LoadError
from opscaffold.verify.op import Op
from opscaffold.verify.run import Gathered
from opscaffold.verify.sample import Sample
from opscaffold.verify.samples import gather, written
from opscaffold.verify.samples.binding import BindError, by_name, understood
from opscaffold.verify.samples.gather import Gatherer
from opscaffold.verify.samples.recorded import Recording, returned
from opscaffold.verify.samples.vary import layout_key

Project = Callable[..., Loaded]

MODULE = """
    import torch
    from torch import Tensor

    @torch.library.custom_op("{ns}::scale", mutates_args=())
    def _scale(x: Tensor, w: Tensor, by: float = 1.0) -> Tensor:
        if x.shape != w.shape:
            raise ValueError("shapes differ")
        return x * w * by

    def scale(w: Tensor, x: Tensor, by: float = 1.0) -> Tensor:
        return _scale(x, w, by)
"""


@pytest.fixture(autouse=True)
def clean_imports() -> Iterator[None]:
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if "opscaffold_samples" in name or name.startswith("verified_"):
            del sys.modules[name]


@pytest.fixture
def project(tmp_path: Path, namespace: str) -> Project:
    """A project with one op in a package under src, and a samples file beside pyproject.toml."""

    def make(samples: str = "", more: str = "") -> Loaded:
        package = tmp_path / "src" / f"{namespace}_package"
        package.mkdir(parents=True)
        (tmp_path / "pyproject.toml").write_text("")
        text = dedent(MODULE) + dedent(more)
        (package / "__init__.py").write_text(text.replace("{ns}", namespace))
        if samples:
            (tmp_path / "opscaffold_samples.py").write_text(
                dedent(samples).replace("{ns}", namespace)
            )
        return load([str(package)])

    return make


def gathered(loaded: Loaded, **request: Any) -> Gathered:
    return Gatherer(loaded, {"samples": [], "save": None, **request}, Bench()).gather(_op(loaded))


def _op(loaded: Loaded) -> Op:
    return next(op for op in loaded.ops if op.contract.name == "scale")


def own(found: Gathered) -> list[Sample]:
    return [each for each in found.samples if not each.varied]


WRITTEN = """
    from typing import Any, NamedTuple
    import torch

    class Sample(NamedTuple):
        args: tuple[Any, ...]
        kwargs: dict[str, Any]
        label: str

    def scale_samples(device):
        # In the order of the public function: w, x.
        yield Sample((torch.ones(3, device=device), torch.zeros(3, device=device)), {}, "zeros")

    SAMPLES = {"{ns}::scale": scale_samples}
"""


def test_the_file_at_the_projects_root_is_read_by_the_public_functions_order(
    project: Project, tmp_path: Path
) -> None:
    found = gathered(project(WRITTEN))
    (sample,) = own(found)
    assert sample.label == "zeros"
    assert [tensor.sum().item() for tensor in sample.args] == [0.0, 3.0]
    assert f"1 from {tmp_path / 'opscaffold_samples.py'}" in found.summary
    assert list(found.observations) == []


@pytest.mark.parametrize(
    ("samples", "promise", "told"),
    [
        ("SAMPLES = [1]", CHECK_FAILED, "is a list, not a dict by op name"),
        ("import no_such_module_here", CHECK_FAILED, "ModuleNotFoundError"),
        ("OTHER = {}", CHECK_FAILED, "has no SAMPLES"),
        ("SAMPLES = {'{ns}::scale': lambda device: 3}", SAMPLE_FAILS, "there is a int where"),
        ("SAMPLES = {'{ns}::scale': lambda device: [3]}", SAMPLE_FAILS, "a int is no sample"),
        ("SAMPLES = {'{ns}::scale': lambda device: 1 / 0}", SAMPLE_FAILS, "ZeroDivisionError"),
        ("SAMPLES = {'{ns}::scale': [((1, 2, 3, 4), {})]}", SAMPLE_FAILS, "takes no such call"),
        (
            "import torch\nSAMPLES = {'{ns}::scale': [(torch.ones(2), torch.ones(3))]}",
            SAMPLE_FAILS,
            "the op refuses it: ValueError: shapes differ",
        ),
    ],
)
def test_what_is_wrong_with_a_file_is_told_with_its_name(
    project: Project, tmp_path: Path, samples: str, promise: Any, told: str
) -> None:
    found = gathered(project(samples))
    (seen,) = [each for each in found.observations if each.promise is promise]
    assert told in seen.message
    assert str(tmp_path / "opscaffold_samples.py") in seen.message


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (((1, 2), {"a": 3}), ((1, 2), {"a": 3}, "")),
        (((1, 2), {}, "named"), ((1, 2), {}, "named")),
        ((1, 2), ((1, 2), {}, "")),
        ({"args": (1,), "label": "x"}, ((1,), {}, "x")),
        ({"x": 1}, ((), {"x": 1}, "")),
        (Sample((1,), {}, "own"), ((1,), {}, "own")),
    ],
)
def test_a_sample_may_be_written_in_many_ways(value: Any, expected: Any) -> None:
    assert understood(value) == expected


def test_arguments_that_do_not_fit_the_schema_are_refused(project: Project) -> None:
    op = _op(project())
    x = torch.ones(1)
    assert list(by_name(op, None, (x,), {"w": x})) == ["x", "w"]
    for args, kwargs in (((x,), {}), ((x, x, 1.0, 2), {}), ((x, x), {"z": 1}), ((x, x), {"w": x})):
        with pytest.raises(BindError):
            by_name(op, None, args, kwargs)


def test_an_entry_point_gives_samples(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = project()
    name = _op(loaded).qualname
    table = ModuleType("verified_table")
    table.ROWS = {name: [(torch.ones(2), torch.ones(2))]}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "verified_table", table)
    entries = [
        importlib.metadata.EntryPoint("broken", "no_such_module:X", written.GROUP),
        importlib.metadata.EntryPoint("mine", "verified_table:ROWS", written.GROUP),
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: entries)
    found = gathered(loaded)
    assert "1 from the entry point mine = verified_table:ROWS" in found.summary


CALLS = """

    def {name}():
        x = torch.ones(2)
        kept = _scale(x, x, 3.0)
        x.zero_()
        program = torch.compile(lambda t: torch.ops.{ns}.scale(t, t))
        program(torch.ones(4))
        try:
            _scale(torch.ones(2), torch.ones(3))
        except ValueError:
            pass
        return {"kept": kept}
"""


def test_a_named_function_is_recorded_with_the_arguments_before_the_call(
    project: Project, namespace: str
) -> None:
    loaded = project(more=CALLS.replace("{name}", "try_it"))
    found = gathered(loaded, samples=[f"{namespace}_package:try_it"])
    first, second = own(found)
    assert first.args[0].tolist() == [1.0, 1.0]
    assert first.args[2] == 3.0
    assert second.args[0].shape == (4,)
    assert "synthesised" not in found.summary


def test_the_targets_own_sample_calls_are_used_and_named(project: Project, namespace: str) -> None:
    found = gathered(project(more=CALLS.replace("{name}", "sample_calls")))
    assert f"2 from sample_calls() of {namespace}_package" in found.summary
    assert "synthesised" in found.summary


def test_a_named_function_may_return_samples(project: Project, tmp_path: Path) -> None:
    loaded = project()
    file = tmp_path / "calls.py"
    file.write_text("import torch\ndef rows():\n    yield (torch.ones(5), torch.ones(5)), {}\n")
    (sample,) = own(gathered(loaded, samples=[f"{file}:rows"]))
    assert sample.args[0].shape == (5,)


def test_what_a_named_function_raises_is_told(project: Project, tmp_path: Path) -> None:
    loaded = project()
    file = tmp_path / "calls.py"
    file.write_text("def rows():\n    raise KeyError('gone')\n")
    found = gathered(loaded, samples=[f"{file}:rows"])
    assert any(
        each.promise is SAMPLE_FAILS and f"{file}:rows raised KeyError" in each.message
        for each in found.observations
    )


@pytest.mark.parametrize("named", ["no_such_module:f", "{file}:gone"])
def test_a_function_that_is_not_there_is_refused(
    project: Project, tmp_path: Path, named: str
) -> None:
    loaded = project()
    (tmp_path / "calls.py").write_text("")
    with pytest.raises(LoadError, match="--samples"):
        gathered(loaded, samples=[named.replace("{file}", str(tmp_path / "calls.py"))])


def test_saved_samples_are_read_back_as_they_were(project: Project, tmp_path: Path) -> None:
    loaded = project()
    file = tmp_path / "opscaffold_samples.py"
    made_up = own(gathered(loaded, save=str(file)))
    text = file.read_text()
    ast.parse(text)
    read = own(gathered(loaded))
    op = _op(loaded)
    assert [each.label for each in read] == [each.label for each in made_up]
    for one, other in zip(read, made_up, strict=True):
        left, right = op.arguments(one), op.arguments(other)
        assert list(left) == list(right)
        assert layout_key(left.values()) == layout_key(right.values())
        for name, value in left.items():
            if isinstance(value, Tensor):
                assert torch.equal(value, right[name])


def test_saving_adds_what_is_missing_and_keeps_the_rest(
    project: Project, tmp_path: Path, namespace: str
) -> None:
    samples = dedent(WRITTEN).replace("{ns}::scale", "other::op")
    loaded = project(samples)
    file = tmp_path / "opscaffold_samples.py"
    gathered(loaded, save=str(file))
    text = file.read_text()
    assert text.startswith(samples)
    space: dict[str, Any] = {}
    exec(compile(text, str(file), "exec", dont_inherit=True), space)
    assert set(space["SAMPLES"]) == {"other::op", f"{namespace}::scale"}
    gathered(loaded, save=str(file))
    assert file.read_text() == text


def test_a_file_that_is_no_table_of_samples_is_not_added_to(
    project: Project, tmp_path: Path
) -> None:
    loaded = project()
    file = tmp_path / "notes.py"
    file.write_text("x = 1\n")
    with pytest.raises(LoadError, match="cannot be added to"):
        gathered(loaded, save=str(file))
    assert file.read_text() == "x = 1\n"


def test_an_op_without_a_kernel_for_any_device_here_is_said_to_be(library: Any) -> None:
    library.define("f(Tensor x) -> Tensor")
    library.impl("f", lambda x: x.clone(), "HPU")
    with pytest.raises(NotImplementedError) as raised:
        getattr(torch.ops, library.ns).f(torch.ones(2))
    told = gather._no_kernel(raised.value)
    assert told.startswith("the op has no kernel for CPU, and it has one for HPU: ")
    assert gather._no_kernel(NotImplementedError("write me")) == ""


def test_calls_that_do_not_say_of_which_op_they_are_are_told(namespace: str) -> None:
    ops = []
    for name in ("f", "g"):
        made = torch.library.custom_op(f"{namespace}::{name}", _doubled, mutates_args=())
        ops.append(op_of(made))
    recording = Recording(origin="s.py:calls", values=[((torch.ones(3),), {})])
    samples, fault = returned(recording, ops[0], ops)
    assert samples == []
    assert fault.endswith("return a dict of qualified names, or call the function f_samples")
    assert len(returned(recording, ops[0], ops[:1])[0]) == 1
    other = Recording(origin="s.py:g_samples", values=recording.values)
    assert returned(other, ops[0], ops) == ([], "")


def _doubled(x: Tensor) -> Tensor:
    return x * 2
