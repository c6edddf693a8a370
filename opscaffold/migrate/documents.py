"""Python in prose: doctests in docstrings and code blocks in Markdown, as modules of their own.

Each docstring or Markdown file becomes a snippet: a module whose text is the examples in turn.
A snippet is read, resolved and rewritten as any other module, and put back where it came from.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from opscaffold.fs.text import SourceError, SourceText, decode
from opscaffold.source.files import read_bytes
from opscaffold.source.model import Module
from opscaffold.source.project import Project
from opscaffold.source.questions import Topic
from opscaffold.source.words import Words, may_register

_PROMPT = re.compile(r"^(?P<indent>\s*)>>> ?(?P<code>.*)$")
_FENCE = re.compile(r"^(?P<indent>\s*)(?P<mark>`{3,}|~{3,}(?!~))(?=[^`]*$)\s*(?P<info>[\w+-]*)")
_LANGUAGES = frozenset({"python", "py", "python3", "pycon", "pytb", "doctest"})
# What may follow an example that prints nothing.
_NO_OUTPUT = (">>>", '"""', "'''", "```", "~~~")
_PROMPTS = Topic((b">>>",))
_MARK = "# opscaffold: example"


@dataclass(frozen=True, slots=True)
class Example:
    """Consecutive lines of a file that hold Python. ``first`` and ``end`` count from 0.

    ``prompts`` says that the lines carry ``>>>`` and ``...``; ``indent`` stands before each.
    ``shown`` says that what it is expected to print follows.
    """

    first: int
    end: int
    indent: str
    prompts: bool
    code: tuple[str, ...]
    shown: bool = False

    def written(self, code: Iterable[str]) -> list[str]:
        """Lines of code as they stand in the file: each statement behind a prompt of its own."""
        if not self.prompts:
            return [f"{self.indent}{line}" if line else "" for line in code]
        lines = list(code)
        starts = {0, *(_first_line(s) - 1 for s in ast.parse("\n".join(lines)).body[1:])}
        return [
            f"{self.indent}{'>>>' if index in starts else '...'} {line}".rstrip()
            for index, line in enumerate(lines)
        ]


@dataclass(frozen=True, slots=True)
class Snippet:
    """The examples of one docstring or document as a module. ``path`` is no file on disk."""

    host: Path
    path: Path
    examples: tuple[Example, ...]
    header: tuple[str, ...]

    @property
    def text(self) -> str:
        """The module's text: the header's imports, then each example behind a mark."""
        lines = list(self.header)
        for example in self.examples:
            lines += [_MARK, *example.code]
        return "\n".join(lines) + "\n"

    def line_in_host(self, line: int) -> int:
        """The line of the host (from 1) that a line of the module (from 1) came from."""
        at = len(self.header)
        for example in self.examples:
            start = at + 1
            at = start + len(example.code)
            if line <= at:
                return example.first + max(line - start, 1)
        return 1

    def is_shown(self, line: int) -> bool:
        """Whether the example at a line of the module (from 1) prints what it is expected to."""
        at = len(self.header)
        for example in self.examples:
            at += 1 + len(example.code)
            if line <= at:
                return example.shown
        return False

    def replaced(self, text: str) -> list[tuple[Example, list[str]]]:
        """The examples that differ in a rewritten text, with their new lines."""
        parts = text.split(f"{_MARK}\n")[1:]
        result = []
        for example, part in zip(self.examples, parts, strict=True):
            code = part.removesuffix("\n").split("\n")
            if code != list(example.code):
                result.append((example, example.written(code)))
        return result


def splice(source: SourceText, replacements: Iterable[tuple[Example, list[str]]]) -> bytes:
    """The bytes of a host with some of its examples replaced."""
    newline = "\r\n" if "\r\n" in source.text else "\n"
    lines = source.text.split("\n")
    for example, new in sorted(replacements, key=lambda r: r[0].first, reverse=True):
        ending = "\r" if newline == "\r\n" else ""
        lines[example.first : example.end] = [f"{line}{ending}" for line in new]
    return source.encode("\n".join(lines))


def collect(
    project: Project, documents: Iterable[Path], overlay: Mapping[Path, bytes], words: set[str]
) -> list[Snippet]:
    """The snippets of a project's docstrings and documents that mention any of the words.

    Examples that may register ops of their own are left alone.
    """
    pattern = Words(words)
    found: list[Snippet] = []
    # What holds a prompt, of all files at once: few do.
    for path in project.ask(_PROMPTS.question):
        if pattern.in_(project.read(path) or b""):
            module = project.module_for(path)
            found += [] if module is None else snippets_of_module(module)
    for path in documents:
        data = overlay.get(path) or read_bytes(path) or b""
        if pattern.in_(data):
            found += snippets_of_document(path, data)
    return [s for s in found if pattern.in_(data := s.text.encode()) and not may_register(data)]


def snippets_of_document(path: Path, data: bytes) -> list[Snippet]:
    """The snippet of a Markdown file; none where it holds no Python."""
    source = read_document(path, data)
    if source is None:
        return []
    lines = [line.removesuffix("\r") for line in source.text.split("\n")]
    examples = [e for e in _fenced(lines) if _parses(e.code)]
    return [_snippet(path, 0, examples, ())] if examples else []


def read_document(path: Path, data: bytes) -> SourceText | None:
    """Decode a host: Python by its own rules, anything else as UTF-8."""
    try:
        if path.suffix in {".py", ".pyi"}:
            return decode(data, path)
        bom = data.startswith(b"\xef\xbb\xbf")
        return SourceText(data.decode("utf-8-sig"), "utf-8", bom)
    except (SourceError, UnicodeDecodeError):
        return None


def snippets_of_module(module: Module) -> list[Snippet]:
    """A snippet for each docstring of a module that holds doctests."""
    lines = [line.removesuffix("\r") for line in module.source.text.split("\n")]
    bound = {
        node.id
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    } | {n.name for n in module.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    bound |= {
        (a.asname or a.name).split(".")[0]
        for n in ast.walk(module.tree)
        if isinstance(n, ast.Import | ast.ImportFrom)
        for a in n.names
    }
    found = []
    for number, node in enumerate(_docstrings(module.tree)):
        if node.end_lineno is None or ">>>" not in str(node.value):
            continue
        examples = [e for e in _prompted(lines, node.lineno, node.end_lineno) if _parses(e.code)]
        if examples:
            used = {
                n.id
                for e in examples
                for n in ast.walk(ast.parse("\n".join(e.code)))
                if isinstance(n, ast.Name)
            }
            header = tuple(f"from {module.name} import {name}" for name in sorted(used & bound))
            found.append(_snippet(module.path, number, examples, header))
    return found


def _snippet(host: Path, number: int, examples: list[Example], header: tuple[str, ...]) -> Snippet:
    path = host.with_name(f".{host.name}.{number}.opscaffold.py")
    return Snippet(host, path, tuple(examples), header)


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body[:1]:
                case [ast.Expr(value=ast.Constant(value=str()) as constant)]:
                    yield constant


def _prompted(lines: list[str], first: int, end: int) -> Iterator[Example]:
    """Doctest examples between two lines (from 0, end excluded)."""
    at = first
    while at < min(end, len(lines)):
        prompt = _PROMPT.match(lines[at])
        if prompt is None:
            at += 1
            continue
        start, indent, code = at, prompt["indent"], [prompt["code"]]
        at += 1
        while at < end and (lines[at] == f"{indent}..." or lines[at].startswith(f"{indent}... ")):
            code.append(lines[at][len(indent) + 4 :])
            at += 1
        follows = lines[at].strip() if at < min(end, len(lines)) else ""
        shown = bool(follows) and not follows.startswith(_NO_OUTPUT)
        yield Example(start, at, indent, prompts=True, code=tuple(code), shown=shown)


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(d.lineno for d in decorators)])


def _fenced(lines: list[str]) -> Iterator[Example]:
    """Code blocks of Markdown, and the doctests in them."""
    at = 0
    while at < len(lines):
        fence = _FENCE.match(lines[at])
        if fence is None:
            # A doctest needs no fence.
            example = (
                next(_prompted(lines, at, len(lines)), None) if _PROMPT.match(lines[at]) else None
            )
            if example is not None:
                yield example
            at = at + 1 if example is None else example.end
            continue
        at += 1
        start = at
        while at < len(lines) and not lines[at].strip().startswith(fence["mark"]):
            at += 1
        if fence["info"].lower() in _LANGUAGES and at < len(lines):
            block = lines[start:at]
            if any(_PROMPT.match(line) for line in block):
                yield from _prompted(lines, start, at)
            else:
                indent = fence["indent"]
                code = tuple(line.removeprefix(indent) for line in block)
                yield Example(start, at, indent, prompts=False, code=code)
        at += 1


def _parses(code: Iterable[str]) -> bool:
    try:
        ast.parse("\n".join(code))
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True
