"""The decision tree and the contracts as pictures, drawn from the data that the commands use."""

from __future__ import annotations

from collections.abc import Mapping

from svg import LINE, PADDING, Box, Picture, wrapped

from opscaffold.contract import decision
from opscaffold.contract.decision import Outcome, Question
from opscaffold.contract.grammar import parse_schema
from opscaffold.contract.kinds import infer_kind, returns_argument
from opscaffold.contract.model import Kind, OpContract, Parameter
from opscaffold.contract.printer import format_schema, format_type
from opscaffold.contract.pytypes import strip_alias

EXAMPLES: Mapping[Kind, str] = {
    Kind.FUNCTIONAL: "demo::scale(Tensor x, float factor) -> Tensor",
    Kind.INPLACE: "demo::scale_(Tensor(a0!) x, float factor) -> Tensor(a0!)",
    Kind.OUT: "demo::scale_out(Tensor x, float factor, *, Tensor(a2!) out) -> Tensor(a2!)",
    Kind.MUTABLE: "demo::append(Tensor(a0!) cache, Tensor(a1!) length, Tensor x) -> Tensor",
}
"""One op of each kind, for its picture."""

_QUESTION_WIDTH = 330
_OUTCOME_WIDTH = 400
_GAP = 70
_MARGIN = 24


def tree() -> str:
    """Return the decision tree: questions in one column, ends beside those that lead there."""
    edges = list(decision.edges())
    ends = ", ".join(end.title for end in decision.OUTCOMES.values())
    picture = Picture("PyTorch's decision tree for a custom op", f"Questions that lead to: {ends}.")
    boxes: dict[str, Box] = {}
    y = float(PADDING)
    for question in decision.QUESTIONS.values():
        box = Box(
            wrapped(question.prompt, _QUESTION_WIDTH, "title"), _QUESTION_WIDTH, "", PADDING, y
        )
        boxes[question.id] = box
        beside = y
        outcomes = [
            e.target for e in edges if e.question is question and isinstance(e.target, Outcome)
        ]
        for outcome in outcomes:
            if outcome is outcomes[-1] and len(outcomes) == len(question.choices):
                # Where every answer is an end, the last stands below.
                beside = max(beside, y + box.height) + _GAP
            end = Box(_of_outcome(outcome), _OUTCOME_WIDTH, "end")
            end.x, end.y = PADDING + _QUESTION_WIDTH + 2 * _GAP, beside
            boxes[outcome.id] = end
            beside += end.height + LINE
        y = max(beside, y + box.height + _GAP)
    for box in boxes.values():
        picture.add(box)
    for edge in edges:
        _branch(
            picture, boxes[edge.question.id], boxes[edge.target.id], edge.choice.answer, edge.target
        )
    return picture.svg()


def _branch(
    picture: Picture, start: Box, end: Box, answer: str, target: Question | Outcome
) -> None:
    if isinstance(target, Question):
        x = start.x + start.width / 2
        picture.arrow([(x, start.y + start.height), (x, end.y)])
        picture.label(x + 8, start.y + start.height + LINE, answer, "quiet")
        return
    if end.y < start.y + start.height:
        y = start.y + min(start.height, end.height) / 2
        picture.arrow([(start.x + start.width, y), (end.x, y)])
        picture.label(start.x + start.width + 8, y - 6, answer, "quiet")
        return
    x = start.x + start.width / 2
    picture.arrow([(x, start.y + start.height), (x, end.middle), (end.x, end.middle)])
    picture.label(x + 8, start.y + start.height + LINE, answer, "quiet")


def _of_outcome(outcome: Outcome) -> list[tuple[str, str]]:
    lines = [(outcome.title, "title")]
    for consequence in outcome.consequences:
        lines += wrapped(consequence, _OUTCOME_WIDTH, "quiet")
    return lines


def contract(kind: Kind) -> str:
    """Return the contract of a kind, on the op of EXAMPLES: what is read, written, and returned."""
    op = parse_schema(EXAMPLES[kind])
    if infer_kind(op) is not kind:
        raise ValueError(f"{EXAMPLES[kind]} is no {kind.value} op")
    picture = Picture(f"The contract of {kind.value} ops", format_schema(op))
    picture.label(PADDING, PADDING + 12, format_schema(op), "code")
    picture.reach(PADDING + 7.4 * len(format_schema(op)), 0)
    top = 2.0 * LINE + PADDING
    width, kernel_x = 190, 340
    arguments = [Box(_of_argument(p), width, "end" if p.mutated else "") for p in op.parameters]
    y = top
    for box in arguments:
        box.x, box.y = PADDING + _MARGIN, y
        picture.add(box)
        y += box.height + LINE
    results = _results(op)
    kernel = Box([(op.name, "title"), ("the kernel", "quiet")], 120, "", kernel_x, top)
    kernel.y = top + max(0.0, (y - LINE - top - kernel.height) / 2)
    picture.add(kernel)
    for parameter, box in zip(op.parameters, arguments, strict=True):
        ends = [(box.x + box.width, box.middle), (kernel.x, kernel.middle)]
        read = not (kind is Kind.OUT and parameter.mutated)
        if read:
            picture.arrow(ends)
        if parameter.mutated:
            shifted = [(x, y + (7 if read else 0)) for x, y in ends]
            picture.arrow(shifted[::-1], "writes")
    x = kernel.x + kernel.width + 130
    for number, (lines, same) in enumerate(results):
        box = Box(lines, 210, "end" if same is not None else "", x, 0)
        box.y = kernel.middle - box.height / 2 + number * (box.height + LINE)
        picture.add(box)
        picture.arrow([(kernel.x + kernel.width, kernel.middle), (box.x, box.middle)])
        if same is not None:
            bottom = max(y, box.y + box.height) + LINE * (1 + number)
            argument = arguments[same]
            under = box.x + box.width / 2
            track = [(under, box.y + box.height), (under, bottom), (PADDING, bottom)]
            picture.arrow(
                [*track, (PADDING, argument.middle), (argument.x, argument.middle)], "same"
            )
            picture.label(kernel.x - 20, bottom - 6, "is that very object", "quiet")
    y = picture.height + LINE
    for consequence in decision.outcome_of(kind).consequences:
        picture.label(PADDING, y + 11, consequence, "quiet")
        picture.reach(PADDING + 6.6 * len(consequence), y + 11)
        y += LINE
    return picture.svg()


def _of_argument(parameter: Parameter) -> list[tuple[str, str]]:
    type_ = format_type(strip_alias(parameter.type))
    role = "is written to" if parameter.mutated else "is only read"
    where = ", by keyword" if parameter.kw_only else ""
    return [(f"{type_} {parameter.name}", "code"), (role + where, "quiet")]


def _results(op: OpContract) -> list[tuple[list[tuple[str, str]], int | None]]:
    """Return each result in words, with the number of the argument that it is, if any."""
    found: list[tuple[list[tuple[str, str]], int | None]] = []
    for returned in op.returns:
        same = next((n for n, p in enumerate(op.parameters) if returns_argument(returned, p)), None)
        type_ = format_type(strip_alias(returned.type))
        words = "new memory" if same is None else op.parameters[same].name
        found.append(([(f"-> {type_}", "code"), (words, "quiet")], same))
    return found
