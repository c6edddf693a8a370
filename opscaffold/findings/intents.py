"""What a repair would do: the closed set of intents that rules emit and migrate carries out.

``op`` is the qualified name of the op that an intent is about. ``safe`` says that the repair
keeps what the program does on every input that the op accepted, or turns an error into the
success that was meant; any other is made only where it is asked for, and ``why`` says what
callers could see of it.
"""

from __future__ import annotations

from opscaffold.records import dataclass


@dataclass(frozen=True, slots=True)
class SplitMaybeOut:
    """Split an op that takes an Optional buffer into a functional and a mutable half.

    ``buffer`` is the name of the parameter. ``more`` are others that are given with it or not at
    all; together they are in the order in which they are returned.
    """

    op: str
    buffer: str
    safe: bool = True
    why: str = ""
    more: tuple[str, ...] = ()

    @property
    def buffers(self) -> tuple[str, ...]:
        """All the parameters."""
        return (self.buffer, *self.more)


@dataclass(frozen=True, slots=True)
class SplitInplaceFlag:
    """Split an op that a bool makes work in place into a functional and an in-place one.

    ``flag`` is the parameter, ``argument`` what is written to and returned where it is ``when``.
    """

    op: str
    flag: str
    argument: str
    when: bool
    safe: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class SetMutates:
    """Declare that the op mutates ``names``, and nothing else."""

    op: str
    names: tuple[str, ...]
    safe: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class AddTag:
    """Give an op that returns what it mutates the tag for that: ``inplace`` or ``out``."""

    op: str
    tag: str
    safe: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class ReturnNothing:
    """Let an op that returns what it mutates return nothing; callers use their argument."""

    op: str
    safe: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class CloneReturn:
    """Return a copy wherever the op returns memory that is not its own."""

    op: str
    safe: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class RenameOverload:
    """Give an out= overload a name of its own, ``new``."""

    op: str
    new: str
    safe: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class TagSchema:
    """Make a mutated, returned argument of a schema keyword-only, and tag the op."""

    op: str
    safe: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class MendFake:
    """Drop a fake kernel that PyTorch makes itself, or take out what it must not hold."""

    op: str
    safe: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class WriteFake:
    """Write the fake kernel that is missing."""

    op: str
    safe: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class KeepCallable:
    """Leave a plain function under the name of an op that was split, called as it used to be.

    ``name`` is that name, ``head`` its parameters and return as they were written. ``buffer`` is
    the parameter that the op lost, ``out_op`` the op that takes it now, by the name ``out_name``:
    at the positional place ``index``, returning nothing, or (None) by keyword, returning it.
    Where what the op lost is a flag, ``flag`` is its value for which ``out_op`` is called, and
    ``written`` the argument to return behind that, where ``out_op`` returns nothing.
    """

    op: str
    name: str
    head: str
    buffer: str
    out_op: str
    out_name: str
    index: int | None
    safe: bool = True
    why: str = ""
    flag: bool | None = None
    written: str = ""


Intent = (
    SplitMaybeOut
    | SplitInplaceFlag
    | SetMutates
    | AddTag
    | ReturnNothing
    | CloneReturn
    | RenameOverload
    | TagSchema
    | MendFake
    | WriteFake
    | KeepCallable
)
