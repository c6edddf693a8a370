"""Schema types as Python writes them: annotations and defaults of an op's function.

What ``torch.library.infer_schema`` takes, by release (FACTS section 2, "Types").
"""

from __future__ import annotations

from dataclasses import replace

from opscaffold.contract.literals import check_default
from opscaffold.contract.model import (
    BaseType,
    Default,
    GenericType,
    ListType,
    OptionalType,
    Parameter,
    Return,
    SchemaType,
    Symbol,
)
from opscaffold.contract.printer import format_type
from opscaffold.contract.releases import Release, release_for
from opscaffold.contract.schema_types import DTYPE_SYMBOLS

# Schema type -> annotation. Names other than Tensor and builtins are spelled from ``torch``.
PARAMETER_ANNOTATIONS = {
    "Tensor": "Tensor",
    "SymInt": "int",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "Scalar": "torch.types.Number",
    "ScalarType": "torch.dtype",
    "Device": "torch.device",
}
LISTABLE = frozenset({"Tensor", "SymInt", "int", "float", "bool", "Scalar"})
# Whose list may be Optional in every release.
OPTIONAL_LISTS = frozenset({"SymInt", "int", "float", "bool"})
# Whose list may hold None.
LISTS_OF_OPTIONAL = frozenset({"Tensor"})
RETURN_ANNOTATIONS = {
    "Tensor": "Tensor",
    "SymInt": "int",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "Scalar": "torch.types.Number",
}
RETURN_LISTS = frozenset({"Tensor"})


def parameter_type_problem(type_: SchemaType, release: Release | None = None) -> str | None:
    """Why a Python annotation cannot declare this parameter type, or None.

    ``custom_op(schema=...)`` takes more: str returns, Dict, tuples, MemoryFormat, complex.
    """
    release = release or release_for()
    written = format_type(type_)
    depth = type_
    optional = isinstance(depth, OptionalType)
    if isinstance(depth, OptionalType):
        depth = depth.of
    is_list = isinstance(depth, ListType)
    inner_optional = False
    if isinstance(depth, ListType):
        depth = depth.of
        if isinstance(depth, OptionalType):
            inner_optional, depth = True, depth.of
    if not isinstance(depth, BaseType):
        return f"{written} is nested deeper than any annotation that PyTorch reads"
    name = depth.name
    if isinstance(depth, GenericType) or name not in PARAMETER_ANNOTATIONS:
        return f"PyTorch has no annotation for an argument of type {written}"
    if is_list and name not in LISTABLE:
        return f"PyTorch takes no list of {PARAMETER_ANNOTATIONS[name]}"
    if inner_optional and name not in LISTS_OF_OPTIONAL:
        return f"only a list of Tensor may hold None, not {written}"
    settled = name in OPTIONAL_LISTS and not inner_optional
    if optional and is_list and not settled and not release.optional_lists:
        return f"torch {release} takes no Optional list of {PARAMETER_ANNOTATIONS[name]}"
    return None


def parameter_type_remedy(type_: SchemaType) -> str:
    """What to annotate instead of a type that ``parameter_type_problem`` refuses."""
    inner = type_.of if isinstance(type_, OptionalType) else type_
    if isinstance(inner, ListType):
        if isinstance(type_, OptionalType) and parameter_type_problem(inner) is None:
            return f"annotate {annotation_text(inner)}, empty where there is none"
        element = inner.of.of if isinstance(inner.of, OptionalType) else inner.of
        if parameter_type_problem(ListType(element)) is None:
            return f"annotate list[{annotation_text(element)}] without None in it"
        return "use a list of Tensor, int, float or bool, or arguments of their own"
    return "use Tensor, int, float, bool, str, Number, dtype or device, or pass several arguments"


def return_type_problem(type_: SchemaType) -> str | None:
    """Why a Python annotation cannot declare this return type, or None."""
    written = format_type(type_)
    if isinstance(type_, OptionalType):
        return f"a return cannot be Optional ({written}); split the op by what it returns"
    inner = type_.of if isinstance(type_, ListType) else type_
    if not isinstance(inner, BaseType) or isinstance(inner, GenericType):
        return f"PyTorch has no annotation for a return of type {written}"
    known = RETURN_LISTS if isinstance(type_, ListType) else RETURN_ANNOTATIONS.keys()
    if inner.name not in known:
        return f"PyTorch has no annotation for a return of type {written}"
    return None


def annotation_text(type_: SchemaType) -> str:
    """The annotation of a parameter: ``Tensor``, ``list[int]``, ``torch.dtype | None``.

    Raises ValueError where ``parameter_type_problem`` gives a reason in every release.
    """
    if isinstance(type_, OptionalType):
        return f"{annotation_text(type_.of)} | None"
    if isinstance(type_, ListType):
        return f"list[{annotation_text(type_.of)}]"
    if isinstance(type_, GenericType) or type_.name not in PARAMETER_ANNOTATIONS:
        raise ValueError(f"PyTorch has no annotation for the type {format_type(type_)}")
    return PARAMETER_ANNOTATIONS[type_.name]


def return_annotation_text(returns: tuple[Return, ...]) -> str:
    """The return annotation of a function: ``None``, ``Tensor``, ``tuple[Tensor, Tensor]``."""
    texts = [annotation_text(strip_alias(r.type)) for r in returns]
    if not texts:
        return "None"
    return texts[0] if len(texts) == 1 else f"tuple[{', '.join(texts)}]"


def default_text(default: Default, type_: SchemaType) -> str:
    """The default as Python source, of the type that the annotation says.

    Raises ValueError for one that a Python default cannot hand to PyTorch (``default_problem``).
    """
    value = default.value
    inner = type_.of if isinstance(type_, OptionalType) else type_
    name = inner.name if isinstance(inner, BaseType) else ""
    if isinstance(value, Symbol):
        return _symbol_text(value, name)
    if name == "Device" and isinstance(value, str):
        return f"torch.device({_quoted(value)})"
    if name == "float" and type(value) is int:
        return f"{value}.0"
    if isinstance(value, str):
        return _quoted(value)
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    raise ValueError("infer_schema takes no list and no complex number as a default")


def _symbol_text(symbol: Symbol, type_name: str) -> str:
    if type_name == "ScalarType" and symbol.name in DTYPE_SYMBOLS:
        return f"torch.{symbol.name}"
    if type_name in ("int", "SymInt") and symbol.name == "Mean":
        # The number that PyTorch's own parser puts in its place.
        return "1"
    raise ValueError(f"{symbol.name} has no spelling as a Python default of this type")


def _quoted(text: str) -> str:
    body = repr(text)
    if body[0] == "'":
        body = '"' + body[1:-1].replace('"', '\\"').replace("\\'", "'") + '"'
    return body


def default_problem(parameter: Parameter) -> tuple[str, str] | None:
    """Why PyTorch refuses the default of a parameter written in Python: ``(reason, remedy)``.

    Some pass ``infer_schema`` and are refused only when the op is registered (FACTS section 2).
    """
    default, type_ = parameter.default, strip_alias(parameter.type)
    if default is None:
        return None
    value, name = default.value, parameter.name
    if isinstance(value, tuple):
        return (
            f"the default of {name!r} is a list, which infer_schema does not read",
            f"make {name!r} Optional with the default None, and fill it in the kernel",
        )
    if value is None and isinstance(type_, ListType):
        return (
            f"the list {name!r} cannot default to None: registration fails",
            f"annotate {name!r} as {annotation_hint(type_)} | None",
        )
    if isinstance(value, str) and any(c in value for c in '"\\\n'):
        reason = (
            f"the default of {name!r} contains a quote, a backslash or a line break, which "
            "infer_schema does not escape: registration fails or the text changes"
        )
        return reason, "choose a plain default and translate it in the kernel"
    refusal = check_default(value, type_)
    if refusal is None:
        return None
    return (
        f"PyTorch refuses the default of {name!r} at registration: {refusal}",
        f"choose a finite default that fits the type, or make {name!r} Optional and None",
    )


def annotation_hint(type_: SchemaType) -> str:
    """The annotation of a type for a message, or its schema spelling where it has none."""
    try:
        return annotation_text(type_)
    except ValueError:
        return format_type(type_)


def strip_alias(type_: SchemaType) -> SchemaType:
    """The type without any alias annotation."""
    if isinstance(type_, BaseType):
        return replace(type_, alias=None)
    return replace(type_, of=strip_alias(type_.of), alias=None)
