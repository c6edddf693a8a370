"""From a function in a file to the answers that make an op, or a pair of ops, of it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from opscaffold.contract.legality import check_legal
from opscaffold.contract.model import (
    BaseType,
    Kind,
    OpContract,
    OptionalType,
    Parameter,
    base_name,
)
from opscaffold.contract.naming import validate_op_name
from opscaffold.contract.printer import format_schema
from opscaffold.contract.releases import Release
from opscaffold.effects.derive_fake import UnderivableError
from opscaffold.effects.summary import effects_of
from opscaffold.scaffold.forms import positional_tensors
from opscaffold.scaffold.from_code import importing, imports, mode_note
from opscaffold.scaffold.from_decide import Decision, Flags, Step, decide
from opscaffold.scaffold.from_error import FromError, UndecidedError
from opscaffold.scaffold.from_fake import fake_text
from opscaffold.scaffold.from_find import find_function
from opscaffold.scaffold.from_needs import Needs, copied_text, needs_of
from opscaffold.scaffold.from_origin import Origin
from opscaffold.scaffold.from_signature import Signature, may_be_none, read_signature
from opscaffold.scaffold.from_spec import DROP, Wrapped, dump_wrapped
from opscaffold.scaffold.from_values import values_of
from opscaffold.scaffold.from_ways import Way, way_of
from opscaffold.scaffold.given import Value
from opscaffold.scaffold.infer import RefusedError, Said, contract_of
from opscaffold.scaffold.op_answers import refuse_unusable
from opscaffold.scaffold.questions import kind_word
from opscaffold.scaffold.spec import KernelLanguage


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked for of one function. ``fake`` says that a rule for metadata is given.

    ``mode`` is COPY, IMPORT, or "" for what fits.
    """

    source: str
    function: str
    name: str = ""
    flags: Flags = field(default_factory=Flags)
    params: tuple[str, ...] = ()
    returns: str = ""
    mode: str = ""
    fake: bool = False


@dataclass(frozen=True, slots=True)
class WrappedOp:
    """One op of a function: its answers by their keys, and how it came to be of its kind.

    ``wrapped`` is what its rendering needs; ``by_rule`` says that its fake kernel is to follow the
    rule that was given.
    """

    answers: Mapping[str, Value]
    schema: str
    kind: Kind
    steps: tuple[Step, ...]
    notes: tuple[str, ...]
    wrapped: Wrapped
    by_rule: bool = False


@dataclass(frozen=True, slots=True)
class Wrapping:
    """What becomes of one function: its ops, and what holds of all of them."""

    source: str
    ops: tuple[WrappedOp, ...]
    notes: tuple[str, ...]


def wrap(origin: Origin, request: Request, release: Release) -> Wrapping:
    """Read a function, and say what ops it makes.

    Raises FromError where it makes none, and UndecidedError where the author has to say more.
    """
    function = find_function(origin, request.function)
    needs = needs_of(origin, function)
    signature = read_signature(origin, function, release, request.params, request.returns)
    none = may_be_none(origin, function)
    buffers = _buffers(origin, function, signature, request.flags)
    notes = [mode_note(origin, needs, request.function, request.mode)]
    maker = _Maker(origin, request, function, signature, needs, release)
    if not buffers:
        way = way_of(origin, function, signature)
        if none:
            raise FromError(
                origin.shown,
                function.returns,
                f"{function.name} may return None, and an op returns a Tensor at each call",
                "return a Tensor on every path",
            )
        return maker.finished([maker.op(way, maker.name, request.flags)], notes)
    _refuse_kind_of_pair(origin, function, buffers, request.flags)
    plain = replace(request.flags, kind=_kind_without(request.flags))
    base = maker.base
    ops: list[WrappedOp] = []
    said = " and ".join(buffers)
    omitted = way_of(origin, function, signature, absent=buffers, may_be_none=none)
    if omitted.results or omitted.written or omitted.opaque:
        ops.append(maker.op(omitted, base, plain))
        notes.append(
            f"whether {said} {'is' if len(buffers) == 1 else 'are'} given decides what it does, "
            "which is one contract a call: it becomes two ops over one kernel"
        )
    else:
        notes.append(f"without {said} it does nothing, so the op always takes it")
    if len(buffers) > 1:
        notes.append(f"a call that gives only some of {said} has no op")
    given = way_of(origin, function, signature, given=buffers, may_be_none=none)
    sized = buffers[0] if len(buffers) == 1 and len(omitted.results) == 1 else ""
    name = f"{base}_out" if ops else maker.name
    ops.append(maker.op(given, name, request.flags, sized=sized))
    return maker.finished(ops, notes)


def _kind_without(flags: Flags) -> Kind | None:
    """The kind that is asked for of the op that is given no buffers."""
    return None if flags.kind in (Kind.OUT, Kind.MUTABLE) else flags.kind


def _refuse_kind_of_pair(
    origin: Origin, function: ast.FunctionDef, buffers: Sequence[str], flags: Flags
) -> None:
    if flags.kind in (Kind.FUNCTIONAL, Kind.INPLACE):
        raise FromError(
            origin.shown,
            function,
            f"--kind says {flags.kind.value}, and {' and '.join(buffers)} may be given or not: "
            f"{function.name} becomes two ops",
            "drop the flag; out or mutable would be about the op that takes the buffer",
        )


def _buffers(
    origin: Origin, function: ast.FunctionDef, signature: Signature, flags: Flags
) -> list[str]:
    """The Optional Tensors that are written where they are given."""
    optional = [
        p.name
        for p in signature.parameters
        if isinstance(p.type, OptionalType)
        and isinstance(p.type.of, BaseType)
        and base_name(p.type) == "Tensor"
    ]
    if not optional:
        return []
    mutated = effects_of(function, signature.arguments(), origin.names).mutations
    return [n for n in optional if n in mutated or n in (flags.mutates or ())]


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes ops of the ways to call one function."""

    origin: Origin
    request: Request
    function: ast.FunctionDef
    signature: Signature
    needs: Needs
    release: Release
    fakes: dict[str, str] = field(default_factory=dict)

    def finished(self, ops: Sequence[WrappedOp], notes: Sequence[str]) -> Wrapping:
        """The ops with the text of the module that they share."""
        imported = ops[0].wrapped.imported
        code = (
            importing(self.origin, self.needs, self.function.name, self.fakes)
            if imported
            else copied_text(self.origin, self.needs)
        )
        made = []
        for op in ops:
            wrapped = replace(op.wrapped, code=code, fakes=dict(self.fakes))
            answers = {**op.answers, "wraps": dump_wrapped(wrapped)}
            made.append(replace(op, wrapped=wrapped, answers=answers))
        return Wrapping(self.request.source, tuple(made), tuple(notes))

    @property
    def name(self) -> str:
        """The op's name, as asked for or as the function's."""
        return self.request.name or self.function.name.lstrip("_")

    @property
    def base(self) -> str:
        """The name without what tells that a buffer is given, where that leaves one."""
        short = self.name.removesuffix("_out")
        return self.name if validate_op_name(short) else short

    @property
    def file(self) -> str:
        """The module of the kernel: no other op of a package has its name."""
        return self.base.lower()

    def op(self, way: Way, name: str, flags: Flags, sized: str = "") -> WrappedOp:
        """The op of one way to call."""
        decision = decide(self.origin, way, flags)
        contract, moved = self.contract(way, decision, name)
        fake = ""
        self.refuse_numbers(way, decision)
        if self.needs_fake(decision) and not self.request.fake:
            fake = f"{contract.name.strip('_')}_fake"
            self.fakes[fake] = self.fake(way, decision, fake)
        wrapped = self.wrapped(way, decision, fake, sized)
        answers: dict[str, Value] = {
            "schema": format_schema(replace(contract, namespace="")),
            "kind": kind_word(contract.kind),
            "autograd": False,
            "kernel": KernelLanguage.WRAPPED.value,
        }
        if contract.kind is not Kind.FUNCTIONAL:
            del answers["autograd"]
        notes = [*moved, *decision.notes]
        if self.needs_fake(decision):
            notes.append(
                "its fake kernel is derived from its code"
                if fake
                else "its fake kernel follows the rule that you give"
            )
        return WrappedOp(
            answers,
            str(answers["schema"]),
            contract.kind,
            decision.steps,
            tuple(notes),
            wrapped,
            by_rule=self.needs_fake(decision) and not fake,
        )

    def refuse_numbers(self, way: Way, decision: Decision) -> None:
        """Raise FromError where a number is returned that no fake kernel could know."""
        kept = [
            returned
            for returned, action in zip(way.signature.returns, decision.results, strict=True)
            if action != DROP
        ]
        numbers = [r for r in kept if base_name(r.type) != "Tensor"]
        if numbers and (len(numbers) == len(kept) or self.request.fake):
            raise FromError(
                self.origin.shown,
                self.function.returns or self.function,
                f"{self.function.name} returns a number, which no fake kernel has data to compute",
                "return a Tensor of no dimension, torch.tensor(number)",
            )

    def needs_fake(self, decision: Decision) -> bool:
        """Whether the op returns Tensors of its own."""
        return decision.kind in (Kind.FUNCTIONAL, Kind.MUTABLE) and any(
            action != DROP for action in decision.results
        )

    def fake(self, way: Way, decision: Decision, name: str) -> str:
        """The derived fake kernel. Raises UndecidedError where a rule has to be given."""
        try:
            return fake_text(self.origin, way, decision.results, name, self.needs.constants())
        except UnderivableError as error:
            raise UndecidedError(
                self.origin.shown,
                self.function,
                f"no fake kernel can be derived for {self.function.name}: {error}",
                "say how the outputs' sizes follow: --fake same, broadcast, expression (with "
                "--fake-shape) or dynamic",
                ("fake",),
            ) from None

    def contract(
        self, way: Way, decision: Decision, name: str
    ) -> tuple[OpContract, tuple[str, ...]]:
        """The contract, and what is called otherwise than in the function."""
        parameters = [
            replace(p, type=p.type.of, default=None)
            if p.name in way.given and isinstance(p.type, OptionalType)
            else p
            for p in way.signature.parameters
            if p.name not in way.absent
        ]
        arranged = _arranged(parameters, decision)
        returns = tuple(
            r
            for r, action in zip(way.signature.returns, decision.results, strict=True)
            if action != DROP
        )
        if decision.kind not in (Kind.FUNCTIONAL, Kind.MUTABLE):
            own = None
        else:
            own = returns
        renamed: list[str] = []
        if decision.kind is not Kind.INPLACE and name.endswith("_"):
            name = name.rstrip("_") or name
            renamed.append(f"it is called {name}, since a name that ends in '_' says in-place")
        said = Said(name, arranged, own, decision.kind, decision.mutates or None)
        try:
            contract = contract_of("", said)
        except RefusedError as error:
            raise FromError(
                self.origin.shown, self.function, error.message, "change the function's signature"
            ) from None
        self.refuse_illegal(contract)
        moved = [
            f"{p.name} is {'keyword-only' if p.kw_only else 'passed by position'} in the op"
            for p in arranged
            if p.kw_only != next(q for q in way.signature.parameters if q.name == p.name).kw_only
        ]
        return contract, (*renamed, *moved)

    def refuse_illegal(self, contract: OpContract) -> None:
        """Raise FromError for what PyTorch would refuse of the op."""
        spec = self.function.args
        nodes = {a.arg: a for a in (*spec.args, *spec.kwonlyargs)}
        try:
            refuse_unusable(contract)
        except RefusedError as error:
            reason, _, remedy = error.message.partition("; ")
            raise FromError(self.origin.shown, self.function, reason, remedy) from None
        for problem in check_legal(contract, self.release):
            raise FromError(
                self.origin.shown,
                nodes.get(problem.parameter, self.function),
                problem.reason,
                problem.remedy,
            )

    def wrapped(self, way: Way, decision: Decision, fake: str, sized: str) -> Wrapped:
        """All that rendering needs."""
        function, needs, request = self.function, self.needs, self.request
        imported = self.origin.module.name if imports(needs, request.mode) else ""
        parameters = self.signature.parameters
        return Wrapped(
            source=_plain(request.source),
            function=function.name,
            file=self.file,
            code="",
            parameters=tuple(p.name for p in parameters),
            positional=self.signature.positional,
            returns=_handed_over(way),
            imported=imported,
            search=self.origin.search if imported else (),
            absent=way.absent,
            results=decision.results,
            fake=fake,
            values={p.name: found for p in parameters if (found := values_of(function, p))},
            sized=sized if sized in decision.mutates else "",
            doc=_first_line(function),
        )


def _arranged(parameters: list[Parameter], decision: Decision) -> tuple[Parameter, ...]:
    """The parameters as the kind wants them: buffers of an out= op last, others by position."""
    outs = decision.mutates if decision.kind is Kind.OUT else ()
    rest = positional_tensors([p for p in parameters if p.name not in outs])
    required = [p for p in rest if not p.kw_only and p.default is None]
    defaulted = [p for p in rest if not p.kw_only and p.default is not None]
    buffers = [replace(p, kw_only=True) for p in parameters if p.name in outs]
    return (*required, *defaulted, *(p for p in rest if p.kw_only), *buffers)


def _handed_over(way: Way) -> str:
    if not way.signature.returns:
        return "nothing"
    if len(way.signature.returns) > 1:
        return "tuple"
    return "one" if isinstance(way.signature.returns[0].type, BaseType) else "list"


def _first_line(function: ast.FunctionDef) -> str:
    text = (ast.get_docstring(function) or "").strip().partition("\n")[0].strip()
    return text if _plain(text) == text and len(text) <= 80 else ""


def _plain(text: str) -> str:
    """A text without what means something in a generated file."""
    kept = (c for c in text if c.isprintable() and c not in '"\\{}')
    return "".join(kept)
