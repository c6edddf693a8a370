"""Python annotations to schema types, by the names they are spelled with (nothing is imported).

What ``infer_schema`` of torch 2.13 accepts, and the nearest legal form of what it does not
(FACTS section 2, "Types").
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import MappingProxyType

from opscaffold.contract.model import BaseType, GenericType, ListType, OptionalType, SchemaType
from opscaffold.records import dataclass, replace

Resolver = Callable[[ast.expr], "str | None"]

# Origin -> schema type. Keys are what ``canonical`` yields.
ATOMS: Mapping[str, str] = MappingProxyType(
    {
        "Tensor": "Tensor",
        "int": "SymInt",
        "float": "float",
        "bool": "bool",
        "str": "str",
        "Text": "str",
        "Number": "Scalar",
        "dtype": "ScalarType",
        "device": "Device",
        # Opaque types: registered under the path of the class, and never Optional or in a list.
        "Generator": "torch._C.Generator",
    }
)
SEQUENCES = frozenset({"list", "List", "Sequence", "abc.Sequence"})
# A typing generic turns a string inside into a ForwardRef, which infer_schema does not evaluate.
TYPING_GENERICS = frozenset({"List", "Sequence", "Optional", "Union", "Tuple"})
TUPLES = frozenset({"tuple", "Tuple"})

# Origin -> why not, what instead.
REJECTED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "dict": ("a schema holds no dict", "pass its values as arguments of their own"),
        "Dict": ("a schema holds no dict", "pass its values as arguments of their own"),
        "Mapping": ("a schema holds no mapping", "pass its values as arguments of their own"),
        "Any": ("Any says no type", "name the type, such as Tensor or int"),
        "object": ("object says no type", "name the type, such as Tensor or int"),
        "set": ("a schema holds no set", "use list[int] or list[Tensor]"),
        "complex": ("a complex number has no annotation", "pass two floats"),
        "bytes": ("a schema holds no bytes", "pass a Tensor of dtype uint8"),
        "SymInt": ("SymInt is no annotation", "annotate int: it takes symbolic sizes too"),
        "SymFloat": ("SymFloat is no annotation", "annotate float"),
        "SymBool": ("SymBool is no annotation", "annotate bool"),
        "Size": ("torch.Size is no annotation", "annotate list[int]"),
        "layout": ("a layout has no annotation", "pass a flag, or use custom_op(schema=...)"),
        "memory_format": (
            "a memory format has no annotation",
            "pass a flag, or use custom_op(schema=...)",
        ),
        "Parameter": ("nn.Parameter is no annotation", "annotate Tensor: a Parameter is one"),
        "FloatTensor": ("a Tensor class of one dtype is no annotation", "annotate Tensor"),
        "LongTensor": ("a Tensor class of one dtype is no annotation", "annotate Tensor"),
        "ndarray": ("a numpy array is no annotation", "annotate Tensor and convert it inside"),
        "Module": ("a module cannot be passed to an op", "pass its parameters as Tensors"),
        "ScriptObject": ("its class is not known from the annotation", "use custom_op(schema=...)"),
        "Annotated": ("infer_schema does not look into Annotated", "write the bare type"),
        "Literal": ("infer_schema does not read Literal", "annotate str or int"),
        "Final": ("infer_schema does not look into Final", "write the bare type"),
        "ClassVar": ("infer_schema does not look into ClassVar", "write the bare type"),
        "Iterable": ("a schema holds lists only", "annotate list or Sequence"),
        "Iterator": ("a schema holds lists only", "annotate list or Sequence"),
        "Collection": ("a schema holds lists only", "annotate list or Sequence"),
        "MutableSequence": ("a schema holds lists only", "annotate list or Sequence"),
        "Callable": ("an op cannot take a function", "choose the function inside, by a str or int"),
        "NoReturn": ("an op returns", "annotate None"),
        "TypeVar": ("infer_schema knows no type variables", "write the concrete type"),
    }
)

_TYPING_MODULES = frozenset({"typing", "typing_extensions", "tp", "t", "ty"})
_TORCH_MODULES = frozenset({"torch", "th"})
_ABC_MODULES = frozenset({"collections.abc", "abc", "cabc"})
_TORCH_NAMES = frozenset(
    {
        *("Tensor", "dtype", "device", "Generator", "SymInt", "SymFloat", "SymBool", "Size"),
        *("layout", "memory_format", "FloatTensor", "LongTensor", "ScriptObject"),
    }
)
_TORCH_PATHS: Mapping[str, str] = MappingProxyType(
    {
        "torch.types.Number": "Number",
        "types.Number": "Number",
        "torch.nn.Parameter": "Parameter",
        "torch.nn.parameter.Parameter": "Parameter",
        "nn.Parameter": "Parameter",
        "torch.nn.Module": "Module",
        "nn.Module": "Module",
        "torch._C.Generator": "Generator",
        "torch._C.ScriptObject": "ScriptObject",
        "torch._tensor.Tensor": "Tensor",
        "numpy.ndarray": "ndarray",
        "np.ndarray": "ndarray",
    }
)


@dataclass(eq=False)
class AnnotationRefusedError(Exception):
    """An annotation that gives no schema type. ``known`` is False where nobody could tell."""

    node: ast.expr
    reason: str
    remedy: str
    known: bool = True


def canonical(dotted: str) -> str:
    """The key in the tables above for a dotted name, or the dotted name itself."""
    dotted = dotted.removeprefix("builtins.")
    if dotted in _TORCH_PATHS:
        return _TORCH_PATHS[dotted]
    module, _, last = dotted.rpartition(".")
    if module in _ABC_MODULES:
        return "abc.Sequence" if last == "Sequence" else last
    if module in _TYPING_MODULES:
        return last
    if module in _TORCH_MODULES and last in _TORCH_NAMES:
        return last
    return dotted


def dotted_name(node: ast.expr) -> str | None:
    """``a.b.c`` of a Name or Attribute expression, or None."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted_name(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None


@dataclass(frozen=True, slots=True)
class AnnotationReader:
    """Reads annotations. ``resolver`` tells the origin of a name, where an import renamed it.

    ``postponed`` says that the module has ``from __future__ import annotations``: PyTorch then
    evaluates each annotation once, and a quoted name in it stays a string.
    """

    resolver: Resolver | None = None
    postponed: bool = False
    _returning: bool = False

    def parameter(self, node: ast.expr) -> SchemaType:
        """The schema type of a parameter's annotation. Raises AnnotationRefusedError."""
        type_ = self.read(node, quoted=self.postponed)
        if type_ is None:
            raise AnnotationRefusedError(
                node, "an argument of type None carries nothing", "drop the argument"
            )
        if isinstance(type_, GenericType):
            raise AnnotationRefusedError(
                node, "a schema holds no tuple as an argument", _tuple_remedy(type_)
            )
        return type_

    def returns(self, node: ast.expr) -> tuple[SchemaType, ...]:
        """The schema types of a return annotation. Raises AnnotationRefusedError."""
        type_ = replace(self, _returning=True).read(node, quoted=self.postponed)
        if type_ is None:
            return ()
        if not isinstance(type_, GenericType):
            return (type_,)
        # One element stays a tuple: ``tuple[Tensor]`` is ``((Tensor))`` in the schema.
        return (type_,) if len(type_.args) == 1 else type_.args

    def origin(self, node: ast.expr) -> str | None:
        """The canonical origin of a Name or Attribute, or None for any other expression."""
        dotted = self.resolver(node) if self.resolver is not None else None
        dotted = dotted or dotted_name(node)
        return None if dotted is None else canonical(dotted)

    def read(self, node: ast.expr, *, quoted: bool, typing: bool = False) -> SchemaType | None:
        """The type of any annotation; None for None. A GenericType is a tuple."""
        if isinstance(node, ast.Constant):
            return self._constant(node, quoted=quoted, typing=typing)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            return self._union(node, _alternatives(node), quoted=quoted, typing=typing)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, quoted=quoted)
        origin = self.origin(node)
        if origin is None:
            raise AnnotationRefusedError(
                node, "this is no type", "write a type such as Tensor or int"
            )
        return self._atom(node, origin)

    def _atom(self, node: ast.expr, origin: str) -> SchemaType | None:
        if origin in ATOMS:
            return BaseType(ATOMS[origin])
        if origin in ("None", "NoneType", "types.NoneType"):
            return None
        if origin in REJECTED:
            raise AnnotationRefusedError(node, *REJECTED[origin])
        if origin == "Tuple":
            # typing.Tuple alone reads as a tuple of nothing.
            return GenericType("tuple")
        if origin in SEQUENCES | TUPLES | TYPING_GENERICS:
            raise AnnotationRefusedError(
                node, "the element type is missing", "write it, as in list[int]"
            )
        raise AnnotationRefusedError(
            node,
            f"{ast.unparse(node)} is no type that PyTorch knows by this name",
            "write Tensor, int, float, bool, str, torch.dtype or torch.device",
            known=False,
        )

    def _constant(self, node: ast.Constant, *, quoted: bool, typing: bool) -> SchemaType | None:
        if node.value is None:
            return None
        if not isinstance(node.value, str):
            raise AnnotationRefusedError(
                node, "this is no type", "write a type such as Tensor or int"
            )
        if quoted or typing:
            raise AnnotationRefusedError(
                node,
                "PyTorch does not evaluate a quoted name inside another annotation",
                f"drop the quotes around {node.value}",
            )
        try:
            inner = ast.parse(node.value.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise AnnotationRefusedError(
                node, "this string is no type", "write a type such as Tensor"
            ) from None
        try:
            return self.read(inner, quoted=True)
        except AnnotationRefusedError as refusal:
            # Positions in the string mean nothing to the reader of the file.
            raise AnnotationRefusedError(
                node, refusal.reason, refusal.remedy, refusal.known
            ) from None

    def _subscript(self, node: ast.Subscript, *, quoted: bool) -> SchemaType | None:
        origin = self.origin(node.value)
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        typing = origin in TYPING_GENERICS
        if origin in SEQUENCES:
            if self._returning and origin not in ("list", "List"):
                raise AnnotationRefusedError(
                    node, "a return cannot be a Sequence", "annotate list[Tensor]"
                )
            return self._list(node, items, quoted=quoted, typing=typing)
        if origin == "Optional":
            none = ast.copy_location(ast.Constant(None), node)
            return self._union(node, [*items, none], quoted=quoted, typing=True)
        if origin == "Union":
            return self._union(node, list(items), quoted=quoted, typing=True)
        if origin in TUPLES:
            return self._tuple(node, items, quoted=quoted, typing=typing)
        if origin is not None and origin in REJECTED:
            raise AnnotationRefusedError(node, *REJECTED[origin])
        raise AnnotationRefusedError(
            node,
            f"PyTorch does not read {ast.unparse(node.value)}[...]",
            "write list[...], or the types as arguments of their own",
            known=origin in ATOMS,
        )

    def _list(
        self, node: ast.expr, items: list[ast.expr], *, quoted: bool, typing: bool
    ) -> SchemaType:
        if len(items) != 1:
            raise AnnotationRefusedError(
                node, "a list has one element type", "write it as in list[int]"
            )
        inner = self.read(items[0], quoted=quoted, typing=typing)
        if inner is None:
            raise AnnotationRefusedError(
                node, "a list of None carries nothing", "drop the argument"
            )
        if isinstance(inner, GenericType):
            raise AnnotationRefusedError(
                node, "a schema holds no list of tuples", "pass one list for each item"
            )
        return ListType(inner)

    def _tuple(
        self, node: ast.expr, items: list[ast.expr], *, quoted: bool, typing: bool
    ) -> SchemaType:
        types: list[SchemaType] = []
        for item in items:
            if isinstance(item, ast.Constant) and item.value is Ellipsis:
                raise AnnotationRefusedError(
                    node, "the length of a tuple is part of a schema", "use list[...]"
                )
            type_ = self.read(item, quoted=quoted, typing=typing)
            if type_ is None:
                raise AnnotationRefusedError(
                    node, "a tuple in a schema holds no None", "leave the None away"
                )
            types.append(type_)
        return GenericType("tuple", args=tuple(types))

    def _union(
        self, node: ast.expr, items: list[ast.expr], *, quoted: bool, typing: bool
    ) -> SchemaType | None:
        members: list[SchemaType] = []
        optional = False
        for item in items:
            type_ = self.read(item, quoted=quoted, typing=typing)
            if type_ is None:
                optional = True
            elif isinstance(type_, OptionalType):
                optional = True
                members += _numbers(type_.of)
            else:
                members += _numbers(type_)
        unique = list(dict.fromkeys(members))
        if set(unique) == set(_NUMBER_MEMBERS):
            unique = [BaseType("Scalar")]
        if not unique:
            return None
        if len(unique) > 1:
            raise AnnotationRefusedError(
                node, "a schema holds no Union of these", _union_remedy(unique)
            )
        if isinstance(unique[0], GenericType):
            raise AnnotationRefusedError(
                node, "a schema holds no Optional tuple", _tuple_remedy(unique[0])
            )
        return OptionalType(unique[0]) if optional else unique[0]


_NUMBER_MEMBERS: tuple[SchemaType, ...] = (BaseType("SymInt"), BaseType("float"), BaseType("bool"))


def _numbers(type_: SchemaType) -> list[SchemaType]:
    return list(_NUMBER_MEMBERS) if type_ == BaseType("Scalar") else [type_]


def _alternatives(node: ast.expr) -> list[ast.expr]:
    """The operands of ``a | b | c``, in order, without recursion."""
    found: list[ast.expr] = []
    rest = [node]
    while rest:
        at = rest.pop()
        if isinstance(at, ast.BinOp) and isinstance(at.op, ast.BitOr):
            rest += [at.right, at.left]
        else:
            found.append(at)
    return found


def _union_remedy(members: list[SchemaType]) -> str:
    if set(members) <= set(_NUMBER_MEMBERS):
        return "annotate torch.types.Number, which is int, float or bool"
    return "register one op for each type and choose between them in a plain function"


def _tuple_remedy(type_: GenericType) -> str:
    if len(set(type_.args)) == 1:
        return "annotate a list of that type"
    return "pass its items as arguments of their own"
