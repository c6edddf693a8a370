"""Run ops before and after their repair on real tensors; print what is wrong of each as JSON.

Called as ``run_repaired.py JOBS``: a JSON file with, by name, the two sources, the name of the op
in them, the arguments to call it with, and whether it has a fake kernel.
"""

from __future__ import annotations

import json
import linecache
import sys
import traceback
import types
import warnings
from pathlib import Path
from typing import Any

import torch

SHORT = ("test_schema", "test_autograd_registration")
ALL = (*SHORT, "test_faketensor", "test_aot_dispatch_static", "test_aot_dispatch_dynamic")


def load(name: str, source: str) -> types.ModuleType:
    """Import a module from its text; infer_schema looks at the lines of functions."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    path = f"<{name}>"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    exec(compile(source, path, "exec"), module.__dict__)
    return module


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in arguments or results, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in tensors(v)] if isinstance(value, list | tuple) else []


def overload(op: Any) -> Any:
    """The overload that opcheck takes."""
    op = getattr(op, "_opoverload", op)
    return getattr(op, "default", op)


def arguments(call: str) -> tuple[Any, ...]:
    """The same arguments every time."""
    torch.manual_seed(0)
    found: tuple[Any, ...] = eval(call, {"torch": torch})
    return found


def storages(value: Any) -> list[int]:
    return [t.untyped_storage().data_ptr() for t in tensors(value) if t.numel()]


def meant(op: Any, call: str) -> tuple[Any, Any]:
    """What the kernel itself returns and leaves in its arguments, unchecked by PyTorch."""
    args = arguments(call)
    return getattr(op, "_init_fn", op)(*args), args


def close(left: Any, right: Any) -> bool:
    left, right = tensors(left), tensors(right)
    if len(left) != len(right):
        return False
    for one, other in zip(left, right, strict=True):
        torch.testing.assert_close(one, other, check_stride=False)
    return True


def check(before: Any, op: Any, call: str, *, traced: bool) -> None:
    """Hold a repaired op to what it meant, to its contract and to its fake kernel."""
    args = arguments(call)
    result = op(*args)
    if before is not None:
        wanted, written = meant(before, call)
        assert close(result, wanted), "another result"
        assert close(args, written), "other arguments"
    tags = {torch.Tag.inplace, torch.Tag.out} & set(op.tags)
    own = storages(result)
    assert tags or len(set(own)) == len(own), "results share memory"
    assert tags or not set(own) & set(storages(args)), "results share an argument's memory"
    torch.library.opcheck(op, arguments(call), test_utils=list(ALL if traced else SHORT))


def run(job: dict[str, Any]) -> dict[str, Any]:
    name, attribute = job["name"], job["op"]
    try:
        before = getattr(load(f"before_{name}", job["before"]), attribute)
    except (ValueError, RuntimeError):
        before = None  # PyTorch refused the definition.
    faults = []
    op = overload(getattr(load(f"after_{name}", job["after"]), attribute))
    for call in job["calls"]:
        try:
            check(before, op, call, traced=job["traced"])
        except Exception:
            faults.append(f"{call}\n{traceback.format_exc()}")
    return {"faults": faults}


def main() -> None:
    warnings.simplefilter("ignore")
    results = {}
    for job in json.loads(Path(sys.argv[1]).read_text("utf-8")):
        try:
            results[job["name"]] = run(job)
        except Exception:
            results[job["name"]] = {"faults": [traceback.format_exc()]}
    print("\n" + json.dumps(results))


if __name__ == "__main__":
    main()
