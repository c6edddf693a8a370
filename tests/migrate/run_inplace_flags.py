"""Run migrated ops that had a flag in one process; print what went wrong as JSON.

Called as ``run_inplace_flags.py DIRECTORY``, which holds ``specs.json`` and the modules it names.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

X = torch.tensor([[-2.0, -1.0, 0.0], [1.0, 2.0, 3.0]])


def expected(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x > 0, x, x * 0.5)


def shares(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def hold_fresh(call: Any) -> None:
    """A call that must leave its argument alone and return other memory."""
    x = X.clone()
    y = call(x)
    assert torch.equal(x, X), "it writes to its argument"
    assert not shares(x, y), "it returns memory of its argument"
    torch.testing.assert_close(y, expected(X))


def hold_inplace(call: Any) -> None:
    """A call that must write to its argument and return that very tensor."""
    x = X.clone()
    y = call(x)
    assert y is x, f"it returns {type(y)}, not its argument"
    torch.testing.assert_close(x, expected(X))


def hold_flags(module: Any, when: bool) -> None:
    """The functions of a module that call the op, in every way that it was called."""
    hold_fresh(module.fresh)
    hold_inplace(module.into)
    for function in (module.either, module.keyword, module.attribute):
        hold_inplace(lambda x, f=function: f(x, when))
        hold_fresh(lambda x, f=function: f(x, not when))
    for function, writes in ((module.unused, True), (module.unused_fresh, False)):
        x = X.clone()
        assert function(x) is None
        torch.testing.assert_close(x, expected(X) if writes else X)
    for value in (when, not when):
        x = X.clone()
        module.unused_either(x, value)
        torch.testing.assert_close(x, expected(X) if value is when else X)
    x = X.clone()
    torch.testing.assert_close(module.nested(x), expected(expected(X)) + 1)
    torch.testing.assert_close(x, expected(X))
    x = X.clone()
    seen: list[bool] = []
    assert module.once(x, seen) is x
    assert seen == [when], "the flag is not evaluated once"
    if hasattr(module, "omitted"):
        (hold_inplace if module.OMITTED is when else hold_fresh)(module.omitted)
        (hold_inplace if module.OMITTED is when else hold_fresh)(module.omitted_op)


def hold_contracts(spec: dict[str, Any]) -> None:
    namespace, _, name = spec["op"].partition("::")
    functional = getattr(getattr(torch.ops, namespace), name).default
    inplace = getattr(getattr(torch.ops, namespace), f"{name}_").default
    assert not functional._schema.is_mutable
    assert [a.name for a in inplace._schema.arguments if a.is_write] == ["x"]
    for op in (functional, inplace):
        assert spec["flag"] not in [a.name for a in op._schema.arguments]
    assert (torch.Tag.inplace in inplace.tags) != spec["void"]
    assert len(inplace._schema.returns) == (not spec["void"])
    arguments = (X.clone(), 0.5) if spec["first"] else (0.5, X.clone())
    for op in (functional, inplace):
        torch.library.opcheck(op, arguments)


def main() -> None:
    directory = Path(sys.argv[1])
    sys.path.insert(0, str(directory))
    faults = {}
    for spec in json.loads((directory / "specs.json").read_text("utf-8")):
        try:
            module = importlib.import_module(spec["module"])
            hold_contracts(spec)
            hold_flags(module, spec["when"])
        except Exception:
            faults[spec["module"]] = traceback.format_exc()
    print("\n" + json.dumps(faults))


if __name__ == "__main__":
    main()
