"""What the shell is offered behind a flag or argument: rules, kinds, and the ops of the project.

Typer makes the scripts for the shells. It calls these functions once a user asks for a completion.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterable, MutableMapping
from pathlib import Path

from opscaffold.patterns import pattern

PATIENCE = 3.0
"""Seconds after which a shell is told nothing, rather than to let its user wait for the ops."""

REQUEST = "_OPSCAFFOLD_COMPLETE"
"""The environment variable by which a shell's script asks for completions."""

_PARTING = pattern("[:=]+")

Offer = tuple[str, str]
"""A word, and what it stands for, in shells that show that."""


def rules(incomplete: str) -> list[Offer]:
    """Return the codes and names of rules that continue what was typed, behind a last comma."""
    from opscaffold.rules.selection import everything

    return _listed(((each.code, each.name) for each in everything()), incomplete)


def promises(incomplete: str) -> list[Offer]:
    """Return the codes and names of what ``verify`` shows, behind a last comma."""
    from opscaffold.findings.promises import PROMISES

    return _listed(((each.code, each.name) for each in PROMISES), incomplete)


def explained(incomplete: str) -> list[Offer]:
    """Return what ``explain`` explains: codes, names and kinds of ops."""
    from opscaffold.contract.model import Kind
    from opscaffold.rules.selection import coded

    kinds = [(kind.value, f"the contract of {kind.value} ops") for kind in Kind]
    codes = ((each.code, each.name) for each in coded())
    return [offer for offer in kinds if offer[0].startswith(incomplete)] + _of(codes, incomplete)


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Return what offers those of a few words that continue what was typed."""

    def offered(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return offered


def ops(incomplete: str) -> list[str]:
    """Return the names of the ops below the current directory; none where that takes too long."""
    import threading

    found: list[str] = []

    def look() -> None:
        # There is nobody to tell: a shell shows only words.
        with contextlib.suppress(Exception):
            found.extend(_op_names())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return [name for name in found if name.startswith(incomplete)]


def answer(complete: Callable[[], int], environ: MutableMapping[str, str]) -> int:
    """Let typer answer a shell, and return the exit code. Bash gets words parted as it parts them.

    To bash ``--only=a::b`` is ``--only``, ``=``, ``a``, ``::`` and ``b``. Typer takes words from
    the environment, so they are put together there; of its answer, bash wants what follows the
    last colon.
    """
    typed = _rejoin_words(environ) if environ[REQUEST] == "complete_bash" else ""
    kept = typed.rpartition("=")[2].rpartition(":")
    before = kept[0] + kept[1]
    said = io.StringIO()
    code = 0
    with contextlib.redirect_stdout(said):
        try:
            code = complete()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
    sys.stdout.writelines(line.removeprefix(before) for line in said.getvalue().splitlines(True))
    return code


def _rejoin_words(environ: MutableMapping[str, str]) -> str:
    """Put words together in the environment, and return the one that is being typed."""
    given = environ.get("COMP_WORDS", "")
    between = "\n" if "\n" in given else " "
    try:
        current = int(environ["COMP_CWORD"])
    except (KeyError, ValueError):
        return ""
    joined: list[str] = []
    place = 0
    for number, word in enumerate(given.split(between)):
        if number > 1 and (_PARTING.fullmatch(word) or _PARTING.fullmatch(joined[-1][-1:])):
            joined[-1] += word
        else:
            joined.append(word)
        if number <= current:
            place = len(joined) - 1
    environ["COMP_WORDS"] = between.join(joined)
    environ["COMP_CWORD"] = str(place)
    return joined[place]


def _op_names() -> list[str]:
    from opscaffold.config.load import load_config
    from opscaffold.fs.paths import real_path
    from opscaffold.source.files import find_root
    from opscaffold.source.project import load_project

    here = Path()
    config = load_config(real_path(find_root([here])))
    # The rest of the project could hold no more than helpers, and takes longer to read.
    project = load_project([here], here, config.excluded(None), {}, config.registrars)
    return sorted({op.qualname for op in project.ops})


def _listed(named: Iterable[Offer], incomplete: str) -> list[Offer]:
    before, comma, last = incomplete.rpartition(",")
    return [(before + comma + word, about) for word, about in _of(named, last)]


def _of(named: Iterable[Offer], incomplete: str) -> list[Offer]:
    """Return the codes that continue a word, or the names once it cannot start a code."""
    offers = list(named)
    if incomplete and not incomplete[0].isupper():
        offers = [(name, code) for code, name in offers]
    return [offer for offer in offers if offer[0].startswith(incomplete)]
