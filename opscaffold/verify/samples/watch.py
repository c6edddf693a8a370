"""Sees which lines of a kernel a call runs, and how the tests on them come out."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from opscaffold.verify.samples.conditions import Want, holds, outcome, wants
from opscaffold.verify.samples.reading import (
    code_of,
    raising_lines,
    source_of,
    tests_in,
)

Line = tuple[str, int]
Told = tuple[str, int, int, str]


class TooLongError(BaseException):
    """A call was stopped: not an Exception, so that no kernel catches it."""


@dataclass
class Seen:
    """What one call ran."""

    lines: set[Line] = field(default_factory=set)
    outcomes: set[Told] = field(default_factory=set)
    """How tests came out, in three ways for numbers: file, line, column, outcome."""
    truths: set[Told] = field(default_factory=set)
    """How tests came out, True or False."""
    wanted: list[Want] = field(default_factory=list)
    """What the kernel compared the metadata of its tensors with, the last comparison last."""
    entered: bool = False
    """Whether a kernel was reached."""


class Watch:
    """Watches the kernels of one op, and the functions of their files that they call."""

    def __init__(self, kernels: Sequence[Callable[..., Any]]) -> None:
        codes = [code for code in map(code_of, kernels) if code is not None]
        self.kernels = frozenset(codes)
        self._files = {code.co_filename for code in codes if Path(code.co_filename).is_file()}
        self._entered: set[CodeType] = set(codes)

    def run(
        self, call: Callable[[], Any], seconds: float
    ) -> tuple[Any, BaseException | None, Seen]:
        """What a call returned or raised, and what it ran; a kernel may take so many seconds."""
        seen = Seen()
        tracer = _Tracer(self, seen, seconds)
        before = sys.gettrace()
        error: BaseException | None = None
        value = None
        sys.settrace(tracer.enter)
        try:
            value = call()
        except (KeyboardInterrupt, MemoryError):
            raise
        except BaseException as caught:  # noqa: BLE001 -- kernels raise what they like
            error = caught
        finally:
            sys.settrace(before)
        return value, error, seen

    def is_watched(self, code: CodeType) -> bool:
        """Whether a code object stands in a file of a kernel."""
        return code.co_filename in self._files

    def note(self, code: CodeType) -> None:
        """Note that a function was called."""
        self._entered.add(code)

    def raised_in_kernel(self, error: BaseException) -> bool:
        """Whether an error passed through a kernel on its way."""
        waiting: list[BaseException | None] = [error]
        known: set[int] = set()
        while waiting:
            each = waiting.pop()
            if each is None or id(each) in known:
                continue
            known.add(id(each))
            waiting += [each.__cause__, each.__context__]
            trace = each.__traceback__
            while trace is not None:
                if trace.tb_frame.f_code in self.kernels:
                    return True
                trace = trace.tb_next
        return False

    def executable(self) -> set[Line]:
        """The lines that a call could run, of every function that was called."""
        return {
            line for code in self._entered if self.is_watched(code) for line in _executable(code)
        }

    def refusing(self) -> set[Line]:
        """The lines that only raise."""
        return {
            (code.co_filename, line)
            for code in self._entered
            if (function := source_of(code)) is not None
            for line in raising_lines(function)
        }


class _Tracer:
    def __init__(self, watch: Watch, seen: Seen, seconds: float) -> None:
        self._watch = watch
        self._seen = seen
        self._seconds = seconds
        self._deadline = float("inf")
        self._depth = 0

    def enter(self, frame: FrameType, event: str, _: Any) -> Any:
        code = frame.f_code
        if event != "call":
            return None
        is_kernel = code in self._watch.kernels
        if is_kernel:
            if not self._seen.entered:
                # What torch loads at an op's first call is not the kernel's.
                self._deadline = time.monotonic() + self._seconds
            self._seen.entered = True
            self._depth += 1
        if not self._depth or not self._watch.is_watched(code):
            return self._leave if is_kernel else None
        self._watch.note(code)
        self._seen.lines.add((code.co_filename, code.co_firstlineno))
        return self._line

    def _leave(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "return" and frame.f_code in self._watch.kernels:
            self._depth -= 1
        return self._leave

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            self._note(frame)
            if time.monotonic() > self._deadline:
                raise TooLongError
        else:
            self._leave(frame, event, argument)
        return self._line

    def _note(self, frame: FrameType) -> None:
        path, line = frame.f_code.co_filename, frame.f_lineno
        self._seen.lines.add((path, line))
        for test in tests_in(path).get(line, ()):
            local = frame.f_locals
            told = outcome(test.node, local, frame.f_globals)
            if frame.f_code in self._watch.kernels:
                self._seen.wanted += wants(test.node, local, frame.f_globals)
            if told:
                self._seen.outcomes.add((path, line, test.column, told))
                truth = holds(test.node, local, frame.f_globals)
                self._seen.truths.add((path, line, test.column, truth))


def _executable(code: CodeType) -> Iterator[Line]:
    lines = {line for _, _, line in code.co_lines() if line}
    if len(lines) > 1:
        # Where the function starts; a line of its own only in "def f(x): return x".
        lines.discard(code.co_firstlineno)
    for line in lines:
        yield code.co_filename, line
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _executable(constant)


def ranges(lines: Iterable[int]) -> str:
    """Line numbers in short: ``3, 5-7``."""
    told: list[list[int]] = []
    for line in sorted(lines):
        if told and line == told[-1][1] + 1:
            told[-1][1] = line
        else:
            told.append([line, line])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in told)
