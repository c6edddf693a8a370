from __future__ import annotations

import pytest

from opscaffold.source.code_only import code_only
from opscaffold.source.questions import (
    CALLS_OPS,
    REGISTERS,
    Topic,
    answerer,
    answers,
    mentions,
    named,
    uses,
)


@pytest.mark.parametrize(
    "text",
    [
        '"""A custom_op is made elsewhere."""\nx = 1\n',
        "# see custom_op\nx = 1\n",
        "x = 1  # see custom_op\n",
        "def f():\n    '''As a Library.define does, it's\n    said.'''\n",
        'def f():\n    r"""A \\""" custom_op."""\n',
    ],
)
def test_a_file_that_only_talks_of_registering_is_not_read(text):
    assert not answerer(REGISTERS)(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        "from torch.library import custom_op\n",
        'x = "#"; lib.define(y)\n',
        'x = \'"""\'; lib.define(y)\n',
        '"""Text."""\nlib.define(y)\n"""Text."""\n',
        "x = '\\''; lib.define(y)\n",
        'x = """a""" """b"""; lib.define(y)\n',
        'f("it\'s")\nlib.define(y)\n',
        "getattr(torch.library, 'custom_op')\n",
        'def f(lib: "torch.library.Library"): ...\n',
        '"""never closed\nlib.define(y)\n',
        "x = 'never closed\nlib.define(y)\n",
    ],
)
def test_a_file_that_registers_is_read_whatever_stands_around(text):
    assert answerer(REGISTERS)(text.encode())


def test_a_name_is_used_where_it_stands_in_code():
    asked = answerer(uses(["scale"]))
    assert not asked(b'"""Like scale."""  # scale\n')
    assert asked(b'"""Like scale."""  # scale\ngetattr(ops, "scale")\n')
    assert answerer(mentions(["scale"]))(b"# scale\n")


def test_what_looks_like_a_comment_is_read_where_the_file_is_no_text():
    assert answerer(REGISTERS)(b"# custom_op \xff\n")


def test_comments_and_docstrings_are_left_out_and_other_strings_kept():
    source = b'"""Doc."""\nx = "a # b"  # c\ny = 1\n'
    assert code_only(source) == b' \nx = "a # b"   \ny = 1\n'


def test_a_large_file_is_taken_as_it_is():
    source = b"# custom_op\n" * 100_000
    assert code_only(source) == source


@pytest.mark.parametrize("text", ["'\\'", '"""\\', "'", '"', '\\"""', "x'\\'''", '"\\\n', "'\\"])
def test_what_is_no_python_takes_no_more_than_its_length(text):
    start = text * 1_000
    # A pattern that tried again and again would not come to an end with ten times as much.
    assert code_only(start.encode() * 10)


def test_questions_are_answered_for_the_files_that_they_concern():
    held = {"a": b"scale(x)", "b": b"rescale", "c": None, "d": b"torch.ops.demo.scale(x)"}
    files = list(held)

    def ask(question, numbers=range(4)):
        return answers(question, files, numbers, held.__getitem__)

    assert ask(mentions(["scale"])) == [(0, True), (3, True)]
    assert ask(mentions(["scale"]), [1, 3]) == [(3, True)]
    assert ask(uses(["scale"])) == [(0, True), (3, True)]
    assert ask(named(["scale", "rescale"])) == [(0, ["scale"]), (1, ["rescale"]), (3, ["scale"])]
    assert ask(CALLS_OPS) == [(3, ([("demo", "scale", False)],))]
    assert ask(Topic((b"SCALE",)).question) == []
    assert ask(Topic((b"resc",), any_case=True).question) == [(1, True)]
    # What cannot be read may register: it is loaded, and becomes a problem.
    assert ask(REGISTERS) == [(2, True)]


def test_there_are_no_other_questions():
    with pytest.raises(ValueError, match="no question"):
        answerer(("what",))
