"""Run generated and migrated modules in one process; print what went wrong as JSON.

Called as ``run_generated.py DIRECTORY``, which holds ``specs.json`` and the modules it names.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

UTILS = ("test_schema", "test_faketensor")
X = torch.arange(6.0).reshape(2, 3) - 2


def expected(spec: dict[str, Any]) -> torch.Tensor:
    return X * spec["factor"] + 1


def check(spec: dict[str, Any]) -> None:
    module = importlib.import_module(spec["module"])
    want, name = expected(spec), spec["buffer"]
    torch.testing.assert_close(module.fresh(X), want)
    for value in (float("nan"), 5.0):
        for function in (module.into, module.either):
            buffer = torch.full_like(X, value)
            assert function(X, buffer) is buffer
            torch.testing.assert_close(buffer, want)
    torch.testing.assert_close(module.either(X, None), want)
    namespace, _, op = spec["op"].partition("::")
    functional = getattr(getattr(torch.ops, namespace), op).default
    out = getattr(getattr(torch.ops, namespace), f"{op}_out").default
    into, workspace = spec.get("into", False), spec.get("workspace", False)
    assert functional._schema.is_mutable == workspace
    assert (torch.Tag.out in out.tags) != into
    assert len(out._schema.returns) == (not into)
    rest: dict[str, Any] = {"k": spec["factor"]} | ({"ws": torch.empty(2)} if workspace else {})
    torch.library.opcheck(functional, (X,), rest, test_utils=UTILS)
    torch.library.opcheck(out, (X,), rest | {name: torch.full_like(X, 3.0)}, test_utils=UTILS)


def check_compiled(spec: dict[str, Any]) -> None:
    """Compare what Inductor makes of the callers, reading the buffer afterwards."""
    module = importlib.import_module(spec["module"])
    want = expected(spec)
    torch._dynamo.reset()
    fresh = torch.compile(lambda x: module.fresh(x) * 2, fullgraph=True)
    torch.testing.assert_close(fresh(X), want * 2)
    into = torch.compile(lambda x, buffer: module.into(x, buffer) * 2 + buffer, fullgraph=True)
    for value in (float("nan"), 5.0):
        buffer = torch.full_like(X, value)
        torch.testing.assert_close(into(X, buffer), want * 3)
        torch.testing.assert_close(buffer, want)


def main() -> None:
    directory = Path(sys.argv[1])
    sys.path.insert(0, str(directory))
    faults = {}
    for number, spec in enumerate(json.loads((directory / "specs.json").read_text("utf-8"))):
        try:
            check(spec)
            if number % 14 == 0:
                check_compiled(spec)
        except Exception:
            faults[spec["module"]] = traceback.format_exc()
    print("\n" + json.dumps(faults))


if __name__ == "__main__":
    main()
