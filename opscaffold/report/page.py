"""A migration as one page of HTML for reviewers: it holds all it needs, and loads nothing.

Whatever comes from the user's code is escaped; what would act on a reader (control characters,
marks that turn the direction of text) is shown as an escape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from html import escape
from importlib.resources import files

from opscaffold.report.migration import Contract, Page, Reason, Repair, Site
from opscaffold.report.picture import picture

STATES = {
    "repaired": "repaired",
    "refused": "refused",
    "unsafe": "needs --unsafe",
    "withdrawn": "withdrawn",
    "declined": "declined",
}

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_DIFF_CLASSES = (("@@", "at"), ("+++ ", "file"), ("--- ", "file"), ("diff ", "file"))


def render_page(page: Page) -> bytes:
    """Return the page in UTF-8."""
    counts = Counter(reason.state for _, reasons in page.left for reason in _first(reasons))
    counts["repaired"] = len({repair.op for repair in page.repairs})
    title = f"opscaffold migrate: {page.title}"
    body = [
        f"<header><h1>{_text(title)}</h1>",
        f"<p>{_summary(page)}</p>",
        _filters(counts),
        "</header><main>",
        *(_repair(repair) for repair in page.repairs),
        *(_left(op, reasons) for op, reasons in page.left),
        _notes(page.notes),
        '<p id="none" hidden>Nothing matches the filter.</p>',
        f"</main>{_LEGEND}",
    ]
    document = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{_text(title)}</title><style>{_asset('page.css')}</style></head><body>\n"
        + "\n".join(body)
        + f"\n<script>{_asset('page.js')}</script></body></html>\n"
    )
    return document.encode("utf-8", "backslashreplace")


_LEGEND = (
    '<footer><span class="key"><span class="sample written"></span>written</span>'
    '<span class="key"><span class="sample"></span>read, or new</span>'
    '<span class="key"><span class="sample line"></span>the same memory</span>'
    '<span class="key">* keyword-only</span></footer>'
)


def _asset(name: str) -> str:
    return files("opscaffold.report").joinpath(name).read_text("utf-8")


def _first(reasons: Iterable[Reason]) -> list[Reason]:
    """One of each state: an op counts once for all reasons of a kind."""
    return list({reason.state: reason for reason in reasons}.values())


def _summary(page: Page) -> str:
    repaired = len({repair.op for repair in page.repairs})
    verb = "repaired" if page.written else "would be repaired"
    return (
        f"{_count(page.ops, 'op')} read; <strong>{repaired} {verb}</strong> in "
        f"{_count(page.files, 'file')}; <strong>{len(page.left)} left</strong> as they are."
    )


def _filters(counts: Counter[str]) -> str:
    boxes = "".join(
        f'<label class="state {state}"><input type="checkbox" value="{state}" checked>'
        f"{word} <b>{counts[state]}</b></label>"
        for state, word in STATES.items()
        if counts[state] or state in ("repaired", "refused", "unsafe", "withdrawn")
    )
    return (
        f'<form id="filter" role="search"><div class="states">{boxes}</div>'
        '<input type="search" id="words" placeholder="op, path, rule, text" '
        'aria-label="Show what holds this text"></form>'
    )


def _repair(repair: Repair) -> str:
    badge = "" if repair.safe else '<span class="badge unsafe">callers can tell</span>'
    contracts = "".join(map(_contract, repair.new))
    return (
        f'<article data-state="repaired"><h2>{_text(repair.op)}</h2>'
        f'<p><span class="badge repaired">repaired</span>{badge} {_text(repair.does)} '
        f'<span class="rules">{_text(", ".join(repair.rules))}</span></p>'
        f'<div class="contracts"><section><h3>before</h3>{_contract(repair.old)}</section>'
        f"<section><h3>after</h3>{contracts}</section></div>{_unchanged(repair)}"
        f"{_sites(repair.sites)}{_diff(repair.diff)}</article>"
    )


def _unchanged(repair: Repair) -> str:
    if repair.new != (repair.old,):
        return ""
    return '<p class="none">The contract stays. The code keeps it now: see the diff.</p>'


def _contract(contract: Contract) -> str:
    tags = "".join(f' <span class="tag">Tag.{_text(tag)}</span>' for tag in contract.tags)
    if not contract.kind:
        return (
            f'<figure><figcaption>{_text(contract.op)}</figcaption><p class="none">'
            "Its contract cannot be told from the source.</p></figure>"
        )
    schema = "" if contract.schema is None else f"<code>{_text(contract.schema)}</code>"
    return (
        f'<figure><figcaption>{_text(contract.op)} <span class="kind">{_text(contract.kind)}</span>'
        f"{tags}</figcaption>{picture(contract)}{schema}</figure>"
    )


def _sites(sites: tuple[Site, ...]) -> str:
    if not sites:
        return ""
    rows = "".join(
        f'<li><span class="place">{_text(site.path)}:{site.line}</span>'
        f'<pre><span class="old">{_text(site.before)}</span>\n'
        f'<span class="new">{_text(site.after)}</span></pre></li>'
        for site in sites
    )
    return (
        f"<details><summary>{_count(len(sites), 'call site')}</summary>"
        f'<ul class="sites">{rows}</ul></details>'
    )


def _diff(diff: bytes) -> str:
    if not diff:
        return ""
    lines = diff.decode("utf-8", "backslashreplace").removesuffix("\n").split("\n")
    shown = "\n".join(_diff_line(line) for line in lines)
    return f'<details><summary>diff</summary><pre class="diff">{shown}</pre></details>'


def _diff_line(line: str) -> str:
    kind = next((kind for start, kind in _DIFF_CLASSES if line.startswith(start)), "")
    kind = kind or {"+": "new", "-": "old"}.get(line[:1], "")
    text = _text(line)
    return f'<span class="{kind}">{text}</span>' if kind else text


def _left(op: str, reasons: tuple[Reason, ...]) -> str:
    states = [reason.state for reason in _first(reasons)]
    badges = "".join(f'<span class="badge {s}">{STATES.get(s, s)}</span>' for s in states)
    return (
        f'<article data-state="{" ".join(states)}"><h2>{_text(op)}</h2><p>{badges}</p>'
        f'<ul class="reasons">{"".join(map(_reason, reasons))}</ul></article>'
    )


def _reason(reason: Reason) -> str:
    remedy = f'<p class="remedy">{_text(reason.remedy)}</p>' if reason.remedy else ""
    return (
        f'<li><span class="place">{_text(reason.path)}:{reason.line}</span> '
        f'<span class="rules">{_text(reason.code)} {_text(reason.name)}</span>'
        f"<p>{_text(reason.reason)}</p>{remedy}</li>"
    )


def _notes(notes: tuple[Reason, ...]) -> str:
    if not notes:
        return ""
    return (
        '<article data-state="note"><h2>To look at</h2>'
        f'<ul class="reasons">{"".join(map(_reason, notes))}</ul></article>'
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def _text(text: str) -> str:
    """Escape text for HTML; lines and tabs stay, what else is not printable is an escape."""
    return escape(
        "".join(
            char
            if char in "\n\t" or char.isprintable()
            else char.encode("unicode_escape").decode("ascii")
            for char in text
        )
    )
