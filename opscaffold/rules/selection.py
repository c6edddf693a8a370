"""Which rules hold: what `select` and `ignore` mean, and what there is to choose from.

There are two sorts: rules, which `check` reports, and promises, which `verify` does. A selector
may stand for some of both. Each command looks at its own sort alone; in a configuration, what
names only the other sort says nothing to it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence

from opscaffold.config.model import Config
from opscaffold.errors import UserError
from opscaffold.findings.promises import PROMISES, Promise
from opscaffold.patterns import pattern
from opscaffold.records import dataclass
from opscaffold.rules.base import Rule
from opscaffold.rules.catalog import all_rules
from opscaffold.rules.notices import NOTICES, Notice

Reported = Rule | Notice
"""Anything that `check` reports."""

Coded = Rule | Notice | Promise
"""Anything that has a code."""

Origin = str | Callable[[int], str]

ALL = "ALL"
_PREFIX = pattern(r"[A-Za-z]+\d*\Z")


class UnknownSelectorError(UserError):
    """A selector that is no code, prefix or name of anything."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source chooses: ``select`` starts anew, None leaves what was chosen before.

    ``origin`` is what the source calls them, for messages: ``--select``, ``--ignore``. It may
    tell each word by its number.
    """

    select: tuple[str, ...] | None
    ignore: tuple[str, ...]
    origin: tuple[Origin, Origin]


def everything() -> tuple[Reported, ...]:
    """Return all that ``check`` can report, by code."""
    return tuple(sorted((*NOTICES, *all_rules()), key=lambda each: each.code))


def coded() -> tuple[Coded, ...]:
    """Return all that any command can report and leave out, by code."""
    return (*everything(), *PROMISES)


def find(selector: str) -> tuple[Coded, ...]:
    """Return what a selector stands for: a code, the start of codes, a name, or ``ALL``.

    Raises UnknownSelectorError, whose text names what is near.
    """
    known = coded()
    if selector.upper() == ALL:
        return known
    exact = tuple(r for r in known if selector.upper() == r.code or selector.lower() == r.name)
    if exact:
        return exact
    if _PREFIX.match(selector):
        started = tuple(r for r in known if r.code.startswith(selector.upper()))
        if started:
            return started
    raise UnknownSelectorError(f"there is no rule {selector!r}{near(selector)}")


def chosen(layers: Iterable[Layer], among: Sequence[Coded] | None = None) -> frozenset[str]:
    """Return the codes that hold, each layer applied to what those before it left.

    Within a layer, what is named more closely wins: a code over the start of codes, that over
    ``ALL``; `ignore` wins a tie. ``among`` is the sort to choose from, that of ``check`` unless
    given. Raises UnknownSelectorError.
    """
    own = frozenset(each.code for each in (everything() if among is None else among))
    codes = own
    for layer in layers:
        if layer.select is not None and not _is_about_others(layer.select, own):
            codes = frozenset()
        verdicts: dict[str, tuple[int, bool]] = {}
        for selectors, holds, origin in (
            (layer.select or (), True, layer.origin[0]),
            (layer.ignore, False, layer.origin[1]),
        ):
            for number, selector in enumerate(selectors):
                rank = _closeness(selector)
                shown = origin if isinstance(origin, str) else origin(number)
                for reported in _find(selector, shown):
                    if rank >= verdicts.get(reported.code, (-1, True))[0]:
                        verdicts[reported.code] = (rank, holds)
        codes = (codes | {c for c, (_, holds) in verdicts.items() if holds}) - {
            c for c, (_, holds) in verdicts.items() if not holds
        }
    return codes & own


def _is_about_others(select: Sequence[str], own: frozenset[str]) -> bool:
    """Whether selectors stand for something, and for nothing of the sort that is chosen from."""
    meant = [_stands_for(selector) for selector in select]
    return any(meant) and not any(codes & own for codes in meant)


def _stands_for(selector: str) -> frozenset[str]:
    try:
        return frozenset(each.code for each in find(selector))
    except UnknownSelectorError:
        return frozenset()


def chosen_for(
    config: Config,
    select: Sequence[str] | None,
    ignore: Sequence[str],
    among: Sequence[Coded] | None = None,
) -> frozenset[str]:
    """Return the codes that hold for a configuration and what the command line adds to it.

    ``among`` is the sort to choose from, that of ``check`` unless given. Raises
    UnknownSelectorError, UserError for a ``select`` that is given and names no rule, and for a
    word on the command line that stands for nothing of that sort.
    """
    if select is not None and not select:
        raise UserError("--select names no rule; ALL stands for every one")
    _refuse_others("--select", select or (), among)
    _refuse_others("--ignore", ignore, among)
    return chosen(
        (
            Layer(
                config.select,
                config.ignore,
                (
                    lambda number: _place(config, "select", number),
                    lambda number: _place(config, "ignore", number),
                ),
            ),
            Layer(
                tuple(select) if select is not None else None,
                tuple(ignore),
                ("--select", "--ignore"),
            ),
        ),
        among,
    )


def _refuse_others(flag: str, selectors: Sequence[str], among: Sequence[Coded] | None) -> None:
    own = frozenset(each.code for each in (everything() if among is None else among))
    command = "verify" if among is None else "check"
    for selector in selectors:
        meant = _stands_for(selector)
        if meant and not meant & own:
            raise UnknownSelectorError(
                f"{flag}: {selector} stands for what `opscaffold {command}` reports"
            )


def ignored_per_file(config: Config) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the git-ignore patterns of the configuration with the codes ignored there."""
    key = "per-file-ignores"
    return tuple(
        (
            glob,
            frozenset(
                reported.code
                for number, selector in enumerate(selectors)
                for reported in _find(selector, _place(config, key, glob, number))
            ),
        )
        for glob, selectors in config.per_file_ignores
    )


def _place(config: Config, key: str, *path: str | int) -> str:
    place = config.place(key, *path)
    return f"{place}: {key}" if place else key


def _find(selector: str, origin: str) -> tuple[Coded, ...]:
    try:
        return find(selector)
    except UnknownSelectorError as error:
        raise UnknownSelectorError(f"{origin}: {error}") from None


def _closeness(selector: str) -> int:
    if selector.upper() == ALL:
        return 0
    whole = any(selector.upper() == r.code or selector.lower() == r.name for r in coded())
    return 1000 if whole else len(selector)


def near(selector: str) -> str:
    """Return the end of a message on a selector that is none: what may have been meant."""
    words = [word for r in coded() for word in (r.code, r.name)]
    for form in (selector.lower(), selector.upper()):
        close = difflib.get_close_matches(form, words, 1, 0.7)
        if close:
            return f"; did you mean {close[0]!r}?"
    return "; `opscaffold explain` lists all rules"
