"""The C++ half of the package: a shared library whose loading registers its ops with PyTorch."""

import functools
from pathlib import Path
from typing import Any

import torch

# PyTorch gives this no types.
_load_library: Any = torch.ops.load_library

BUILD = "python -m pip install --no-build-isolation -e ."


def library_path() -> Path:
    """Where the library is.

    Raises ImportError where it is not built.
    """
    folder = Path(__file__).resolve().parent
    for name in ("_C.so", "_C.pyd"):
        if (folder / name).is_file():
            return folder / name
    raise ImportError(f"the C++ half of {__package__} is not built; in its sources, run: {BUILD}")


@functools.cache
def _load() -> None:
    path = library_path()
    try:
        _load_library(path)
    except OSError as error:
        said = f"{path} does not load into torch {torch.__version__}: {error.__cause__ or error}"
        raise ImportError(f"{said}; build it again: {BUILD}") from error


def cpp_op(namespace: Any, name: str) -> Any:
    """An op that the library registers in a namespace of ``torch.ops``.

    Raises ImportError where the library is not built, or was built without the op.
    """
    _load()
    try:
        return getattr(namespace, name).default
    except AttributeError:
        missing = f"{library_path()} has no op {name}: it is older than its sources"
        raise ImportError(f"{missing}; build it again: {BUILD}") from None


def refuse_backward(qualname: str) -> None:
    """Make an op that has no backward raise RuntimeError where a gradient is asked for.

    Autograd would record PyTorch's ops in its kernel, and know nothing of a kernel without them.
    """

    def refuse(
        ctx: Any, inputs: Any, output: Any, keyword_only_inputs: dict[str, Any] | None = None
    ) -> None:
        lost = "an argument requires grad, and its gradient would be lost"
        raise RuntimeError(f"{qualname}: {lost}; call it under torch.no_grad()")

    def backward(ctx: Any, *grads: Any) -> None:
        raise RuntimeError(f"{qualname} has no backward")

    torch.library.register_autograd(qualname, backward, setup_context=refuse)


def fake_nothing(*args: Any, **kwargs: Any) -> None:
    """The fake kernel of an op that only writes: it returns nothing."""
