"""Run migrated ops of several buffers in one process; print what went wrong as JSON.

Called as ``run_paired.py DIRECTORY``, which holds ``specs.json`` and the modules it names.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

X = torch.arange(6.0).reshape(2, 3) - 2


def wanted(places: list[int]) -> list[torch.Tensor]:
    """What the ops compute, in the order in which they return it."""
    values = [X * 3 + 1, X.sum(1), X.t() * 2]
    return [values[place] for place in places]


def overload(qualname: str) -> Any:
    namespace, _, name = qualname.partition("::")
    return getattr(getattr(torch.ops, namespace), name).default


def check_buffers(call: Any, want: list[torch.Tensor], *, into: bool, op: bool) -> None:
    for prefill in (float("nan"), 7.0):
        buffers = [torch.full(w.shape, prefill) for w in want]
        x = X.clone()
        given = call(x, *buffers)
        if op and into:
            assert given is None
        else:
            assert all(g is b for g, b in zip(given, buffers, strict=True)), "not the buffers"
        for buffer, value in zip(buffers, want, strict=True):
            torch.testing.assert_close(buffer, value)
        assert torch.equal(x, X)


def check(spec: dict[str, Any]) -> None:
    module = importlib.import_module(spec["module"])
    order, into = spec["order"], spec["into"]
    want = wanted(spec["places"])
    for function in module.FRESH:
        for found, value in zip(function(X), want, strict=True):
            torch.testing.assert_close(found, value)
    for function in module.INTO:
        check_buffers(function, want, into=into, op=False)
    functional, out = overload(spec["op"]), overload(f"{spec['op']}_out")
    assert not functional._schema.is_mutable
    taken = [a.name for a in functional._schema.arguments]
    assert not set(order) & set(taken)
    buffers = [a for a in out._schema.arguments if a.is_write]
    assert [a.name for a in buffers] == order
    assert all(a.kwarg_only != into and str(a.type) == "Tensor" for a in buffers)
    assert (torch.Tag.out in out.tags) != into
    ws = {"ws": torch.ones(2)} if spec.get("workspace") else {}
    rest = {"k": 3.0} | ws

    def by_name(x: torch.Tensor, *given: torch.Tensor) -> Any:
        return out(x, **rest, **dict(zip(order, given, strict=True)))

    check_buffers(by_name, want, into=into, op=True)
    torch.library.opcheck(functional, (X,), rest)
    for prefill in (float("nan"), 7.0):
        given = {n: torch.full(w.shape, prefill) for n, w in zip(order, want, strict=True)}
        torch.library.opcheck(out, (X,), rest | given)
    torch._dynamo.reset()

    def fresh(x: torch.Tensor) -> list[torch.Tensor]:
        return [t + 1 for t in functional(x, **rest)]

    def filled(x: torch.Tensor, *given: torch.Tensor) -> list[torch.Tensor]:
        by_name(x, *given)
        return [t + 1 for t in given]

    given_ = [torch.full(w.shape, 7.0) for w in want]
    for function, arguments in ((fresh, ()), (filled, given_)):
        compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
        for found, value in zip(compiled(X, *arguments), want, strict=True):
            torch.testing.assert_close(found, value + 1)


def main() -> None:
    directory = Path(sys.argv[1])
    sys.path.insert(0, str(directory))
    faults = {}
    for spec in json.loads((directory / "specs.json").read_text("utf-8")):
        try:
            check(spec)
        except Exception:
            faults[spec["module"]] = traceback.format_exc()
    print("\n" + json.dumps(faults))


if __name__ == "__main__":
    main()
