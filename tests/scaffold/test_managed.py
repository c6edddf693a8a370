"""A generated package records how it was made, and says so when the record cannot be used."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from generated import op, package
from hypothesis import given
from hypothesis import strategies as st

from opscaffold import __version__
from opscaffold.errors import UserError
from opscaffold.scaffold import managed
from opscaffold.scaffold.answers import build
from opscaffold.scaffold.answers_file import load
from opscaffold.scaffold.given import AnswerError
from opscaffold.scaffold.managed import (
    ANSWERS,
    GENERATED,
    DamagedRecordError,
    NewerRecordError,
    NotManagedError,
    find_package,
    is_managed,
    read_record,
    record_files,
    write_record,
)
from opscaffold.scaffold.managed_files import DamagedArchiveError, Generated, pack, unpack
from opscaffold.scaffold.managed_origin import (
    came_along,
    make_record,
    recorded_source,
    source_directory,
    templates_digest,
)
from opscaffold.scaffold.render import render_files, render_package
from opscaffold.scaffold.templates import ROOT, template_directory

SPEC = package(
    "some-ops",
    [
        op("ns::scale(Tensor x, float alpha=1.5) -> Tensor"),
        op("ns::shift_(Tensor(a!) x) -> Tensor(a!)"),
    ],
)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return render_package(SPEC, tmp_path).path


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def test_a_package_records_its_answers_and_its_files(made: Path) -> None:
    record = read_record(made)
    assert build(record.answers) == SPEC
    assert record.files == render_files(SPEC)
    assert record.origin.version == __version__
    assert record.origin.templates == templates_digest()
    assert record.origin.own == ""
    for path, file in record.files.items():
        assert (made / path).read_bytes() == file.data


def test_the_answers_make_the_same_package_by_new(made: Path) -> None:
    assert build(load(made / ANSWERS)) == SPEC


def test_a_record_is_written_as_it_was_read(made: Path) -> None:
    before = {name: (made / name).read_bytes() for name in (ANSWERS, GENERATED)}
    assert record_files(read_record(made)) == before
    shutil.rmtree(made / ".opscaffold")
    assert not is_managed(made)
    write_record(made, make_record(SPEC, render_files(SPEC), made))
    assert {name: (made / name).read_bytes() for name in (ANSWERS, GENERATED)} == before
    write_record(made, read_record(made))
    assert sorted(p.name for p in made.glob(".opscaffold*")) == [".opscaffold"]


def test_the_archive_depends_on_the_files_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {
        PurePosixPath("b/ö.bin"): Generated(bytes(range(256))),
        PurePosixPath("a.sh"): Generated(b"#!/bin/sh\n", executable=True),
        PurePosixPath("empty"): Generated(b""),
    }
    monkeypatch.setattr("time.localtime", lambda *_: pytest.fail("the archive holds the time"))
    packed = pack(files)
    # Whatever the system, the Python and its zlib.
    assert hashlib.sha256(packed).hexdigest()[:16] == "90d2e02c445d3748"
    assert packed == pack(dict(reversed(files.items())))
    assert unpack(packed) == files
    assert list(unpack(packed)) == sorted(files)


@pytest.mark.parametrize(
    "name", ["../up", "/etc/passwd", "a/../b", "a//b", "./a", "a\\b", "c:a", ".git/hooks/x", "d/"]
)
def test_a_path_that_leads_elsewhere_is_refused(name: str) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr(name, b"x")
    with pytest.raises(DamagedArchiveError, match=r"no path|not a template's"):
        unpack(stream.getvalue())


@pytest.mark.parametrize("name", [".GIT/config", ".opscaffold/x", "a/.git"])
def test_templates_may_not_make_files_of_git_or_of_the_record(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a template's"):
        pack({PurePosixPath(name): Generated(b"")})


def test_own_templates_that_make_such_a_file_are_named(tmp_path: Path) -> None:
    own = copied_templates(tmp_path)
    hooks = own / "package" / ROOT / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "post-checkout").write_text("echo ran\n")
    with pytest.raises(UserError, match=r"post-checkout"):
        render_package(SPEC, tmp_path / "out", own=own)
    assert not (tmp_path / "out").exists()


def test_an_archive_that_would_fill_the_memory_is_refused() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(5):
            archive.writestr(f"zeros{number}", bytes(60 << 20))
    assert len(stream.getvalue()) < 1 << 20
    with pytest.raises(DamagedArchiveError, match="more than a package"):
        unpack(stream.getvalue())


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 12), st.binary(max_size=12)), max_size=6)
)
def test_an_archive_of_any_bytes_is_read_or_refused(cuts: list[tuple[int, int, bytes]]) -> None:
    data = pack(
        {PurePosixPath("a/b.py"): Generated(b"x = 1\n"), PurePosixPath("c"): Generated(b"")}
    )
    for at, length, put in cuts:
        data = data[:at] + put + data[at + length :]
    try:
        files = unpack(data)
    except DamagedArchiveError:
        return
    assert unpack(pack(files)) == files


@pytest.mark.parametrize("way", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_packed_otherwise_is_refused(way: int) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", way) as archive:
        archive.writestr("a.txt", "text")
    with pytest.raises(DamagedArchiveError, match="in a way unknown here"):
        unpack(stream.getvalue())


@pytest.mark.parametrize("cut", [0, 1, 100, -1, -30])
def test_a_record_that_was_cut_is_named(cut: int, made: Path) -> None:
    path = made / GENERATED
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DamagedRecordError, match="opscaffold adopt") as caught:
        read_record(made)
    assert str(path) in str(caught.value)


def test_a_changed_byte_is_noticed(made: Path) -> None:
    path = made / GENERATED
    data = path.read_bytes()
    path.write_bytes(data.replace(b"[build-system]", b"[Build-system]", 1))
    with pytest.raises(DamagedRecordError, match="CRC"):
        read_record(made)


def test_a_missing_half_is_named(made: Path) -> None:
    (made / GENERATED).unlink()
    with pytest.raises(DamagedRecordError, match=r"generated\.zip cannot be read \(no such file"):
        read_record(made)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("[opscaffold]", "[other]", "unknown key|no table"),
        ('templates = "', 'templates = "x', "no digest"),
        (f'version = "{__version__}"', "version = 1", "no version"),
        ("record = 1", "record = true", "no format"),
        ("record = 1", "record = 1 1", r"answers\.toml:\d+: is not valid TOML"),
        ('torch_min = "2.13"', 'torch_max = "2.13"', r"answers\.toml:5: unknown key 'torch_max'"),
    ],
)
def test_a_record_that_was_spoilt_is_named(old: str, new: str, reason: str, made: Path) -> None:
    replace(made / ANSWERS, old, new)
    with pytest.raises((DamagedRecordError, AnswerError), match=reason):
        read_record(made)


def test_a_record_that_is_no_text_is_named(made: Path) -> None:
    (made / ANSWERS).write_bytes(b"\xff\xfe")
    with pytest.raises(DamagedRecordError, match="is not UTF-8"):
        read_record(made)


@pytest.mark.parametrize(
    ("old", "new"),
    [("record = 1", "record = 2"), (f'version = "{__version__}"', 'version = "99.1.dev2"')],
)
def test_a_record_of_a_later_opscaffold_says_which(old: str, new: str, made: Path) -> None:
    replace(made / ANSWERS, old, new)
    # Such a record may hold answers that are not known here.
    replace(made / ANSWERS, 'torch_min = "2.13"', 'from_the_future = "yes"')
    with pytest.raises(NewerRecordError, match=f"this is {__version__}: install"):
        read_record(made)


@pytest.mark.parametrize("version", ["0.0.9", __version__, f"{__version__}.0", f"{__version__}rc1"])
def test_a_record_of_an_earlier_opscaffold_is_read(version: str, made: Path) -> None:
    replace(made / ANSWERS, f'version = "{__version__}"', f'version = "{version}"')
    assert read_record(made).origin.version == version


def test_a_directory_without_a_record_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotManagedError, match="opscaffold new, or let opscaffold adopt"):
        read_record(tmp_path)
    with pytest.raises(NotManagedError):
        find_package(tmp_path / "nowhere")


def test_a_package_is_found_from_within(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_package(made / "src" / "some_ops" / "ops") == made
    monkeypatch.chdir(made / "tests")
    assert find_package(Path()) == made


def test_a_failed_write_leaves_the_record(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = (made / ANSWERS).read_bytes(), (made / GENERATED).read_bytes()
    record = read_record(made)
    changed = managed.Record(record.answers, {}, managed.Origin("0.0.1", "0" * 64))
    replaced = Path.replace

    def fail(self: Path, to: Path) -> Path:
        if Path(to).name == GENERATED.name:
            raise OSError(28, os.strerror(28))
        return replaced(self, to)

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(UserError, match="no space left"):
        write_record(made, changed)
    monkeypatch.undo()
    assert ((made / ANSWERS).read_bytes(), (made / GENERATED).read_bytes()) == before


def copied_templates(parent: Path) -> Path:
    with template_directory("package") as path:
        shutil.copytree(path.parent, parent / "own")
    return parent / "own"


def test_own_templates_are_told_by_place_and_digest(tmp_path: Path) -> None:
    own = copied_templates(tmp_path)
    assert templates_digest(own) == templates_digest()
    made = render_package(SPEC, tmp_path / "out", own=own).path
    assert read_record(made).origin.own == own.as_posix()
    assert source_directory(read_record(made).origin.own, made) == own
    readme = own / "package" / ROOT / "README.md"
    for change in (
        lambda: readme.write_text("changed"),
        lambda: readme.chmod(0o755),
        lambda: readme.rename(readme.with_name("READ.md")),
    ):
        before = templates_digest(own)
        change()
        assert templates_digest(own) != before
    (own / "notes.txt").write_text("beside the templates")
    (own / ".git").mkdir()
    (own / ".git" / "index").write_text("of a repository")
    before = templates_digest(own)
    (own / ".git" / "index").write_text("changed")
    assert templates_digest(own) == before


def test_templates_of_the_same_repository_are_named_from_the_package(tmp_path: Path) -> None:
    own = copied_templates(tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    made = render_package(SPEC, tmp_path / "out", own=own).path
    assert read_record(made).origin.own == "../../own"
    assert source_directory("../../own", made) == own
    assert came_along(own, made)
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    assert recorded_source(elsewhere, made) == elsewhere.as_posix()
    assert not came_along(elsewhere, made)
    assert came_along(made / "templates", made)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such bit")
def test_what_is_executable_is_recorded_so(tmp_path: Path) -> None:
    own = copied_templates(tmp_path)
    script = own / "package" / ROOT / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    made = render_package(SPEC, tmp_path / "out", own=own).path
    files = read_record(made).files
    assert [path.name for path, file in files.items() if file.executable] == ["run.sh"]


def test_git_takes_the_record(made: Path) -> None:
    subprocess.run(["git", "init", "-q", made], check=True)
    ignored = subprocess.run(
        ["git", "check-ignore", ANSWERS, GENERATED], cwd=made, capture_output=True, check=False
    )
    assert (ignored.returncode, ignored.stdout) == (1, b"")
