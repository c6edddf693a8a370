from __future__ import annotations

import os
import signal
import time
import warnings
from pathlib import Path

import pytest

from opscaffold.fs import twin
from opscaffold.source.files import read_bytes
from opscaffold.source.questions import REGISTERS, Topic, answers, mentions, named
from opscaffold.source.scanner import Scanner

FILES = 80
ASKED = [REGISTERS, mentions(["name_3", "name_70"]), named(["name_5"]), Topic((b"even",)).question]

forked = pytest.mark.skipif(
    twin.sys.platform in ("win32", "darwin"), reason="there is no second process here"
)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for number in range(FILES):
        word = "even" if number % 2 == 0 else "custom_op()"
        (tmp_path / f"f{number:03}.py").write_text(f"name_{number} = {word}\n")
    (tmp_path / "f999.py").symlink_to("nowhere")
    return sorted(tmp_path.glob("*.py"))


@pytest.fixture(params=["two", "one"])
def scanner(request, files, monkeypatch):
    monkeypatch.setattr(twin, "cores", lambda: 2 if request.param == "two" else 1)
    made = Scanner(files, {})
    yield made
    made.close()


def alone(files, question):
    return answers(question, files, range(len(files)), read_bytes)


def test_answers_do_not_depend_on_the_number_of_processes(scanner, files):
    for question in ASKED:
        expected = alone(files, question)
        assert expected
        assert scanner.ask(question, None, read_bytes) == expected
        assert scanner.ask(question, range(10, 60), read_bytes) == [
            (number, answer) for number, answer in expected if 10 <= number < 60
        ]
        assert scanner.ask(question, [], read_bytes) == []


def test_what_is_asked_ahead_or_twice_is_answered_the_same(scanner, files):
    scanner.foresee(ASKED)
    for question in [*reversed(ASKED), *ASKED]:
        assert scanner.ask(question, None, read_bytes) == alone(files, question)


def test_what_was_read_before_is_not_read_again(files, monkeypatch):
    monkeypatch.setattr(twin, "cores", lambda: 2)
    held = dict.fromkeys(files, b"custom_op")
    made = Scanner(files, held)
    try:
        assert len(made.ask(REGISTERS, None, held.get)) == len(files)
    finally:
        made.close()


@forked
def test_a_second_process_that_is_lost_is_done_without(files, monkeypatch):
    monkeypatch.setattr(twin, "cores", lambda: 2)
    monkeypatch.setattr(twin, "_can_fork", lambda: True)
    made = Scanner(files, {})
    assert made._twin is not None
    os.kill(made._twin._process, signal.SIGKILL)
    for question in ASKED:
        assert made.ask(question, None, read_bytes) == alone(files, question)
    assert made._twin is None


@forked
def test_a_fault_in_the_second_process_is_none_of_the_command(files, monkeypatch, capfd):
    monkeypatch.setattr(twin, "cores", lambda: 2)
    monkeypatch.setattr(twin, "_can_fork", lambda: True)
    here = os.getpid()

    def fails_elsewhere(path: Path) -> bytes | None:
        if os.getpid() != here:
            raise RuntimeError("lost")
        return read_bytes(path)

    monkeypatch.setattr("opscaffold.source.scanner.read_bytes", fails_elsewhere)
    made = Scanner(files, {})
    assert made.ask(REGISTERS, None, read_bytes) == alone(files, REGISTERS)
    made.close()
    assert capfd.readouterr() == ("", "")


@forked
def test_closing_leaves_no_process(files, monkeypatch):
    monkeypatch.setattr(twin, "cores", lambda: 2)
    monkeypatch.setattr(twin, "_can_fork", lambda: True)
    made = Scanner(files, {})
    assert made._twin is not None
    process = made._twin._process
    made.close()
    with pytest.raises(ChildProcessError):
        os.waitpid(process, 0)


@forked
def test_the_second_process_ends_with_its_owner(files, monkeypatch):
    monkeypatch.setattr(twin, "cores", lambda: 2)
    monkeypatch.setattr(twin, "_can_fork", lambda: True)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        owner = os.fork()
    if not owner:
        made = Scanner(files, {})
        os.write(writing, b"%d" % (made._twin._process if made._twin else 0))
        os._exit(0)
    os.close(writing)
    os.waitpid(owner, 0)
    # The second process holds the other end of this pipe: it reads as closed when that is gone.
    process = b""
    deadline = time.monotonic() + 30
    while part := os.read(reading, 100):
        process += part
        assert time.monotonic() < deadline
    os.close(reading)
    assert int(process)


def test_nothing_is_forked_beside_threads(monkeypatch):
    import threading

    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert not twin._can_fork()


@pytest.mark.parametrize(("load", "some"), [(0.5, True), (4.0, False), (9.0, False)])
def test_a_busy_machine_has_no_processor_for_a_second_process(monkeypatch, load, some):
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0), raising=False)
    assert (twin.cores() > 1) is some


def test_where_the_load_is_not_told_all_processors_count(monkeypatch):
    def untold():
        raise OSError

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    monkeypatch.setattr(os, "getloadavg", untold, raising=False)
    assert twin.cores() == 2
