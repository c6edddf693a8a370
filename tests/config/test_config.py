from __future__ import annotations

from pathlib import Path

import pytest

from opscaffold.config.lines import key_lines
from opscaffold.config.load import ConfigError, load_config
from opscaffold.config.model import Config, Registrar

WHOLE = """\
[project]
name = "demo"  # [tool.opscaffold] is below

[tool.opscaffold]
select = ["OPS1", "OPS002"]
ignore = [
    "maybe-out",  # see ]
]
exclude = ["vendor/"]
extend-exclude = ['old/*.py']
target-torch = "2.12"
out-naming = "overload"

[tool.opscaffold.per-file-ignores]
"tests/**" = ["OPS101"]

[[tool.opscaffold.registrars]]
helper = "kernels.utils.direct_register_custom_op"
parameters = ["op_name", "op_func", "mutates_args", "fake_impl"]
name = "op_name"
function = "op_func"
mutates_args = "mutates_args"
fake = "fake_impl"
defaults = { namespace = "kernels", mutates_args = [] }

[[tool.opscaffold.registrars]]
helper = "kernels.op"
strip = "_"
defaults.mutates_args = "unknown"
defaults.fake = true
"""


FIRST = "[[tool.opscaffold.registrars]]\nhelper = 'a.b'\n"
NAMED = f"{FIRST}name = 'name'\n"


def write(directory: Path, text: str, name: str = "pyproject.toml") -> Path:
    (directory / name).write_text(text, "utf-8")
    return directory


def refusal(directory: Path, text: str, name: str = "pyproject.toml") -> str:
    with pytest.raises(ConfigError) as caught:
        load_config(write(directory, text, name))
    return str(caught.value).rpartition("/")[2]


def test_every_key_is_read(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, WHOLE))
    assert config == Config(
        select=("OPS1", "OPS002"),
        ignore=("maybe-out",),
        per_file_ignores=(("tests/**", ("OPS101",)),),
        exclude=("vendor/",),
        extend_exclude=("old/*.py",),
        target_torch=(2, 12),
        out_naming="overload",
        registrars=(
            Registrar(
                "kernels.utils.direct_register_custom_op",
                ("op_name", "op_func", "mutates_args", "fake_impl"),
                name="op_name",
                function="op_func",
                mutates_args="mutates_args",
                fake="fake_impl",
                default_namespace="kernels",
                default_mutates=(),
            ),
            Registrar("kernels.op", strip="_", default_mutates="unknown", default_fake=True),
        ),
        file=tmp_path / "pyproject.toml",
    )


def test_a_file_of_its_own_has_the_keys_at_the_top(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, 'ignore = ["OPS1"]\n', "opscaffold.toml"))
    assert config.ignore == ("OPS1",)


@pytest.mark.parametrize("text", ["", "[tool]\n", "[tool.other]\nx = 1\n", "tool = 3\n"])
def test_no_table_means_the_default(tmp_path: Path, text: str) -> None:
    assert load_config(write(tmp_path, text)) == Config()


def test_no_file_means_the_default(tmp_path: Path) -> None:
    assert load_config(tmp_path) == Config()


def test_two_places_are_refused(tmp_path: Path) -> None:
    write(tmp_path, "[tool.opscaffold]\n")
    assert "keep one" in refusal(tmp_path, "", "opscaffold.toml")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('\nselct = ["OPS1"]', ":3: unknown key 'selct'; did you mean 'select'?"),
        ("per_file_ignores = {}", ":2: unknown key 'per_file_ignores'; did you mean 'per-file-ig"),
        ("zzz = 1", ":2: unknown key 'zzz'; known are select, ignore"),
        ('select = "OPS1"', ":2: 'select' must be an array of strings, not a string"),
        ('ignore = [\n  "a",\n  3,\n]', ":4: 'ignore' may hold strings only, not an integer"),
        ("target-torch = 2.13", ":2: 'target-torch' must be a string, not a number"),
        ('target-torch = "new"', ":2: 'new' is no torch version"),
        ('target-torch = "1.9"', ":2: 'target-torch' is 1.9: custom_op came with torch 2.4"),
        ('out-naming = "flt"', ":2: 'out-naming' must be 'flat' or 'overload', not 'flt'"),
        ('per-file-ignores = ["a"]', ":2: 'per-file-ignores' must be a table of patterns, not an"),
        ('[tool.opscaffold.per-file-ignores]\n"a.py" = "x"', ":3: 'a.py' must be an array"),
        ("registrars = {}", ":2: 'registrars' must be an array of tables, not a table"),
        ("[[tool.opscaffold.registrars]]\nname = 'n'", ":2: a registrar needs 'helper'"),
        ("[[tool.opscaffold.registrars]]\nhelper = 'a b'", ":3: 'a b' is no dotted name"),
        (
            f"{FIRST}[[tool.opscaffold.registrars]]\nhelper = 'a.c'\n\nmutates-args = 'm'",
            ":7: unknown key 'mutates-args'; did you mean 'mutates_args'?",
        ),
        (
            f"{FIRST}name = 0",
            ":4: 'name' must be a string, not an integer",
        ),
        (
            f"{NAMED}{NAMED}",
            ":6: 'a.b' is described twice",
        ),
        (
            f"{NAMED}parameters = ['name', 'fn']\nfunction = 'fun'",
            ":6: 'function' is 'fun', which 'parameters' does not list; did you mean 'fn'?",
        ),
        (
            f"{FIRST}parameters = ['name', 'fn']\nname = 'qualname'",
            ":5: 'name' is 'qualname', which 'parameters' does not list",
        ),
        (
            f"{NAMED}parameters = ['name', 'mutates']\nmutates_args = 'mutate'",
            ":6: 'mutates_args' is 'mutate', which 'parameters' does not list; did you mean 'mut",
        ),
        (
            f"{FIRST}parameters = ['name']",
            ":3: nothing is said of 'a.b': say where the op's 'name' comes from",
        ),
        (
            f"{FIRST}defaults = {{ ns = 'x' }}",
            ":4: unknown key 'ns'; known are namespace, mutates_args",
        ),
        (f"{FIRST}registers = 'op'", ":4: 'registers' must be 'define' or 'custom_op' or"),
        ('notebooks = "yes"', ":2: 'notebooks' must be true or false, not a string"),
        ("select = [", ":3: is no valid TOML"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    assert f"pyproject.toml{expected}" in refusal(tmp_path, f"[tool.opscaffold]\n{text}\n")


def test_what_is_given_by_keyword_alone_need_not_be_listed(tmp_path: Path) -> None:
    text = f"{NAMED}parameters = ['name', 'function']\nmutates_args = 'mutates'"
    (registrar,) = load_config(write(tmp_path, text)).registrars
    assert registrar.mutates_args == "mutates"


@pytest.mark.parametrize("said", ["registers = 'nothing'", "defaults = { namespace = 'n' }"])
def test_a_helper_may_have_no_parameters(tmp_path: Path, said: str) -> None:
    (registrar,) = load_config(write(tmp_path, f"{FIRST}{said}")).registrars
    assert registrar.parameters == ()


def test_a_table_that_is_a_value_is_refused(tmp_path: Path) -> None:
    assert "[tool.opscaffold] must be a table" in refusal(tmp_path, "[tool]\nopscaffold = 3\n")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "opscaffold.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not valid UTF-8"):
        load_config(tmp_path)


def test_lines_survive_strings_that_look_like_toml() -> None:
    text = (
        'a = """\nb = 1\n[c]\n"""\n'
        "'d.e' = '''\n]'''\n"
        'f . "g" = [ [1,\n2], { h = 1, i.j = "}" },\n\n3 ]\r\n'
        "[k.'l']\r\nm = 2020-01-01 # n = 1\n"
    )
    places = key_lines(text)
    assert places[("a",)] == 1
    assert places[("d.e",)] == 5
    assert places[("f", "g")] == 7
    assert places[("f", "g", 0, 1)] == 8
    assert places[("f", "g", 1, "i", "j")] == 8
    assert places[("f", "g", 2)] == 10
    assert places[("k", "l", "m")] == 12
    assert ("b",) not in places
    assert ("n",) not in places


def test_given_patterns_replace_the_excluded_and_join_the_others() -> None:
    config = Config(exclude=("a",), extend_exclude=("b",))
    assert config.excluded(None) == ("a", "b")
    assert config.excluded(["c"]) == ("c", "b")
