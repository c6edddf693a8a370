"""The contract of one operator: its schema as data, and the kind that follows from it.

The four kinds are those of PyTorch's own decision tree (torch.library reference, 2.13).
"""

from __future__ import annotations

import enum

from opscaffold.records import dataclass, field


class Kind(enum.Enum):
    """What an op does to its arguments. Every contract is of exactly one kind."""

    FUNCTIONAL = "functional"
    INPLACE = "in-place"
    OUT = "out="
    MUTABLE = "mutable"


class Tag(enum.Enum):
    """The tags that make a contract checkable; ``value`` is the attribute of ``torch.Tag``."""

    INPLACE = "inplace"
    OUT = "out"


@dataclass(frozen=True, slots=True)
class Alias:
    """An alias annotation: ``(a!)``, ``(a)``, ``(a -> *)``, ``(a|b!)``.

    ``before`` and ``after`` are the alias sets on entry and exit; ``after`` is empty when the
    annotation has no arrow. ``write`` says that the memory is written. A ``before`` without
    elements is the shorthand ``Tensor!``: written, in an alias set of its own.
    """

    before: tuple[str, ...]
    write: bool = False
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BaseType:
    """A type without structure: ``Tensor``, ``int``, ``SymInt``, ``Scalar``, ``ScalarType``..."""

    name: str
    alias: Alias | None = None


@dataclass(frozen=True, slots=True)
class OptionalType:
    """``T?``. ``alias`` is an annotation written behind the question mark."""

    of: SchemaType
    alias: Alias | None = None


@dataclass(frozen=True, slots=True)
class ListType:
    """``T[]`` or ``T[3]``. ``alias`` is an annotation written behind the bracket."""

    of: SchemaType
    size: int | None = None
    alias: Alias | None = None


@dataclass(frozen=True, slots=True)
class GenericType(BaseType):
    """``Dict(K, V)``, a tuple ``(A, B)`` (named ``tuple``), ``Union(A, B)``, ``Future(T)``...

    A BaseType, so that code which only asks for the element's name need not know of it: no
    tensor inside it can be declared mutated, in any torch release.
    """

    args: tuple[SchemaType, ...] = ()


SchemaType = BaseType | OptionalType | ListType


@dataclass(frozen=True, slots=True)
class Symbol:
    """A default that is a bare word in the schema: ``Mean``, ``long``, ``contiguous_format``."""

    name: str


DefaultValue = int | float | complex | bool | str | None | Symbol | tuple["DefaultValue", ...]


@dataclass(frozen=True, slots=True)
class Default:
    """A parameter's default; a wrapper, so that a default of ``None`` differs from no default."""

    value: DefaultValue


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of an op."""

    name: str
    type: SchemaType
    default: Default | None = None
    kw_only: bool = False

    @property
    def alias(self) -> Alias | None:
        """The first alias annotation met from the outside in, or None."""
        return alias_of(self.type)

    @property
    def mutated(self) -> bool:
        """Whether the schema says that the op writes to this argument."""
        alias = self.alias
        return alias is not None and alias.write

    @property
    def is_tensor_like(self) -> bool:
        """Whether this is a Tensor, an Optional or a list of them."""
        return base_name(self.type) == "Tensor"


@dataclass(frozen=True, slots=True)
class Return:
    """One return of an op. ``name`` is None where the schema names none."""

    type: SchemaType
    name: str | None = None


@dataclass(frozen=True, slots=True)
class OpContract:
    """Everything an op promises: declared by an author, observed, or aimed at by a repair.

    ``namespace`` is empty for a schema written without one (``foo(Tensor x) -> Tensor``), and
    ``name`` for a bare signature (``(Tensor x) -> Tensor``). ``vararg`` and ``varret`` say that
    the arguments or the returns end in ``...``, which no custom op can have.
    """

    namespace: str
    name: str
    parameters: tuple[Parameter, ...]
    returns: tuple[Return, ...]
    overload: str = ""
    tags: frozenset[Tag] = field(default_factory=frozenset)
    vararg: bool = False
    varret: bool = False

    @property
    def qualname(self) -> str:
        """``ns::name``, or ``ns::name.overload`` where the op is an overload."""
        prefix = f"{self.namespace}::" if self.namespace else ""
        suffix = f".{self.overload}" if self.overload else ""
        return f"{prefix}{self.name}{suffix}"

    @property
    def mutated(self) -> tuple[str, ...]:
        """Names of the mutated arguments, in declaration order: what ``mutates_args`` takes."""
        return tuple(p.name for p in self.parameters if p.mutated)

    @property
    def kind(self) -> Kind:
        """The kind the contract declares: by its tag, else by whether it mutates anything."""
        if Tag.INPLACE in self.tags:
            return Kind.INPLACE
        if Tag.OUT in self.tags:
            return Kind.OUT
        return Kind.MUTABLE if self.mutated else Kind.FUNCTIONAL


def alias_of(type_: SchemaType) -> Alias | None:
    """The outermost alias annotation of a type, or None."""
    while type_.alias is None and not isinstance(type_, BaseType):
        type_ = type_.of
    return type_.alias


def base_name(type_: SchemaType) -> str:
    """The element type's name under any Optional and list: ``Tensor`` of ``Tensor[]?``."""
    while not isinstance(type_, BaseType):
        type_ = type_.of
    return type_.name
