"""A function that an op wraps: all that rendering needs of it, once it was read.

It holds the text of the function, so that a package can be rendered again where the file that it
came from is not at hand.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

KEEP, DROP, CLONE = "keep", "drop", "clone"
"""What an op does with one result of the function: hand it on, leave it out, hand on a copy."""
ACTIONS = frozenset({KEEP, DROP, CLONE})


@dataclass(frozen=True, slots=True)
class Wrapped:
    """One function, as one op calls it.

    ``source`` says where it stood, ``function`` what it is called in the kernel's module ``file``,
    whose text ``code`` is. ``imported`` is the module that it is imported from, "" where its text
    was copied; ``search`` are then directories to find that module in, from the package's own.
    ``parameters`` are the function's, ``positional`` the first of them that may be passed so, and
    ``absent`` those that the op leaves out. ``results`` says what becomes of each result, and
    ``returns`` how the function hands them over: as nothing, one, a tuple or a list.
    ``fake`` names the derived fake kernel of the op, "" where there is none; ``fakes`` are the
    texts of all that the kernel's module holds, by name. ``values`` are values to try of
    arguments that are no tensors, as Python source. ``sized`` is the op's buffer that is as large
    as what the function returns without it. ``doc`` is the first line of its docstring.
    """

    source: str
    function: str
    file: str
    code: str
    parameters: tuple[str, ...]
    positional: int
    returns: str
    imported: str = ""
    search: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    fake: str = ""
    fakes: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sized: str = ""
    doc: str = ""


RETURNS = frozenset({"nothing", "one", "tuple", "list"})
_TEXTS = ("source", "function", "file", "code", "returns", "imported", "fake", "sized", "doc")
_LISTS = ("parameters", "search", "absent", "results")


def dump_wrapped(wrapped: Wrapped) -> str:
    """The function as one line of text, for an answers file."""
    return json.dumps(asdict(wrapped), sort_keys=True)


def load_wrapped(text: str) -> Wrapped:
    """Read what ``dump_wrapped`` wrote. Raises ValueError for anything else."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is not what opscaffold wrote for a function; use --from") from None
    if not isinstance(data, dict) or not _is_whole(data):
        raise ValueError("it is not what opscaffold wrote for a function; use --from")
    data["fakes"] = {str(k): str(v) for k, v in data["fakes"].items()}
    data["values"] = {str(k): tuple(map(str, v)) for k, v in data["values"].items()}
    data |= {key: tuple(map(str, data[key])) for key in _LISTS}
    wrapped = Wrapped(**data)
    _check(wrapped)
    return wrapped


def _is_whole(data: Mapping[str, object]) -> bool:
    known = {*_TEXTS, *_LISTS, "positional", "values", "fakes"}
    values = data.get("values")
    return (
        data.keys() == known
        and all(isinstance(data[key], str) for key in _TEXTS)
        and all(isinstance(data[key], list) for key in _LISTS)
        and type(data["positional"]) is int
        and isinstance(data["fakes"], dict)
        and isinstance(values, dict)
        and all(isinstance(v, list) for v in values.values())
    )


def _check(wrapped: Wrapped) -> None:
    """Raise ValueError for what would become other code than a name, or lead out of a package."""
    names = [wrapped.function, wrapped.file, *wrapped.parameters, *wrapped.absent, *wrapped.values]
    names += [name for name in (wrapped.sized, wrapped.fake) if name] + [*wrapped.fakes]
    names += wrapped.imported.split(".") if wrapped.imported else []
    for name in names:
        if not name.isidentifier():
            raise ValueError(f"{name!r} is no name in Python")
    if not set(wrapped.results) <= ACTIONS or wrapped.returns not in RETURNS:
        raise ValueError("it says nothing known of what the function returns")
    for text in (wrapped.source, wrapped.doc, *wrapped.search):
        if not text.isprintable() or '"' in text or "\\" in text or "{" in text or "}" in text:
            raise ValueError(f"{text!r} does not do in a generated file")
