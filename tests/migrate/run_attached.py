"""Import migrated modules and run what each is held to; print what came of it as JSON.

Called as ``run_attached.py DIRECTORY``: beside each module stands its ``<name>.check`` file, whose
code runs in a namespace with the module's names and the helpers below.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import torch


def out_twice(op: Any, args: tuple[Any, ...], expected: torch.Tensor, **kwargs: Any) -> None:
    """The out= op must overwrite and return its buffer, whatever that held."""
    for value in (float("nan"), 7.0):
        buffer = torch.full_like(expected, value)
        assert op(*args, **kwargs, out=buffer) is buffer
        torch.testing.assert_close(buffer, expected)


def into_twice(op: Any, call: Any, expected: torch.Tensor) -> None:
    """A mutable op must overwrite its buffer and return nothing. ``call`` places the buffer."""
    for value in (float("nan"), 7.0):
        buffer = torch.full_like(expected, value)
        assert call(op, buffer) is None
        torch.testing.assert_close(buffer, expected)


def sound(op: Any, *args: Any, **kwargs: Any) -> None:
    """Every check that PyTorch has of an op must pass."""
    torch.library.opcheck(op, args, kwargs)


def grads(function: Any, *inputs: torch.Tensor) -> None:
    """The gradients must be those that finite differences give."""
    doubles = [t.double().detach().requires_grad_() for t in inputs]
    assert torch.autograd.gradcheck(function, doubles)


def mapped(function: Any, batch: torch.Tensor, in_dim: int = 0) -> None:
    """vmap must give what a loop gives, without falling back on one."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = torch.vmap(function, in_dims=in_dim)(batch)
    torch.testing.assert_close(result, torch.stack([function(t) for t in batch.unbind(in_dim)]))


HELPERS = {f.__name__: f for f in (out_twice, into_twice, sound, grads, mapped)}


def main() -> None:
    directory = Path(sys.argv[1])
    sys.path.insert(0, str(directory))
    warnings.simplefilter("ignore")
    results = {}
    for check in sorted(directory.glob("*.check")):
        try:
            module = importlib.import_module(check.stem)
            names = {**vars(module), **HELPERS, "torch": torch}
            exec(compile(check.read_text(), check.name, "exec"), names)
            results[check.stem] = ""
        except Exception:
            results[check.stem] = traceback.format_exc()
    print("\n" + json.dumps(results))


if __name__ == "__main__":
    main()
