"""Run every case of a directory in one process, and print what came of it as JSON.

Called as ``run_cases.py before|after DIRECTORY``: each case stands in a folder of its own.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

SHORT = ("test_schema", "test_autograd_registration")
ALL = (*SHORT, "test_faketensor", "test_aot_dispatch_static", "test_aot_dispatch_dynamic")


@dataclass(frozen=True)
class Sample:
    """One way to call an op: the op, its Python name, arguments, and what it must compute.

    ``into`` is the place of the buffer in a mutable half that returns nothing; None for an out=
    op. ``mutated`` are the positions of other arguments that both halves write to.
    """

    op: str
    args: tuple[Any, ...]
    expected: torch.Tensor
    buffer: str = "out"
    kwargs: dict[str, Any] = field(default_factory=dict)
    has_fake: bool = True
    into: int | None = None
    mutated: tuple[int, ...] = ()

    def fresh_args(self) -> tuple[Any, ...]:
        """Arguments that no call has written to."""
        return tuple(a.clone() if isinstance(a, torch.Tensor) else a for a in self.args)

    def with_buffer(self, buffer: torch.Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call of the mutable half."""
        args = self.fresh_args()
        if self.into is None:
            return args, self.kwargs | {self.buffer: buffer}
        return (*args[: self.into], buffer, *args[self.into :]), self.kwargs


X = torch.arange(6.0).reshape(2, 3) + 1
V = torch.tensor([-3.0, 0.5, 2.0])
MASK = torch.tensor([True, False, True])


def samples() -> dict[str, list[Sample]]:
    rows = torch.tensor([2.0, 3.0])
    return {
        "001": [
            Sample("moss::scale_rows", (X, rows), X * rows[:, None]),
            Sample("moss::scale_rows", (X.t(), V), X.t() * V[:, None]),
        ],
        "002": [
            Sample("moss::row_sum", (X,), X.sum(1)),
            Sample("moss::row_sum", (X, True), X.sum(1)),
        ],
        "003": [Sample("moss::lift", (V, 2.5), V + 2.5)],
        "005": [
            Sample("fern::mix", (V, V * 3, 0.25), V * 1.5, buffer="out_tensor"),
            Sample("fern::mix", (V, V * 3), V * 2, buffer="out_tensor"),
        ],
        "006": [Sample("fern::half_step", (X,), X + 0.5)],
        "007": [
            Sample("fern::squash", (V,), V.clamp(-1, 1)),
            Sample("fern::squash", (V, 2.0), V.clamp(-2, 2)),
            Sample("fern::squash", (torch.empty(0),), torch.empty(0)),
        ],
        "012": [Sample("fern::gather_hits", (V, MASK), V[MASK], has_fake=False)],
        "018": [
            Sample("reed::warp", (V, V), V * V),
            Sample("reed::warp", (V, V, 2, True), V * V * -2),
            Sample("reed::warp", (V, V), V * V * -4, kwargs={"times": 4, "flip": True}),
        ],
        "025": [
            Sample("reed::normed", (V,), V / (V.norm() + 1e-5)),
            Sample("reed::normed", (V, 1.0), V / (V.norm() + 1.0)),
        ],
        "015": [
            Sample("reed::attend", (X, X, 0.5), torch.softmax(X @ X.t() * 0.5, -1) @ X, into=3)
        ],
        "022": [
            Sample(
                "reed::step", (V, V * 2, torch.ones(4, 3), 2), V * (2 + V * 2), into=4, mutated=(2,)
            ),
        ],
        "026": [
            Sample("reed::double", (V,), V * 2),
            Sample("reed::triple", (V,), V * 3),
        ],
        "030": [Sample("reed::tri", (X,), X.tril(), into=1)],
        "031": [
            Sample("glen::soft", (X,), X.softmax(-1), into=1),
            Sample("glen::soft", (X, 2.0), (X / 2).softmax(-1), into=1),
        ],
        "035": [
            Sample(
                "hill::glu",
                (V.repeat(2, 2), 7.0),
                V.repeat(2, 2)[:, :3].clamp(max=7) * V.repeat(2, 2)[:, 3:].sigmoid(),
                into=2,
            ),
        ],
        "038": [
            Sample("brook::attn_core", (X, X, 0.5), (X @ X.t() * 0.5).softmax(-1) @ X, into=3),
        ],
        "039": [Sample("brook::ramp", (V,), V.clamp(min=0))],
        "028": [Sample("reed::cube", (V,), V**3)],
        "060": [Sample("mere::stretch", (V,), V * 2)],
        "061": [
            Sample("mere::seg", (V,), V * 2),
            Sample("mere::whole", (V, 1), V * 2),
        ],
    }


def overload(qualname: str) -> Any:
    namespace, _, name = qualname.partition("::")
    return getattr(getattr(torch.ops, namespace), name).default


def prefilled(like: torch.Tensor) -> Iterator[torch.Tensor]:
    for value in (float("nan"), 7.0):
        yield torch.full(like.shape, value, dtype=like.dtype)


def check_fresh(sample: Sample) -> None:
    op = overload(sample.op)
    args = sample.fresh_args()
    result = op(*args, **sample.kwargs)
    torch.testing.assert_close(result, sample.expected)
    for index, arg in enumerate(args):
        if isinstance(arg, torch.Tensor) and arg.numel():
            assert result.untyped_storage().data_ptr() != arg.untyped_storage().data_ptr()
            assert torch.equal(arg, sample.args[index]) != (index in sample.mutated)
    assert sample.buffer not in [a.name for a in op._schema.arguments]
    assert op._schema.is_mutable == bool(sample.mutated)


def check_out(sample: Sample) -> None:
    op = overload(f"{sample.op}_out")
    for buffer in prefilled(sample.expected):
        args, kwargs = sample.with_buffer(buffer)
        result = op(*args, **kwargs)
        assert result is (buffer if sample.into is None else None)
        torch.testing.assert_close(buffer, sample.expected)
    taken = next(a for a in op._schema.arguments if a.name == sample.buffer)
    assert str(taken.type) == "Tensor"
    assert taken.is_write
    assert (torch.Tag.out in op.tags) == taken.kwarg_only == (sample.into is None)
    assert op._schema.arguments[-1 if sample.into is None else sample.into].name == sample.buffer
    missing = (
        [a for a in args if a is not buffer],
        {k: v for k, v in kwargs.items() if v is not buffer},
    )
    with pytest.raises(RuntimeError):
        op(*missing[0], **missing[1])


def check_opcheck(sample: Sample) -> None:
    utils = ALL if sample.has_fake else SHORT
    op = overload(sample.op)
    torch.library.opcheck(op, sample.fresh_args(), sample.kwargs, test_utils=list(utils))
    for buffer in prefilled(sample.expected):
        args, kwargs = sample.with_buffer(buffer)
        torch.library.opcheck(overload(f"{sample.op}_out"), args, kwargs)


def check_compiled(sample: Sample) -> None:
    functional, out_op = overload(sample.op), overload(f"{sample.op}_out")

    def fresh(*args: Any) -> torch.Tensor:
        return functional(*args, **sample.kwargs) + 1

    def into(buffer: torch.Tensor, args: Any, kwargs: Any) -> torch.Tensor:
        out_op(*args, **kwargs)
        return buffer + 1

    torch._dynamo.reset()
    if sample.has_fake:
        compiled = torch.compile(fresh, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(*sample.fresh_args()), sample.expected + 1)
    compiled = torch.compile(into, backend="aot_eager", fullgraph=True)
    for buffer in prefilled(sample.expected):
        args, kwargs = sample.with_buffer(buffer)
        torch.testing.assert_close(compiled(buffer, args, kwargs), sample.expected + 1)
        torch.testing.assert_close(buffer, sample.expected)


def callers_of_001(module: ModuleType) -> None:
    caller = importlib.import_module("caller")
    s, expected = torch.tensor([2.0, 3.0]), X * torch.tensor([[2.0], [3.0]])
    for result in caller.fresh_forms(X, s):
        torch.testing.assert_close(result, expected)
    buffer = torch.zeros(2, 3)
    assert caller.into_forms(X, s, buffer) is buffer
    torch.testing.assert_close(buffer, expected)
    torch.testing.assert_close(caller.unknown_form(X, s, None), expected)
    buffer = torch.zeros(2, 3)
    assert caller.unknown_form(X, s, buffer) is buffer
    torch.testing.assert_close(buffer, expected)
    assert caller.scale_rows is module.scale_rows
    assert caller.scale_rows_out is module.scale_rows_out


def wrong_buffers_of_006(module: ModuleType) -> None:
    for wrong in (torch.empty(1), torch.empty(2, 3, dtype=torch.float64)):
        with pytest.raises(ValueError, match="bad destination"):
            module.half_step_out(X, out=wrong)
    with pytest.raises(ValueError, match="q must be a matrix"):
        module.half_step_out(V, out=torch.empty(3))
    with pytest.raises(ValueError, match="q must be a matrix"):
        module.half_step(V)
    assert "out" not in module.half_step._init_fn.__doc__.split()
    assert "out:" in module.half_step_out._init_fn.__doc__


def refused_limits_of_007(module: ModuleType) -> None:
    with pytest.raises(ValueError, match="limit"):
        module.squash(V, 0.0)
    with pytest.raises(ValueError, match="limit"):
        module.squash_out(V, -1.0, out=torch.empty(3))


def gradients_of_028(module: ModuleType) -> None:
    x = V.double().requires_grad_()
    assert torch.autograd.gradcheck(module.cube, (x,))
    torch.library.opcheck(module.cube, (x,))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        module.cube_out(x, out=torch.empty_like(x))
    with torch.no_grad():
        module.cube_out(x, out=torch.empty_like(x))


def untouched_op_of_003(module: ModuleType) -> None:
    torch.testing.assert_close(module.tilt(V, k=3, bias=1.0), V * 3 + 1)


def package_of_060(module: ModuleType) -> None:
    package = module.pkg
    assert "stretch_out" in package.__all__
    assert package.stretch_out is package.ops.stretch_out
    buffer = torch.empty(3)
    assert package.stretch_out(V, out=buffer) is buffer
    torch.testing.assert_close(package.api.double_stretch(V), V * 4)


MORE: dict[str, Callable[[ModuleType], None]] = {
    "001": callers_of_001,
    "003": untouched_op_of_003,
    "006": wrong_buffers_of_006,
    "007": refused_limits_of_007,
    "028": gradients_of_028,
    "060": package_of_060,
}


class _Outcomes:
    """Keeps how each test of a nested pytest run came out."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self.found[report.nodeid.rpartition("::")[2]] = report.outcome


def plain(value: Any) -> Any:
    """A result as JSON can hold it."""
    if isinstance(value, torch.Tensor):
        return {"dtype": str(value.dtype), "values": value.tolist()}
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def run_case(directory: Path, *, after: bool) -> dict[str, Any]:
    number = directory.name[:3]
    sys.path.insert(0, str(directory))
    importlib.invalidate_caches()
    try:
        module = importlib.import_module("before")
        result: dict[str, Any] = {"calls": plain(module.sample_calls()), "faults": {}}
        if after:
            for index, sample in enumerate(samples()[number]):
                for check in (check_fresh, check_out, check_opcheck, check_compiled):
                    fault = attempt(check, sample)
                    if fault:
                        result["faults"][f"{check.__name__} of {sample.op} {index}"] = fault
            if number in MORE:
                fault = attempt(MORE[number], module)
                if fault:
                    result["faults"][MORE[number].__name__] = fault
        tests = sorted(directory.glob("test_*.py"))
        if tests:
            outcomes = _Outcomes()
            options = ["-q", "--no-header", "-p", "no:cacheprovider", "-c", "/dev/null"]
            options += ["--rootdir", str(directory), *map(str, tests)]
            pytest.main(options, plugins=[outcomes])
            result["tests"] = outcomes.found
        return result
    finally:
        sys.path.remove(str(directory))
        for name in [n for n in sys.modules if n.partition(".")[0] in {"before", "caller"}]:
            del sys.modules[name]


def attempt(check: Callable[[Any], None], argument: Any) -> str:
    try:
        check(argument)
    except Exception:
        return traceback.format_exc()
    return ""


def main() -> None:
    when, root = sys.argv[1:]
    results = {}
    for directory in sorted(Path(root).iterdir()):
        try:
            results[directory.name[:3]] = run_case(directory, after=when == "after")
        except Exception:
            results[directory.name[:3]] = {"broken": traceback.format_exc()}
    print("\n" + json.dumps(results))


if __name__ == "__main__":
    main()
