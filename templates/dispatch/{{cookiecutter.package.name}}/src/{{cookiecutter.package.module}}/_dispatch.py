"""A mode that ops have rules for: replace it by the one that you dispatch to."""

# PyTorch's own has no types.
# mypy: allow-untyped-calls

from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class CallLog(TorchDispatchMode):
    """Logs the calls of the ops that have a rule for it, by name; others it lets through.

    Use it as a context: ``with CallLog() as log``, then read ``log.called``.
    """

    called: list[str]

    def __init__(self) -> None:
        super().__init__()
        self.called = []

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))
