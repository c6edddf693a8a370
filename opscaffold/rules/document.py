"""Rules, promises and kinds in words: what ``explain`` shows and the pages of rules hold."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from opscaffold.contract import decision
from opscaffold.contract.decision import Outcome
from opscaffold.contract.model import Kind
from opscaffold.errors import UserError
from opscaffold.findings.model import Severity
from opscaffold.findings.promises import PROMISES, Promise, Verdict
from opscaffold.rules.notices import MIGRATION_NOTES
from opscaffold.rules.selection import (
    Coded,
    Reported,
    UnknownSelectorError,
    coded,
    everything,
    find,
)

_REPAIRS = {
    "safe": "`opscaffold migrate` repairs it, and keeps what the program does.",
    "unsafe": "`opscaffold migrate` can repair it, and callers may see the difference.",
    None: "It has to be mended by hand.",
}
_PREFACE = (
    "What [check](check.md) reports. This page is made from the rules themselves by "
    "`opscaffold explain --page`; `opscaffold explain CODE` shows one of them."
)
_SEVERITIES = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFO: "note, which does not fail the check",
}
_VERDICTS = {
    Verdict.BREACH: "error, a breach of the contract",
    Verdict.LIMIT: "note, a limit of PyTorch for every op of that kind; it does not fail the run",
    Verdict.UNDECIDED: "warning, undecided",
    Verdict.SOUND: "note, which does not fail the run",
}
_SHORT_VERDICTS = {
    Verdict.BREACH: "breach",
    Verdict.LIMIT: "platform limit",
    Verdict.UNDECIDED: "undecided",
    Verdict.SOUND: "note",
}


def lookup(word: str) -> Coded | Kind | tuple[Coded, ...]:
    """Return the rule, promise or kind that a word stands for: a code, a name, or a kind.

    Several of them for the start of their codes, as ``--select`` takes it, and for ``ALL``.

    Raises UserError, whose text names what is near.
    """
    lowered = word.strip().lower()
    for reported in (*coded(), *MIGRATION_NOTES):
        if lowered in (reported.code.lower(), reported.name):
            return reported
    for kind in Kind:
        outcome = decision.outcome_of(kind)
        if lowered in (kind.value, outcome.id, kind.value.rstrip("=")):
            return kind
    try:
        return find(word.strip())
    except UnknownSelectorError:
        pass
    words = [w for r in coded() for w in (r.code, r.name)] + [k.value for k in Kind]
    # Codes are all alike: only one that is nearly right is meant.
    least = 0.81 if any(char.isdigit() for char in word) else 0.6
    near = difflib.get_close_matches(lowered, words, 1, least)
    near = near or difflib.get_close_matches(word.upper(), words, 1, least)
    hint = f"; did you mean {near[0]!r}?" if near else "; `opscaffold explain` lists all"
    raise UserError(f"there is no rule and no kind {word!r}{hint}")


def overview() -> str:
    """Return one line for each rule, each promise and each kind."""
    kinds = [(k.value, decision.outcome_of(k).consequences[0]) for k in Kind]
    wide_kind = max(len(name) for name, _ in kinds)
    lines = [f"  {name:<{wide_kind}}  {first}" for name, first in kinds]
    return "\n".join([_listed(coded()), "Kinds of op:", *lines]) + "\n"


def rule_text(rule: Reported) -> str:
    """Return what there is to say about a rule, as Markdown without a heading."""
    parts = [
        rule.summary,
        f"**Severity:** {_SEVERITIES[rule.severity]}.",
        f"**Why it matters.** {rule.why}",
        f"**What to do.** {_sentence(rule.remedy)} {_REPAIRS[rule.repair]}",
    ]
    if rule.hits:
        parts += ["Reported:", _code(rule.hits[0])]
    if rule.misses:
        parts += ["Not reported:", _code(rule.misses[0])]
    return "\n\n".join(parts) + "\n"


def promise_text(promise: Promise) -> str:
    """Return what there is to say about something that running an op shows, as Markdown."""
    parts = [
        promise.summary,
        f"**Severity:** {_VERDICTS[promise.verdict]}.",
        f"**Why it matters.** {promise.why}",
        f"**What to do.** {_sentence(promise.remedy)}",
        "`opscaffold verify` shows it by running the op.",
    ]
    return "\n\n".join(parts) + "\n"


def promise_table() -> str:
    """Return all that ``verify`` can report as a table in Markdown, for ``docs/verify.md``."""
    rows = [
        f"| {p.code} | {p.name} | {_SHORT_VERDICTS[p.verdict]} | {_cell(p.summary)} |"
        for p in PROMISES
    ]
    return "\n".join(["| code | name | verdict | what is reported |", "|---|---|---|---|", *rows])


def kind_text(kind: Kind) -> str:
    """Return what a kind of op promises, and which answers lead to it, as Markdown."""
    outcome = decision.outcome_of(kind)
    answers = decision.answers_for(kind)
    way = [
        f"- {decision.QUESTIONS[question].prompt} {_answered(question, answer)}"
        for question, answer in answers.items()
    ]
    return (
        "\n\n".join(
            [
                "\n".join(f"- {line}" for line in outcome.consequences),
                "It is one where:",
                "\n".join(way),
            ]
        )
        + "\n"
    )


def explanation(found: Coded | Kind | tuple[Coded, ...]) -> str:
    """Return a heading and the text of a rule, promise or kind; of several one line each."""
    if isinstance(found, tuple):
        return _listed(found)
    if isinstance(found, Kind):
        return f"# {decision.outcome_of(found).title}\n\n{kind_text(found)}"
    text = promise_text(found) if isinstance(found, Promise) else rule_text(found)
    return f"# {found.code} {found.name}\n\n{text}"


def page() -> str:
    """Return the page of all rules, ``docs/rules.md``."""
    rules = everything()
    parts = [
        "# Rules",
        _PREFACE,
        _table(rules),
    ]
    parts += [f"## {rule.code} {rule.name}\n\n{rule_text(rule)}".rstrip() for rule in rules]
    parts += ["## Kinds of op", "Every contract is of one of these kinds."]
    parts += [f"### {_title(kind)}\n\n{kind_text(kind)}".rstrip() for kind in Kind]
    return "\n\n".join(parts) + "\n"


def _listed(found: Sequence[Coded]) -> str:
    wide = max(len(each.name) for each in found)
    parts = []
    for title, there in (
        ("Rules:", [each for each in found if not isinstance(each, Promise)]),
        ("What running an op shows:", [each for each in found if isinstance(each, Promise)]),
    ):
        lines = [f"  {each.code}  {each.name:<{wide}}  {each.summary}" for each in there]
        parts += [title, *lines] if there else []
    return "\n".join(parts) + "\n"


def _title(kind: Kind) -> str:
    outcome: Outcome = decision.outcome_of(kind)
    return outcome.title


def _table(rules: Sequence[Reported]) -> str:
    rows = [
        f"| [{r.code}](#{_anchor(f'{r.code} {r.name}')}) | {r.name} | {r.severity.value} | "
        f"{r.repair or 'by hand'} | {_cell(r.summary)} |"
        for r in rules
    ]
    head = ["| code | name | severity | repair | what is reported |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def _anchor(heading: str) -> str:
    return "".join(c for c in heading.lower() if c.isalnum() or c in " -_").replace(" ", "-")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(source: str) -> str:
    return f"```python\n{source.strip()}\n```"


def _sentence(text: str) -> str:
    text = text.strip()
    capital = text[:1].upper() + text[1:]
    return capital if capital.endswith((".", "!")) else f"{capital}."


def _answered(question: str, answer: str) -> str:
    label = decision.QUESTIONS[question].choice(answer).label
    return f"{label[:1].upper()}{label[1:]}."
