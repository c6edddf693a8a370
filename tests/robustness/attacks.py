"""Strings on which a regular expression does much work, made from the expression itself."""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import pkgutil
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import opscaffold
from opscaffold import patterns as late

if sys.version_info >= (3, 11):
    from re import _constants as constants
    from re import _parser as parser
else:
    import sre_constants as constants
    import sre_parse as parser

LATE: Any = late.pattern  # compiled when it is first used
MOST = 16  # the shortest first: long ones are made of them
WAYS_THROUGH = 4  # of the alternatives that an expression has: they are much alike
Text = Any  # str or bytes, whichever the expression is about


METHODS = {
    "search": "search", "finditer": "search", "findall": "search", "sub": "search",
    "split": "search", "match": "match", "fullmatch": "fullmatch",
}  # fmt: skip


def patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Every expression that a module of the package compiles when it is imported, by its name.

    Those that a module makes while it works are not among them.
    """
    for module in _modules():
        for name, value in vars(importlib.import_module(module)).items():
            yield from _within(f"{module}.{name}", value)


@functools.cache
def _modules() -> list[str]:
    """The modules of what reads strangers' files: all but those that import torch."""
    names = [info.name for info in pkgutil.walk_packages(opscaffold.__path__, "opscaffold.")]
    own = ("opscaffold.verify", "opscaffold.__main__")
    return [name for name in names if not name.startswith(own)]


def _within(name: str, value: object) -> Iterator[tuple[str, re.Pattern[Any]]]:
    if isinstance(value, re.Pattern):
        yield name, value
    elif isinstance(value, LATE):
        yield name, re.compile(*value._given)
    elif isinstance(value, tuple | list):
        for index, each in enumerate(value):
            yield from _within(f"{name}[{index}]", each)


def attacks(pattern: re.Pattern[Any], size: int) -> Iterator[Text]:
    """Strings of about ``size`` that start as a match does, repeat a part of one, and end badly."""
    tree = parser.parse(pattern.pattern, pattern.flags)
    made = set()
    for items in itertools.islice(_sequences(tree), WAYS_THROUGH):
        samples = [_sample(item) for item in items]
        for start in range(len(samples) + 1):
            prefix = "".join(samples[:start])
            for end in range(start + 1, len(samples) + 1):
                made.add((prefix, "".join(samples[start:end])))
    for prefix, piece in sorted(made, key=lambda pair: (len("".join(pair)), pair))[:MOST]:
        if piece:
            for ending in ("\0", "\n\0", "`"):
                text = prefix + piece * (size // len(piece)) + ending
                yield text if isinstance(pattern.pattern, str) else text.encode("latin-1")


def ways(name: str) -> set[str]:
    """How a module applies its expression of a name, as far as its source says; else every way."""
    module, _, word = name.partition("[")[0].rpartition(".")
    # One of several is applied by the name of a loop.
    word = r"\w+" if "[" in name else word
    used = re.compile(rf"\b{word}\.({'|'.join(METHODS)})\b")
    # A public name is used by other modules too.
    texts = [_source(module)] if word.startswith("_") else map(_source, _modules())
    found = {METHODS[method] for text in texts for method in used.findall(text)}
    return found or set(METHODS.values())


@functools.cache
def _source(module: str) -> str:
    return inspect.getsource(importlib.import_module(module))


def seconds(pattern: re.Pattern[Any], way: str, text: Text) -> float:
    """How long the expression works on a text, in processor time."""
    started = time.process_time()
    getattr(pattern, way)(text)
    return time.process_time() - started


def _sequences(tree: Any) -> Iterator[list[Any]]:
    """The items of an expression in their order, each way through its outer alternatives."""
    items = list(tree)
    for index, (code, given) in enumerate(items):
        if code is constants.BRANCH:
            for branch in given[1]:
                for inner in _sequences(branch):
                    yield [*items[:index], *inner, *items[index + 1 :]]
            return
        if code is constants.SUBPATTERN:
            for inner in _sequences(given[-1]):
                yield [*items[:index], *inner, *items[index + 1 :]]
            yield items
            return
    yield items


def _sample(item: tuple[Any, Any]) -> str:
    """A string that one item matches, not an empty one where it can be helped."""
    code, given = item
    if code is constants.LITERAL:
        return chr(given)
    if code is constants.NOT_LITERAL:
        return "a" if given != ord("a") else "b"
    if code is constants.ANY:
        return "a"
    if code is constants.IN:
        return _of_class(given)
    if code is constants.BRANCH:
        return "".join(map(_sample, given[1][0]))
    if code is constants.SUBPATTERN:
        return "".join(map(_sample, given[-1]))
    if code in (constants.MAX_REPEAT, constants.MIN_REPEAT):
        return "".join(map(_sample, given[2])) * max(given[0], 1)
    return ""


def _of_class(members: Sequence[tuple[Any, Any]]) -> str:
    for letter in "a 1_.x,-'\"[](){}*?:!=+\t\n\\~`":
        if re.compile(r"[\s\S]").match(letter) and _in_class(members, letter):
            return letter
    first = members[0]
    return chr(first[1]) if first[0] is constants.LITERAL else "a"


def _in_class(members: Sequence[tuple[Any, Any]], letter: str) -> bool:
    negated, found = False, False
    categories = {
        constants.CATEGORY_DIGIT: r"\d",
        constants.CATEGORY_NOT_DIGIT: r"\D",
        constants.CATEGORY_SPACE: r"\s",
        constants.CATEGORY_NOT_SPACE: r"\S",
        constants.CATEGORY_WORD: r"\w",
        constants.CATEGORY_NOT_WORD: r"\W",
    }
    for code, given in members:
        if code is constants.NEGATE:
            negated = True
        elif code is constants.LITERAL:
            found = found or chr(given) == letter
        elif code is constants.RANGE:
            found = found or given[0] <= ord(letter) <= given[1]
        elif code is constants.CATEGORY:
            found = found or re.match(categories[given], letter) is not None
    return found != negated
