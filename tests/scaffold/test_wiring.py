"""What a new op adds to files that an author has edited: put in, with nothing else touched."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest
from generated import BROADCAST, op, package

from opscaffold.scaffold.render import preview
from opscaffold.scaffold.spec import KernelLanguage
from opscaffold.scaffold.wiring import wire, wire_lines
from opscaffold.scaffold.wiring_error import WiringError
from opscaffold.scaffold.wiring_python import wire_python
from opscaffold.scaffold.wiring_table import wire_table
from opscaffold.scaffold.wiring_toml import wire_toml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

SCALE = op("ns::scale(Tensor x, float alpha=1.0) -> Tensor")
SHIFT = op("ns::shift_(Tensor(a!) x, float by=1.0) -> Tensor(a!)")
BLEND = op("ns::blend(Tensor x, Tensor y) -> Tensor", BROADCAST, family=True)
ADDED = op("ns::added(Tensor x, Tensor y) -> Tensor", BROADCAST)

INIT = Path("src/demo_ops/__init__.py")
SAMPLES = Path("opscaffold_samples.py")
README = Path("README.md")

OLD = preview(package("demo-ops", [SCALE, SHIFT]))
NEW = preview(package("demo-ops", [BLEND, SCALE, SHIFT]))


def init(text: str, width: int = 100) -> str:
    """The package's ``__init__`` with the new family wired in."""
    return wire_python(text, OLD[INIT], NEW[INIT], width=width, package="demo_ops")


def samples(text: str) -> str:
    return wire_python(text, OLD[SAMPLES], NEW[SAMPLES], width=100)


def test_an_untouched_file_becomes_the_generated_one() -> None:
    for path in (INIT, SAMPLES, README):
        before, after = OLD[path].encode(), NEW[path].encode()
        assert wire(path, before, before, after, width=100, package="demo_ops") == after


@pytest.mark.parametrize(
    "added",
    [BLEND, op("ns::scale10(Tensor x) -> Tensor"), op("ns::Zed(Tensor x) -> Tensor")],
    ids=lambda added: added.contract.name,
)
def test_wiring_by_meaning_makes_what_would_have_been_generated(added: object) -> None:
    ops = [SCALE, op("ns::scale9(Tensor x) -> Tensor"), added]
    old = preview(package("demo-ops", ops[:-1]))
    new = preview(package("demo-ops", ops))
    for path in old:
        if path.suffix == ".py":
            inside = "demo_ops" if path.parent == INIT.parent else ""
            made = wire_python(old[path], old[path], new[path], width=100, package=inside)
        elif path == README:
            made = wire_table(old[path], old[path], new[path])
        else:
            made = old[path]
        assert made == new[path], path


LANGUAGES = [KernelLanguage.NUMPY, KernelLanguage.TRITON, KernelLanguage.CPP]


@pytest.mark.parametrize("language", LANGUAGES, ids=lambda language: language.value)
def test_what_kernels_of_a_language_need_is_put_into_edited_files(language: KernelLanguage) -> None:
    new = preview(package("demo-ops", [replace(ADDED, kernel=language), SCALE, SHIFT]))
    mine = {".md": "\nMine.\n", ".py": "\n\n# Mine.\n", ".toml": "\n# Mine.\n"}
    for path, before in OLD.items():
        after = new[path]
        edit = mine.get(path.suffix, "")
        theirs = (before + edit).encode()
        inside = "demo_ops" if path == INIT else ""
        made = wire(path, theirs, before.encode(), after.encode(), width=100, package=inside)
        text = made.decode().replace(edit, "") if edit else made.decode()
        if path.suffix == ".toml":
            # Tables and keys that are new stand last.
            assert tomllib.loads(text) == tomllib.loads(after)
        else:
            assert text == after, path


EDITED = {
    "as generated, with a version": (
        '"""Mine."""\n\nfrom importlib.metadata import version\n\n'
        "from demo_ops.ops.scale import scale\nfrom demo_ops.ops.shift_ import shift_\n\n"
        '__all__ = ["__version__", "scale", "shift_"]\n\n__version__ = version("demo-ops")\n'
    ),
    "relative imports and a tuple": (
        "from .ops.scale import scale\nfrom .ops.shift_ import shift_\n\n"
        '__all__ = (\n    "scale",  # slow\n    # Writes.\n    "shift_",\n)\n'
    ),
    "a helper between, comments above imports": (
        "# Licence.\n\n# The first.\nfrom demo_ops.ops.scale import scale  # noqa: F401\n"
        "from demo_ops.ops.shift_ import shift_\nfrom demo_ops.util import helper\n\n"
        '__all__ = ["helper", "scale", "shift_"]\n\n\ndef twice(x):\n    return helper(scale(x))\n'
    ),
    "one exported name in brackets": '__all__ = ["scale"]\n',
    "no list of names": "from demo_ops.ops.scale import scale as scale\n",
    "computed behind the list": (
        "from demo_ops import util\nfrom demo_ops.ops.scale import scale\n\n"
        '__all__ = ["scale", *util.names] + util.more\n'
    ),
}


@pytest.mark.parametrize("name", EDITED)
def test_an_edited_init_keeps_every_line_and_exports_the_new_ops(name: str) -> None:
    text = EDITED[name]
    made = init(text)
    for line in text.splitlines():
        if not line.startswith("__all__"):
            assert line in made.splitlines()
    namespace = "".join(line for line in made.splitlines() if "ops.blend import" in line)
    assert namespace.startswith("from ." if "from ." in text else "from demo_ops.")
    assert {"blend", "blend_", "blend_out"} <= set(made.replace(",", " ").replace('"', " ").split())
    assert init_is_settled(made)


def init_is_settled(made: str) -> bool:
    """Whether a second run finds that all is there."""
    try:
        init(made)
    except WiringError as error:
        return "already" in error.reason or "taken" in error.reason
    return "__all__" not in made


def test_what_is_made_is_as_ruff_leaves_it(tmp_path: Path) -> None:
    texts = {name: init(text) for name, text in EDITED.items()}
    texts["narrow"] = init(EDITED["as generated, with a version"], width=60)
    texts["samples"] = samples(
        OLD[SAMPLES].replace("\n\n\nSAMPLES", "\n\n\nX = 1\n\n# All.\nSAMPLES")
    )
    for number, text in enumerate(texts.values()):
        narrow = "line-length = 60\n" if text == texts["narrow"] else "line-length = 100\n"
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "ruff.toml").write_text(
            f'{narrow}[lint]\nselect = ["I", "F821"]\n[lint.isort]\n'
            'combine-as-imports = true\nknown-first-party = ["demo_ops"]\norder-by-type = false\n'
        )
        (folder / "made.py").write_text(text)
    for command in (["check"], ["format", "--diff"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", tmp_path],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_comment_stays_at_the_import_that_it_is_about() -> None:
    made = init(EDITED["a helper between, comments above imports"])
    assert made.startswith(
        "# Licence.\n\nfrom demo_ops.ops.blend import blend, blend_, blend_out\n\n# The first.\n"
        "from demo_ops.ops.scale import scale  # noqa: F401\n"
    )


def test_imports_that_the_author_made_relative_stay_so() -> None:
    made = init(EDITED["relative imports and a tuple"])
    assert made.startswith(
        "from .ops.blend import blend, blend_, blend_out\nfrom .ops.scale import scale\n"
    )
    assert '    "blend_out",\n    "scale",  # slow\n    # Writes.\n    "shift_",\n)' in made


def test_without_a_list_of_names_an_import_exports_by_itself() -> None:
    made = init(EDITED["no list of names"])
    assert "from demo_ops.ops.blend import blend as blend, blend_ as blend_, blend_out as" in made


def test_line_ends_and_byte_order_marks_stay() -> None:
    theirs = b"\xef\xbb\xbf" + ("# Mine.\n" + OLD[INIT]).replace("\n", "\r\n").encode()
    made = wire(INIT, theirs, OLD[INIT].encode(), NEW[INIT].encode(), width=100, package="demo_ops")
    assert made == b"\xef\xbb\xbf" + ("# Mine.\n" + NEW[INIT]).replace("\n", "\r\n").encode()


def test_a_name_that_the_author_took_is_refused_with_its_line() -> None:
    with pytest.raises(WiringError, match="blend_ is taken") as refused:
        init(OLD[INIT] + "\n\ndef blend_(x):\n    return x\n")
    assert refused.value.line == len(OLD[INIT].splitlines()) + 3
    assert "import blend, blend_, blend_out" in refused.value.by_hand


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (('__all__ = ["scale", "shift_"]', '__all__ = sorted(["scale"])'), "no longer written out"),
        (('"shift_"]', '"shift_", "blend"]'), "has blend already"),
        (("import scale", "import ("), "cannot be read"),
    ],
)
def test_an_init_that_cannot_be_told_is_refused(edit: tuple[str, str], reason: str) -> None:
    with pytest.raises(WiringError, match=reason):
        init(OLD[INIT].replace(*edit))


def test_samples_go_before_the_table_that_names_them() -> None:
    text = OLD[SAMPLES]
    table = text[text.index("\n\nSAMPLES: ") :]
    moved = text.replace(table, "\n").replace(
        "\n\ndef scale_samples", f"{table}\n\ndef scale_samples"
    )
    made = samples(moved)
    assert made.index("def blend_out_samples") < made.index("SAMPLES: ")
    assert '"demo_ops::blend_": blend__samples,' in made


def test_edited_samples_stay_and_new_ones_stand_where_they_would_be_generated() -> None:
    edited = OLD[SAMPLES].replace('"""Calls of demo_ops::scale."""', '"""Mine."""\n    # Edited.')
    assert edited != OLD[SAMPLES]
    assert samples(edited) == NEW[SAMPLES].replace(
        '"""Calls of demo_ops::scale."""', '"""Mine."""\n    # Edited.'
    )


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("SAMPLES: dict", "TABLE: dict", "SAMPLES is gone"),
        ("def scale_samples", "def blend_samples", "blend_samples is taken"),
    ],
)
def test_samples_without_their_place_are_refused(old: str, new: str, reason: str) -> None:
    with pytest.raises(WiringError, match=reason) as refused:
        samples(OLD[SAMPLES].replace(old, new))
    assert "blend" in refused.value.by_hand


ROWS = [line for line in NEW[README].splitlines() if line.startswith("| `demo_ops.blend")]


def readme(text: str) -> str:
    return wire_table(text, OLD[README], NEW[README])


def test_rows_stand_where_they_would_be_generated() -> None:
    assert readme(OLD[README]) == NEW[README]
    crlf = OLD[README].replace("\n", "\r\n")
    assert readme(crlf) == NEW[README].replace("\n", "\r\n")


def test_rows_follow_the_columns_that_the_author_has() -> None:
    theirs = "# Mine\n\n| Op | since | Kind |\n|:---|---|---|\n| `demo_ops.scale` | 1.0 | good |"
    made = readme(theirs)
    assert made.splitlines()[4] == "| `demo_ops.blend` |  | functional |"
    assert made.splitlines()[-1] == "| `demo_ops.scale` | 1.0 | good |"
    assert len(made.splitlines()) == len(theirs.splitlines()) + 3


def test_a_bar_in_a_schema_moves_no_cell() -> None:
    bar = op('ns::bars(Tensor x, str s="|") -> Tensor')
    new = preview(package("demo-ops", [SCALE, SHIFT, bar]))[README]
    made = wire_table("| schema | op |\n|---|---|\n", OLD[README], new)
    assert made.splitlines()[2].startswith('| `demo_ops::bars(Tensor x, str s="')


@pytest.mark.parametrize(
    "text",
    [
        "# No table\n",
        "| name | kind |\n|---|---|\n",
        "```\n| op | kind | schema |\n|---|---|---|\n```\n",
        "| op | a |\n|---|---|\n\n| op | b |\n|---|---|\n",
    ],
)
def test_no_table_or_several_are_refused_with_the_rows(text: str) -> None:
    with pytest.raises(WiringError) as refused:
        readme(text)
    assert refused.value.by_hand.splitlines() == ROWS


def test_of_several_tables_the_one_with_known_ops_is_taken() -> None:
    other = "| op | cost |\n|---|---|\n| `mine` | high |\n\n"
    assert readme(other + OLD[README]) == other + NEW[README]


def test_a_row_that_is_there_is_refused() -> None:
    with pytest.raises(WiringError, match="already"):
        readme(NEW[README])


BEFORE = '[tool.ruff]\nline-length = 100\n\n[project]\ndependencies = ["torch>=2.13"]\n'
AFTER = '[tool.ruff]\nline-length = 160\n\n[project]\ndependencies = ["torch>=2.13", "triton"]\n'


def test_values_are_put_into_toml_and_comments_stay() -> None:
    theirs = (
        "# Mine.\n[project] # here\ndependencies = [\n    'torch>=2.13',  # new\n    'numpy',\n]\n"
    )
    theirs += "[tool.ruff]\nline-length = 100 # wide\nfix = true\n"
    made = wire_toml(theirs, BEFORE, AFTER)
    assert made == theirs.replace("    'numpy',\n", "    'numpy',\n    \"triton\",\n").replace(
        "100", "160"
    )
    assert wire_toml(made, BEFORE, AFTER) == made


@pytest.mark.parametrize("theirs", [BEFORE.replace("100", "88"), "[tool\n"])
def test_toml_that_was_changed_otherwise_is_refused(theirs: str) -> None:
    with pytest.raises(WiringError):
        wire_toml(theirs, BEFORE, AFTER)


def test_lines_go_where_their_neighbours_are_those_generated() -> None:
    before, after = "a\nb\nc\n", "a\nb\nnew\nc\n"
    assert wire_lines("mine\na\nb\nc\nmore\n", before, after) == "mine\na\nb\nnew\nc\nmore\n"
    with pytest.raises(WiringError) as refused:
        wire_lines("a\nb\nmine\nc\n", before, after)
    assert refused.value.by_hand == "new"


def test_a_damaged_file_is_refused_with_its_line() -> None:
    with pytest.raises(WiringError, match="not UTF-8") as refused:
        wire(PurePosixPath("README.md"), b"ok\n\xff\n", b"a", b"b", width=100)
    assert refused.value.line == 2
    with pytest.raises(WiringError, match="NUL"):
        wire(PurePosixPath("a.py"), b"x = 1\n\0", b"a", b"b", width=100)
