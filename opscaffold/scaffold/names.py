"""Names for generated code that no argument and no op of the same module has."""

from __future__ import annotations

from collections.abc import Iterable


class Names:
    """Hands out one name for each purpose, the purpose itself where it is free."""

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._chosen: dict[str, str] = {}

    def __getitem__(self, purpose: str) -> str:
        """The name for a purpose, always the same one."""
        if purpose not in self._chosen:
            name = purpose
            while name in self._taken:
                name += "_"
            self._chosen[purpose] = name
            self._taken.add(name)
        return self._chosen[purpose]

    @property
    def sum(self) -> str:
        """The builtin ``sum``, under another name where an op or an argument has that."""
        return self["builtin_sum"] if self.sum_is_hidden else "sum"

    @property
    def sum_is_hidden(self) -> bool:
        """Whether ``sum`` has to be imported under the name of its own."""
        return "sum" in self._taken
