"""Data classes that cost little until they are used.

``dataclass`` here does what that of the standard library does, which writes the source of every
method and compiles it when the class is made: for a hundred classes, half of the time that a
short command takes. This one compiles ``__init__`` when the first instance is made, and nothing
else. Type checkers see the standard one; ``replace``, ``fields`` and ``match`` work as with it.

What is seldom wanted (``order``, ``__post_init__``, ``InitVar``, ``KW_ONLY``, any argument of
``field`` but ``default``, ``default_factory`` and ``compare``) is left to the standard library,
and so is a class that derives from one of its data classes.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

__all__ = ["dataclass", "field", "replace"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from dataclasses import MISSING, FrozenInstanceError
    from operator import attrgetter
    from reprlib import recursive_repr
    from types import MemberDescriptorType

    # ruff: noqa: N807

    _OWN = "__record_fields__"
    _SPECIAL = ("ClassVar", "InitVar", "KW_ONLY")
    _METHODS = ("__init__", "__setattr__", "__delattr__")

    def dataclass(cls=None, /, *, frozen=False, slots=False, eq=True, order=False):
        """Make a data class, as ``dataclasses.dataclass`` does of the same arguments."""

        def wrap(cls):
            if order or not _is_plain(cls):
                return dataclasses.dataclass(frozen=frozen, slots=slots, eq=eq, order=order)(cls)
            return _make(cls, frozen, slots, eq)

        return wrap if cls is None else wrap(cls)

    def _is_plain(cls):
        if hasattr(cls, "__post_init__") or any(name in vars(cls) for name in _METHODS):
            return False
        for base in cls.__mro__[1:-1]:
            if "__dataclass_fields__" in vars(base) and _OWN not in vars(base):
                return False
        for name, annotation in cls.__annotations__.items():
            if not isinstance(annotation, str) or any(word in annotation for word in _SPECIAL):
                return False
            value = vars(cls).get(name)
            if isinstance(value, dataclasses.Field) and not (
                value.init and value.repr and value.hash is None and value.kw_only is MISSING
            ):
                return False
        return True

    def _make(cls, frozen, slots, eq):
        own = {}
        for name in cls.__annotations__:
            value = vars(cls).get(name, MISSING)
            own[name] = (
                value if isinstance(value, dataclasses.Field) else dataclasses.field(default=value)
            )
            if isinstance(value, (list, dict, set)):
                raise TypeError(f"mutable default for field {name}: use default_factory")
        fields = {}
        for base in cls.__mro__[-1:0:-1]:
            fields.update(vars(base).get(_OWN, {}))
        fields.update(own)
        if slots:
            cls = _with_slots(cls, own)
        else:
            for name, value in own.items():
                if value.default is not MISSING:
                    setattr(cls, name, value.default)
                elif name in vars(cls):
                    delattr(cls, name)
        setattr(cls, _OWN, own)
        cls.__match_args__ = tuple(fields)
        cls.__dataclass_fields__ = _Standard("__dataclass_fields__", cls, fields, frozen, eq)
        cls.__dataclass_params__ = _Standard("__dataclass_params__", cls, fields, frozen, eq)
        cls.__init__ = _first_init(cls, fields, frozen)
        if "__repr__" not in vars(cls):
            cls.__repr__ = _repr(tuple(fields))
        if eq:
            _compare(cls, _key([name for name, value in fields.items() if value.compare]), frozen)
        if frozen:
            _freeze(cls, frozenset(fields))
            if slots:
                _copy_by_state(cls, tuple(fields))
        return cls

    def _with_slots(cls, own):
        """Return the class anew: slots cannot be given to one that is there."""
        inherited = {name for base in cls.__mro__ for name in vars(base).get("__slots__", ())}
        namespace = {
            name: value
            for name, value in vars(cls).items()
            if name not in own and name not in ("__dict__", "__weakref__")
        }
        namespace["__slots__"] = tuple(name for name in own if name not in inherited)
        made = type(cls)(cls.__name__, cls.__bases__, namespace)
        made.__qualname__ = cls.__qualname__
        return made

    class _Standard:
        """What the standard library keeps of a data class, made when it asks for it."""

        def __init__(self, name, owner, fields, frozen, eq):
            self.name, self.owner, self.fields = name, owner, fields
            self.frozen, self.eq = frozen, eq

        def __get__(self, instance, cls):
            twin = dataclasses.make_dataclass(
                self.owner.__name__,
                [(name, "object", _again(value)) for name, value in self.fields.items()],
                frozen=self.frozen,
                eq=self.eq,
            )
            made = getattr(twin, self.name)
            setattr(self.owner, self.name, made)
            return made

    def _again(value):
        return dataclasses.field(
            default=value.default, default_factory=value.default_factory, compare=value.compare
        )

    def _first_init(owner, fields, frozen):
        def __init__(self, *args, **kwargs):
            owner.__init__ = _init(owner, fields, frozen)
            owner.__init__(self, *args, **kwargs)

        return __init__

    def _init(owner, fields, frozen):
        names = {"_set": object.__setattr__, "_made": MISSING}
        parameters, body = [], []
        for name, value in fields.items():
            given = name
            if value.default is not MISSING:
                names[f"_default_{name}"] = value.default
                parameters.append(f"{name}=_default_{name}")
            elif value.default_factory is not MISSING:
                names[f"_factory_{name}"] = value.default_factory
                parameters.append(f"{name}=_made")
                given = f"_factory_{name}() if {name} is _made else {name}"
            else:
                parameters.append(name)
            slot = getattr(owner, name, None)
            if not frozen:
                body.append(f"self.{name} = {given}")
            elif isinstance(slot, MemberDescriptorType):
                # Bound once: half of what it takes to look each up by name.
                names[f"_set_{name}"] = slot.__set__
                body.append(f"_set_{name}(self, {given})")
            else:
                body.append(f"_set(self, {name!r}, {given})")
        lines = "\n    ".join(body or ["pass"])
        # The names are those of attributes, so that nothing but what is meant can be written.
        exec(f"def __init__({', '.join(['self', *parameters])}):\n    {lines}\n", names)  # noqa: S102
        made = names["__init__"]
        made.__qualname__ = f"{owner.__qualname__}.__init__"
        return made

    def _repr(names):
        @recursive_repr()
        def __repr__(self):
            shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
            return f"{type(self).__qualname__}({shown})"

        return __repr__

    def _key(names):
        if len(names) > 1:
            return attrgetter(*names)
        get = [attrgetter(name) for name in names]
        return lambda self: tuple(each(self) for each in get)

    def _compare(cls, key, frozen):
        def __eq__(self, other):
            return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

        def __hash__(self):
            return hash(key(self))

        explicit = vars(cls).get("__hash__") is not None
        if "__eq__" not in vars(cls):
            cls.__eq__ = __eq__
        if not explicit:
            cls.__hash__ = __hash__ if frozen else None

    def _freeze(cls, names):
        def __setattr__(self, name, value):
            if type(self) is cls or name in names:
                raise FrozenInstanceError(f"cannot assign to field {name!r}")
            super(cls, self).__setattr__(name, value)

        def __delattr__(self, name):
            if type(self) is cls or name in names:
                raise FrozenInstanceError(f"cannot delete field {name!r}")
            super(cls, self).__delattr__(name)

        cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__

    def _copy_by_state(cls, names):
        def __getstate__(self):
            return [getattr(self, name) for name in names]

        def __setstate__(self, state):
            for name, value in zip(names, state, strict=True):
                object.__setattr__(self, name, value)

        for method in (__getstate__, __setstate__):
            if method.__name__ not in vars(cls):
                setattr(cls, method.__name__, method)
