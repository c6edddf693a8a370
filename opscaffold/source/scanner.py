"""Asking what is in the bytes of all files, where that pays with a second process that helps.

The second process reads the files while this one loads its modules, and answers ahead what will be
asked. Both work on a question from either end of the list, until they meet. Without a second
process, or when it is lost, all is answered here, and the answers are the same.
"""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from opscaffold.fs.twin import Line, start_twin
from opscaffold.source.files import read_bytes
from opscaffold.source.questions import REGISTERS, Answers, Question, Read, answers

# What is kept of the files' contents by the second process, in bytes.
_KEPT = 48_000_000
_CHUNK = 16
# What both processes see: how far the second one came from the front, and this one from the back,
# with the question at hand, and how far the second one is with each that it answers ahead.
_FRONT, _BACK, _AHEAD = 0, 1, 2
_MOST_AHEAD = 30


class Scanner:
    """Answers questions on a list of files. ``close`` it in the end."""

    def __init__(self, files: Sequence[Path], kept: Mapping[Path, bytes]) -> None:
        self.files = files
        self._ends = memoryview(mmap.mmap(-1, 8 * (_AHEAD + _MOST_AHEAD))).cast("q")
        self._foreseen: list[Question] = [REGISTERS]
        helper = _Helper(files, kept, self._ends)
        self._twin = start_twin(helper.serve)

    def foresee(self, questions: Sequence[Question]) -> None:
        """Have questions answered ahead, in this order, whenever there is nothing else to do."""
        new = [question for question in questions if question not in self._foreseen]
        new = new[: _MOST_AHEAD - len(self._foreseen)]
        if self._twin is not None and new:
            self._foreseen += new
            try:
                self._twin.line.send((new, None, 0))
            except OSError:
                self.close()

    def ask(self, question: Question, among: Sequence[int] | None, read: Read) -> Answers:
        """Return the answers that are not empty, with the numbers of their files, in order.

        ``among`` are the numbers of the files that are asked about, in order; None stands for
        all. ``read`` is how this process reads a file.
        """
        numbers = range(len(self.files)) if among is None else among
        if self._twin is not None and len(numbers) > _CHUNK:
            try:
                return self._ask_both(self._twin.line, question, among, numbers, read)
            except (EOFError, OSError):
                self.close()
        return answers(question, self.files, numbers, read)

    def close(self) -> None:
        """End the second process. What is asked later is answered here."""
        twin, self._twin = self._twin, None
        if twin is not None:
            twin.close()

    def _ask_both(
        self,
        line: Line,
        question: Question,
        among: Sequence[int] | None,
        numbers: Sequence[int],
        read: Read,
    ) -> Answers:
        known = 0
        if among is None and question in self._foreseen:
            known = self._ends[_AHEAD + self._foreseen.index(question)]
        self._ends[_FRONT], self._ends[_BACK] = known, len(numbers)
        line.send(([question], None if among is None else list(among), 1))
        found: dict[int, Any] = {}
        while not line.waiting():
            back = self._ends[_BACK] - _CHUNK
            if back < self._ends[_FRONT]:
                break
            self._ends[_BACK] = back
            part = numbers[back : back + _CHUNK]
            found.update(answers(question, self.files, part, read))
        found.update(line.receive())
        return sorted(found.items())


class _Helper:
    """What the second process does."""

    def __init__(
        self, files: Sequence[Path], kept: Mapping[Path, bytes], ends: memoryview[int]
    ) -> None:
        self._files = files
        self._kept = dict(kept)
        self._room = _KEPT - sum(map(len, self._kept.values()))
        self._ends = ends
        # The answers that are known ahead, and for how many files from the front on.
        self._ahead: dict[Question, tuple[int, Answers]] = {}

    def serve(self, line: Line) -> None:
        """Answer what is asked, until the other end is gone."""
        self._ahead[REGISTERS] = (0, [])
        while True:
            if not line.waiting() and self._work_ahead():
                continue
            questions, among, asked = line.receive()
            if not asked:
                for question in questions:
                    self._ahead.setdefault(tuple(question), (0, []))
                continue
            line.send(self._answer(tuple(questions[0]), among))

    def _work_ahead(self) -> bool:
        """Answer a little of what will be asked; False where there is nothing to do."""
        for slot, (question, (done, found)) in enumerate(self._ahead.items(), _AHEAD):
            if done < len(self._files):
                end = min(done + _CHUNK, len(self._files))
                found += self._part(question, range(done, end))
                self._ahead[question] = (end, found)
                self._ends[slot] = end
                return True
        return False

    def _answer(self, question: Question, among: Sequence[int] | None) -> Answers:
        numbers = range(len(self._files)) if among is None else among
        done, known = self._ahead.get(question, (0, [])) if among is None else (0, [])
        found = list(known)
        while done < self._ends[_BACK]:
            end = min(done + _CHUNK, len(numbers))
            self._ends[_FRONT] = end
            found += self._part(question, numbers[done:end])
            done = end
        self._ends[_FRONT] = done
        return found

    def _part(self, question: Question, numbers: Sequence[int]) -> Answers:
        return answers(question, self._files, numbers, self._read)

    def _read(self, path: Path) -> bytes | None:
        data = self._kept.get(path)
        if data is None:
            data = read_bytes(path)
            if data is not None and len(data) <= self._room:
                self._kept[path] = data
                self._room -= len(data)
        return data
