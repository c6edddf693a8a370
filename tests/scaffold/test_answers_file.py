from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.scaffold.answers import answers_of, build
from opscaffold.scaffold.answers_file import dump, load, parse
from opscaffold.scaffold.given import AnswerError, Answers

FILE = '''\
package = "my-ops"
namespace = "mylib"   # a remark
description = """
[[op]] kind = 1"""
torch_min = "2.13"

[[op]]
schema = "scale(Tensor x, float alpha=1.0) -> Tensor"
family = true

[[op]]
name = "fill"
params = [
    "Tensor x",  # "returns" = 1
    "Tensor y",
]
mutates = ["y"]
returns = "()"
'''


def refused(text: str) -> str:
    with pytest.raises(AnswerError) as caught:
        parse(text, "a.toml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_file_holds_the_package_and_its_ops() -> None:
    answers = parse(FILE, "a.toml")
    assert answers.package["namespace"].value == "mylib"
    assert [op.keys() for op in answers.ops] == [
        {"schema", "family"},
        {"name", "params", "mutates", "returns"},
    ]
    assert answers.ops[1]["params"].value == ("Tensor x", "Tensor y")


def test_every_answer_knows_its_line() -> None:
    answers = parse(FILE, "a.toml")
    lines = [given.origin for given in answers.package.values()]
    lines += [given.origin for op in answers.ops for given in op.values()]
    assert lines == [f"a.toml:{n}" for n in (1, 2, 3, 5, 8, 9, 12, 13, 17, 18)]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_ends_do_not_move_lines(newline: str, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(FILE.replace("\n", newline).encode())
    assert load(path).ops[1]["returns"].origin == f"{path}:18"


@pytest.mark.parametrize(
    ("text", "line", "nearest"),
    [
        ('package = "p"\nnamspace = "x"', 2, "namespace"),
        ('[[op]]\nschema = "f() -> Tensor"\n\n[[op]]\nautogard = true', 5, "autograd"),
        ('[[op]]\nfakelike = "x"', 2, "fake_like"),
        ('[[ops]]\nname = "x"', 1, "op"),
        ('[package_info]\nname = "x"', 1, "package"),
        ('op = [{schema = "f() -> Tensor", knd = 1}]', 1, "kind"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known(
    text: str, line: int, nearest: str
) -> None:
    message = refused(text)
    assert message.startswith(f"a.toml:{line}: unknown key ")
    assert message.endswith(f"nearest known key: {nearest}")


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ('package = "p', "a.toml:1: is not valid TOML"),
        ("a = 1\nb = = 2", "a.toml:2: is not valid TOML"),
        ("a = [" * 5000, "a.toml"),
        ("a = " + "9" * 5000, "a.toml"),
        ('package = "p"\npackage = "q"', "a.toml:2: is not valid TOML"),
        ("package = 3", "a.toml:1: package is a string"),
        ("torch_min = 2.13", "a.toml:1: torch_min is a string; put it in quotes"),
        ('[[op]]\nautograd = "yes"', "a.toml:2: autograd is true or false"),
        ("[[op]]\nparams = [1]", "a.toml:2: params is a list of strings"),
        ('[op]\nname = "f"', "a.toml:1: op holds the ops"),
        ("op = [1]", "a.toml:1: op holds the ops"),
        ('\n\nop.name = "f"', "a.toml:3: op holds the ops"),
    ],
)
def test_what_is_no_answers_file_is_refused_with_its_line(text: str, start: str) -> None:
    assert refused(text).startswith(start)


def test_an_answer_refused_later_names_file_and_line() -> None:
    answers = parse('package = "p"\n[[op]]\nname = "f"\nkind = "sideways"\nparams = []', "a.toml")
    with pytest.raises(AnswerError, match=r"^a\.toml:4: 'sideways' is no kind"):
        build(answers)


def test_a_contradiction_names_the_keys_of_the_file() -> None:
    text = 'package = "p"\n[[op]]\nsignature = "def f(x: Tensor, y: Tensor) -> None"'
    with pytest.raises(AnswerError, match=r"^a\.toml:3: f: .*mutates \(mutates\)$"):
        build(parse(text, "a.toml"))


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AnswerError, match="cannot be read: No such file"):
        load(tmp_path / "none.toml")
    with pytest.raises(AnswerError, match="cannot be read"):
        load(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'a = 1\nb = "\xe9"')
    with pytest.raises(AnswerError, match=r"latin\.toml:2: is not UTF-8"):
        load(tmp_path / "latin.toml")


def test_a_byte_order_mark_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbf" + FILE.encode())
    assert load(tmp_path / "a.toml").package["package"].origin.endswith("a.toml:1")


def test_dozens_of_ops_come_from_one_file() -> None:
    text = 'package = "many"\n' + "".join(
        f'[[op]]\nschema = "op{n}(Tensor x, int k={n}) -> Tensor"\n' for n in range(60)
    )
    spec = build(parse(text, "a.toml"))
    assert [op.contract.name for op in spec.ops] == [f"op{n}" for n in range(60)]


def test_what_is_dumped_is_read_back_to_the_same_package_and_bytes() -> None:
    spec = build(Answers(parse(FILE.replace("[[op]] kind = 1", "Two ops."), "a.toml").package,
                         parse(FILE, "a.toml").ops))  # fmt: skip
    text = dump(answers_of(spec))
    again = build(parse(text, "b.toml"))
    assert again == spec
    assert dump(answers_of(again)) == text


def test_strings_of_any_kind_survive() -> None:
    from opscaffold.scaffold.given import Given

    odd = "quote \" back \\ tab \t bell \x07 del \x7f end \u2028 \U0001f600 'x'"
    answers = Answers({"description": Given(odd)}, ({"params": Given((odd, "b"))},))
    read = parse(dump(answers), "a.toml")
    assert read.package["description"].value == odd
    assert read.ops[0]["params"].value == (odd, "b")
