from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from stub_worker import stub

from opscaffold.cli import verify_process
from opscaffold.cli.verify_memory import GIB, Memory, default_memory, parse_size, shown_size
from opscaffold.cli.verify_process import Ended, Limits, private_directory, run_worker
from opscaffold.errors import UserError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs process groups")

ROOT = Path(__file__).resolve().parents[2]
ROOMY = Limits(30, 4 * GIB)


def heard(
    directory: Path, body: str, limits: Limits = ROOMY, **request: Any
) -> tuple[Ended, list[dict[str, Any]]]:
    events: list[dict[str, Any]] = []
    command = stub(directory, body)
    ended = run_worker({"skip": [], **request}, limits, directory, events.append, command=command)
    return ended, events


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != b"Z"


def is_gone(pid: int) -> bool:
    end = time.monotonic() + 10
    while is_alive(pid):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_events_arrive_in_order_and_the_request_gets_there(tmp_path: Path) -> None:
    ended, events = heard(tmp_path, "for n in request['ops']: tell(event='x', n=n)\n", ops=[1, 2])
    assert [event.get("n") for event in events] == [1, 2]
    assert ended.reason == "its process exited with code 0"
    ended, events = heard(tmp_path, "tell(event='done', spent={})\n")
    assert ended == Ended()


def test_what_is_printed_is_shown_when_it_ends_badly(tmp_path: Path) -> None:
    body = """
        for n in range(50_000): print("line", n)
        sys.stderr.write("the end\\n")
        os._exit(3)
    """
    ended, _ = heard(tmp_path, body)
    assert ended.reason == "its process exited with code 3"
    assert ended.output[-1] == "the end"
    assert ended.output[-2] == "line 49999"
    assert len(ended.output) == verify_process.LAST_LINES


def test_a_signal_is_named(tmp_path: Path) -> None:
    ended, _ = heard(tmp_path, "os.kill(os.getpid(), signal.SIGSEGV)")
    assert ended.reason == "its process died of SIGSEGV"


def test_a_crash_of_the_interpreter_is_shown_from_where_it_is_told(tmp_path: Path) -> None:
    body = """
        import faulthandler
        faulthandler.enable()
        print("user code speaks", flush=True)
        def deep(n): deep(n - 1) if n else faulthandler._sigsegv()
        deep(60)
    """
    ended, _ = heard(tmp_path, body)
    assert ended.reason == "its process died of SIGSEGV"
    assert ended.output[:2] == ["user code speaks", "Fatal Python error: Segmentation fault"]
    assert " in deep" in ended.output[3]
    assert len(ended.output) <= verify_process.LAST_LINES + 2


def test_an_op_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    body = """
        child = subprocess.Popen(["sleep", "600"])
        tell(event="op", op="demo::f", child=child.pid)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True: time.sleep(1)
    """
    started = time.monotonic()
    ended, events = heard(tmp_path, body, Limits(0.5, 4 * GIB))
    assert time.monotonic() - started < 10
    assert ended.reason == "it took longer than 0.5 seconds"
    assert is_gone(events[0]["child"])


def test_each_op_has_its_own_time(tmp_path: Path) -> None:
    body = """
        for name in "abc":
            tell(event="op", op=name)
            time.sleep(0.6)
        tell(event="done", spent={})
    """
    assert heard(tmp_path, body, Limits(1.2, 4 * GIB))[0] == Ended()


def test_the_import_has_its_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_process, "MIN_IMPORT", 0.4)
    ended, events = heard(tmp_path, "time.sleep(600)", Limits(0.1, 4 * GIB))
    assert (ended.reason, events) == ("it took longer than 0.4 seconds", [])


def test_too_much_memory_ends_it(tmp_path: Path) -> None:
    body = "held = b'x' * (200 * 1024**2)\ntime.sleep(600)\n"
    ended, _ = heard(tmp_path, body, Limits(60, 100 * 1024**2))
    assert ended.reason.startswith("it held ")
    assert ended.reason.endswith(", more than 100 MiB")


def test_memory_of_what_it_started_counts_too(tmp_path: Path) -> None:
    body = """
        grow = "held = b'x' * (200 * 1024**2); import time; time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", grow])
        time.sleep(600)
    """
    ended, _ = heard(tmp_path, body, Limits(60, 100 * 1024**2))
    assert ended.reason.startswith("it held ")


def test_memory_is_that_of_the_session_alone() -> None:
    assert 1024**2 < Memory(os.getpid()).held() < 64 * GIB


def test_an_error_in_a_listener_ends_the_worker(tmp_path: Path) -> None:
    seen: list[int] = []

    def hear(event: dict[str, Any]) -> None:
        seen.append(event["pid"])
        raise KeyboardInterrupt

    command = stub(tmp_path, "tell(event='x', pid=os.getpid())\ntime.sleep(600)\n")
    with pytest.raises(KeyboardInterrupt):
        run_worker({}, ROOMY, tmp_path, hear, command=command)
    assert is_gone(seen[0])


def test_a_child_that_holds_the_pipe_holds_up_nobody(tmp_path: Path) -> None:
    body = """
        tell(event="done", spent={})
        if os.fork() == 0: time.sleep(600)
        os._exit(0)
    """
    started = time.monotonic()
    assert heard(tmp_path, body)[0] == Ended()
    assert time.monotonic() - started < 10


def test_caches_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "1")
    body = """
        names = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TMPDIR", "CI")
        tell(event="x", values=[os.environ.get(name) for name in names])
    """
    _, events = heard(tmp_path, body)
    private = str(tmp_path)
    inductor, triton = f"{private}/inductor", f"{private}/triton"
    assert events[0]["values"] == [inductor, triton, private, None]


def test_the_private_directory_goes_whatever_happens() -> None:
    made: list[Path] = []

    def use(error: type[BaseException]) -> None:
        with private_directory() as private:
            (private / "inductor").mkdir()
            made.append(private)
            raise error

    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            use(error)
    assert not any(path.exists() for path in made)


def test_the_private_directory_goes_at_a_signal(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\n"
        "from opscaffold.cli.verify_process import private_directory\n"
        "with private_directory() as private:\n"
        "    print(private, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    import time; time.sleep(60)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert done.returncode == 128 + signal.SIGTERM
    assert not Path(done.stdout.strip()).exists()


def test_the_worker_goes_with_who_started_it(tmp_path: Path) -> None:
    # The guard is the real one; the rest of the worker hangs where it would import torch.
    private = tmp_path / "private"
    private.mkdir()
    worker = (
        "import os, sys\n"
        "from opscaffold.verify import guard\n"
        "line = sys.stdin.buffer.raw.readline()\n"
        "guard.start(0, int(sys.argv[1]), sys.argv[2])\n"
        "print(os.getpid(), flush=True)\n"
        "while True: pass\n"
    )
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-c", worker, str(writing), str(private)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=[writing],
        cwd=ROOT,
        start_new_session=True,
    )
    os.close(writing)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"{}\n")
    process.stdin.flush()
    assert int(process.stdout.readline()) == process.pid
    assert process.poll() is None
    process.stdin.close()
    assert process.wait(10) == -signal.SIGKILL
    end = time.monotonic() + 10
    while private.exists() and time.monotonic() < end:
        time.sleep(0.02)
    assert not private.exists()
    # Nobody else holds the end that events come from.
    assert os.read(reading, 1) == b""
    os.close(reading)
    process.stdout.close()


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8G", 8 * GIB),
        ("512M", 512 * 1024**2),
        ("1.5 GiB", 3 * GIB // 2),
        ("100kb", 102400),
        ("7", 7),
    ],
)
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1G", "many", "8X", "8 G G"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="--memory"):
        parse_size(text)


def test_sizes_are_shown_for_people() -> None:
    assert shown_size(8 * GIB) == "8 GiB"
    assert shown_size(100 * 1024**2) == "100 MiB"
    assert 0 < default_memory() <= 8 * GIB
