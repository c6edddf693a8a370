"""Which files hold a word, asked of a tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.source import questions, tree
from opscaffold.source.holders import Holders
from opscaffold.source.model import Use
from opscaffold.source.project import load_project
from opscaffold.source.questions import mentions
from opscaffold.source.tree import Tree


def _tree(root: Path, files: dict[str, str]) -> Tree:
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")
    return Tree(root, [root / name for name in files])


def _names(paths: set[Path]) -> set[str]:
    return {path.name for path in paths}


def test_files_hold_whole_words_also_ones_that_are_not_ascii(tmp_path: Path) -> None:
    files = {"a.py": "scale(x)", "b.py": "rescale(x)", "c.py": "größe = 1", "d.py": "scale_out"}
    holders = Holders(_tree(tmp_path, files), lambda: {"scale", "größe"})
    assert _names(holders.of(["scale"])) == {"a.py"}
    assert _names(holders.of(["größe", "scale_out"])) == {"c.py", "d.py"}
    assert holders.of(["nobody"]) == set()
    assert holders.of([]) == set()


def test_many_words_are_found_as_few_are(tmp_path: Path) -> None:
    files = {f"m{n}.py": f"name{n}(name{n + 1})\n" for n in range(40)}
    holders = Holders(_tree(tmp_path, files), lambda: {f"name{n}" for n in range(41)})
    for n in range(1, 40):
        assert _names(holders.of([f"name{n}"])) == {f"m{n - 1}.py", f"m{n}.py"}


def test_what_is_expected_is_looked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holders = Holders(_tree(tmp_path, {"a.py": "one", "b.py": "two"}), lambda: {"one", "two"})
    asked: list[questions.Question] = []

    def answers(question: questions.Question, *rest: object) -> questions.Answers:
        asked.append(question)
        return questions.answers(question, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(tree, "answers", answers)
    assert _names(holders.of(["one"])) == {"a.py"}
    assert _names(holders.of(["two"])) == {"b.py"}
    assert len(asked) == 1


def test_computed_names_and_names_of_a_namespace(tmp_path: Path) -> None:
    files = {
        "a.py": "getattr(lib, name)",
        "b.py": "lib.name",
        "c.py": "import torch\ntorch.ops.lib.scale(x)\n",
        "d.py": "import torch\nmine = torch.ops.lib\n",
    }
    holders = Holders(_tree(tmp_path, files), lambda: {"lib"})
    assert _names(holders.computing(["lib"])) == {"a.py"}
    assert _names(holders.naming("lib", all_of_them=False)) == {"d.py"}
    assert _names(holders.naming("lib", all_of_them=True)) == {"c.py", "d.py"}


def test_a_later_reading_asks_only_of_what_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _tree(tmp_path, {"a.py": "scale", "b.py": "scale", "c.py": "other"})
    question = mentions(["scale"])
    assert [path.name for path in before.ask(question)] == ["a.py", "b.py"]
    a, c, new = (tmp_path / name for name in ("a.py", "c.py", "n.py"))
    read: list[str] = []
    overlay = {a: b"nothing", c: b"scale", new: b"scale"}
    after = Tree(tmp_path, {*before.files, new}, overlay, earlier=before)
    plain = after.read
    monkeypatch.setattr(after, "read", lambda path: read.append(path.name) or plain(path))
    assert [path.name for path in after.ask(question)] == ["b.py", "c.py", "n.py"]
    assert sorted(read) == ["a.py", "c.py", "n.py"]
    again = Tree(tmp_path, before.files, earlier=after)
    assert [path.name for path in again.ask(question)] == ["a.py", "b.py"]


def test_ops_that_were_not_expected_are_found_as_well(tmp_path: Path) -> None:
    op = (
        "import torch\n\n\n@torch.library.custom_op('lib::{0}', mutates_args=())\ndef {0}(x): ...\n"
    )
    (tmp_path / "one.py").write_text(op.format("one"))
    (tmp_path / "two.py").write_text(op.format("two"))
    (tmp_path / "calls.py").write_text("from one import one\nfrom two import two\none(1); two(2)\n")
    project = load_project([tmp_path], tmp_path)
    assert _names(project.mentioning_ops()) == {"one.py", "two.py", "calls.py"}
    project.expect(["lib::one"])
    assert _names(project.mentioning_ops()) == {"one.py", "calls.py"}
    for found in project.ops:
        uses = [(r.module.path.name, r.use) for r in project.references(found)]
        assert uses == [("calls.py", Use.IMPORT), ("calls.py", Use.CALL)]
