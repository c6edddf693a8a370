"""How the placeholder's arithmetic reads tensors and writes them, in one language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Dtype and device of a new tensor, as expressions."""

    dtype: str
    device: str


class Dialect:
    """PyTorch calls, and the base of other dialects.

    ``reads_as_is`` is whether a tensor's name is an expression for its numbers.
    """

    reads_as_is = True

    def zero(self) -> str:
        """Nothing, to add to."""
        return "torch.zeros(())"

    def read(self, tensor: str) -> str:
        """The numbers of a tensor."""
        return tensor

    def copied(self, numbers: str) -> str:
        """The same numbers, in memory that nothing else writes."""
        return f"{numbers}.clone()"

    def writing(self, tensor: str, numbers: str, *, scalar: bool) -> str:
        """A statement that fills a tensor; ``scalar`` numbers are one Python number."""
        return f"{tensor}.{'fill_' if scalar else 'copy_'}({numbers})"

    def selected(self, numbers: str, mask: str, place: Place) -> str:
        """A new tensor of the numbers where a mask is true."""
        return f"torch.masked_select({numbers}, {mask}).to({place.dtype})"

    def made(self, size: str, numbers: str, place: Place, *, scalar: bool) -> str:
        """A new tensor of a size, filled."""
        told = f"dtype={place.dtype}, device={place.device}"
        if scalar:
            return f"torch.full({size}, {numbers}, {told})"
        return f"torch.empty({size}, {told}).copy_({numbers})"


PYTORCH = Dialect()


class NumpyDialect(Dialect):
    """numpy, through the helpers of a generated package; ``names`` are what those are called."""

    reads_as_is = False

    def __init__(self, names: Mapping[str, str]) -> None:
        """Take the names of ``np``, ``as_array``, ``fill`` and ``new_tensor``."""
        self.names = names

    def zero(self) -> str:
        """An array of no dimension."""
        return f"{self.names['np']}.zeros(())"

    def read(self, tensor: str) -> str:
        """The tensor as an array."""
        return f"{self.names['as_array']}({tensor})"

    def copied(self, numbers: str) -> str:
        """A copy of an array."""
        return f"{numbers}.copy()"

    def writing(self, tensor: str, numbers: str, *, scalar: bool) -> str:  # noqa: ARG002
        """A call that copies."""
        return f"{self.names['fill']}({tensor}, {numbers})"

    def selected(self, numbers: str, mask: str, place: Place) -> str:
        """Indexed by the mask."""
        return self._new(f"({numbers})[{mask}]", place)

    def made(self, size: str, numbers: str, place: Place, *, scalar: bool) -> str:  # noqa: ARG002
        """Filled by numpy."""
        return self._new(f"{self.names['np']}.full({size}, {numbers})", place)

    def _new(self, numbers: str, place: Place) -> str:
        return f"{self.names['new_tensor']}({numbers}, {place.dtype}, {place.device})"
