"""The reviewers' page as text: what it says, what it escapes, and that it loads nothing."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from pages import EVIL, FULL, HARMFUL, LONG, OLD, OUT, repair

from opscaffold.report.migration import Contract, Page, Value
from opscaffold.report.page import render_page
from opscaffold.report.picture import picture

VOID = {"meta", "input", "br", "img", "link"}
ELEMENTS = {
    *("html", "head", "meta", "title", "style", "body", "header", "main", "footer", "script"),
    *("h1", "h2", "h3", "p", "strong", "b", "div", "span", "section", "article", "ul", "li", "pre"),
    *("form", "label", "input", "details", "summary", "code", "figure", "figcaption"),
    *("svg", "rect", "path", "circle", "text"),
}


class Reader(HTMLParser):
    """Reads a page, and complains of elements that are not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.texts.append(data)


def read(page: Page) -> Reader:
    return Reader(render_page(page).decode("utf-8"))


@pytest.mark.parametrize("page", [FULL, HARMFUL], ids=["full", "harmful"])
def test_it_is_well_formed_and_made_of_known_elements(page: Page) -> None:
    reader = read(page)
    assert {tag for tag, _ in reader.seen} <= ELEMENTS
    attributes = {name for _, found in reader.seen for name in found}
    assert not {name for name in attributes if name.startswith("on")}
    assert not attributes & {"src", "href", "xlink:href", "action", "style"}


@pytest.mark.parametrize("page", [FULL, HARMFUL], ids=["full", "harmful"])
def test_it_loads_nothing(page: Page) -> None:
    text = render_page(page).decode("utf-8")
    assert not re.search(r"https?:|url\(|@import|fetch\(|XMLHttp|import\(", text)
    policy = next(
        found["content"]
        for tag, found in read(page).seen
        if tag == "meta" and "http-equiv" in found
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_what_comes_from_code_is_escaped() -> None:
    text = render_page(HARMFUL).decode("utf-8")
    assert "<img" not in text
    assert text.count("<script>") == text.count("</script>") == 1
    assert not any(ord(char) < 0x20 and char not in "\n\t" for char in text)
    assert "\u202e" not in text
    shown = "".join(read(HARMFUL).texts)
    assert r"</script><img src=x" in shown
    assert r"\x00\x1b[2J\u202e" in shown
    assert r"\xff" in shown


def test_it_says_what_was_done_and_what_is_left() -> None:
    shown = " ".join(" ".join(read(FULL).texts).split())
    assert "9 ops read; 2 would be repaired in 2 files; 4 left as they are." in shown
    for text in (
        "split into demo::gain and demo::gain_out",
        "demo::gain_out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
        "app/run.py:7",
        "gain_out(x, out=buf)",
        "a reason to keep it",
        "do it by hand",
        "callers can tell",
        "look at this",
        "1 call site",
    ):
        assert text in shown
    assert "2 repaired in" in " ".join(read(replace(FULL, written=True)).texts).replace("  ", " ")


def test_each_op_carries_its_state_and_the_filter_counts_them() -> None:
    reader = read(FULL)
    states = [found["data-state"] for tag, found in reader.seen if tag == "article"]
    assert states == [
        *("repaired", "repaired", "refused", "unsafe", "withdrawn", "declined", "note"),
    ]
    boxes = [found["value"] for tag, found in reader.seen if found.get("type") == "checkbox"]
    assert boxes == ["repaired", "refused", "unsafe", "withdrawn", "declined"]
    text = render_page(FULL).decode("utf-8")
    assert "repaired <b>2</b>" in text
    assert "withdrawn <b>1</b>" in text


def test_the_diff_is_coloured_by_line() -> None:
    text = render_page(FULL).decode("utf-8")
    assert '<span class="old">-gain(x, buf)</span>' in text
    assert '<span class="new">+gain_out(x, out=buf)</span>' in text
    assert '<span class="at">@@ -1,2 +1,2 @@</span>' in text


def test_a_contract_that_stays_is_said_to() -> None:
    page = replace(FULL, repairs=(repair(old=OUT, new=(OUT,)),))
    assert "The contract stays." in "".join(read(page).texts)
    assert "The contract stays." not in "".join(read(replace(FULL, repairs=(repair(),))).texts)


def test_an_unknown_contract_is_said_to_be_unknown() -> None:
    page = replace(FULL, repairs=(repair(old=Contract("demo::gain")),))
    assert "cannot be told from the source" in "".join(read(page).texts)


def test_nothing_at_all_is_a_page_too() -> None:
    shown = "".join(read(Page("p", False, 0, 0, (), ())).texts)
    assert "0 ops read; 0 would be repaired in 0 files; 0 left" in shown


def parsed(contract: Contract) -> ET.Element:
    return ET.fromstring(picture(contract))


def test_the_picture_joins_what_is_the_same_memory() -> None:
    out = parsed(OUT)
    links = [e for e in out.iter("path") if "link" in e.get("class", "")]
    assert len(links) == 1
    written = [e for e in out.iter("circle") if "written" in e.get("class", "")]
    assert len(written) == 2
    old = parsed(OLD)
    assert not [e for e in old.iter("path") if "link" in e.get("class", "")]
    texts = ["".join(e.itertext()) for e in old.iter("text")]
    assert texts == ["x: Tensor", "out: Tensor? = None", "new Tensor"]


def test_several_aliases_have_colours_of_their_own() -> None:
    values = tuple(Value("Tensor", f"x{n}", sets=(f"s{n}",), written=True) for n in range(8))
    found = parsed(Contract("a::b", "mutable", None, (), values, values[::-1]))
    links = [e.get("class", "") for e in found.iter("path")]
    assert len(links) == 8
    assert len(set(links)) == 6


def test_returns_and_arguments_may_be_missing() -> None:
    texts = ["".join(e.itertext()) for e in parsed(Contract("a::b", "mutable")).iter("text")]
    assert texts == ["nothing", "no arguments"]


@pytest.mark.parametrize("text", [EVIL, LONG, "\u6f22\u5b57" * 40, ""])
def test_no_text_leaves_the_picture(text: str) -> None:
    value = Value(text or "T", text, text)
    found = parsed(Contract(text, "functional", None, (), (value,) * 3, (value,)))
    for element in found.iter("text"):
        room = 210 if element.get("text-anchor") == "end" else 82
        shown = element.text or (element[0].tail if len(element) else "") or ""
        wide = sum(2 if ord(char) > 0x2E80 else 1 for char in shown)
        assert wide * 6.7 <= room + 6.7
