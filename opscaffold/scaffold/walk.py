"""The questions of `opscaffold new`, in the order in which a person is asked them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from opscaffold.contract import decision
from opscaffold.contract.legality import check_family
from opscaffold.contract.model import Kind, OpContract
from opscaffold.contract.naming import module_name
from opscaffold.contract.printer import format_schema
from opscaffold.contract.releases import Release
from opscaffold.scaffold.answers import (
    DEFAULT_DESCRIPTION,
    DEFAULT_OP,
    DEFAULT_PACKAGE,
    DEFAULT_TORCH,
    build,
    default_name,
    namespace_of,
    op_names,
    release_of,
    setting_of,
)
from opscaffold.scaffold.ask import Interview, Key, Prompt, Screen
from opscaffold.scaffold.fakes import default_shape, fitting_modes, like_choices, needs_fake
from opscaffold.scaffold.given import AnswerError, Answers, Given, Table, Value
from opscaffold.scaffold.languages import fitting
from opscaffold.scaffold.op_answers import (
    build_contract,
    build_op,
    said_namespace,
    told_parameters,
    trains,
)
from opscaffold.scaffold.questions import (
    KINDS,
    OP,
    PACKAGE,
    UNASKED,
    Question,
    kind_word,
    yes_or_no,
)
from opscaffold.scaffold.spec import FakeMode, KernelLanguage, OpSpec, PackageSpec, Setting
from opscaffold.scaffold.tree import YES_NO, Declined, ask_kind
from opscaffold.scaffold.wording import KW_ONLY, parameter_of, read_parameter

DONE = "done"

_FAKES = {
    FakeMode.SAME: "shape, dtype and device of one input",
    FakeMode.BROADCAST: "the shape the inputs broadcast to",
    FakeMode.EXPRESSION: "each dimension computed from the inputs' sizes",
    FakeMode.DYNAMIC: "known only from the data; compiled code gets a symbolic size",
}


def walk(
    screen: Screen,
    given: Answers,
    *,
    all_questions: bool,
    summary: Callable[[PackageSpec], str] | None,
    taken: Callable[[str], str | None] = lambda _: None,
    settled: int | None = None,
) -> PackageSpec:
    """Ask what ``given`` leaves open, then whether to write.

    ``all_questions`` asks what has a default too. ``summary`` describes what would be written;
    without one, nobody is asked. ``taken`` tells why a package of that name cannot be made here.
    ``settled`` says that the package is there, with that many of the ops: nothing is asked of them.
    Raises AnswerError for a given answer that cannot be used, Declined, UserError where the input
    ends.
    """
    interview = Interview(screen)
    script = _Script(interview, given, all_questions, taken, settled)

    def run() -> PackageSpec:
        spec = script.run()
        if summary is not None:
            _confirm(interview, summary(spec))
        return spec

    return interview.run(run)


class _Script:
    def __init__(
        self,
        interview: Interview,
        given: Answers,
        all_questions: bool,
        taken: Callable[[str], str | None],
        settled: int | None,
    ) -> None:
        self.interview = interview
        self.given = given
        self.all_questions = all_questions
        self.taken = taken
        self.settled = settled

    def run(self) -> PackageSpec:
        self.interview.once(
            ("hello",),
            "Enter takes the [default]; back returns to the question before; Ctrl-C leaves.",
            "dim",
        )
        package = self._package() if self.settled is None else dict(self.given.package)
        tables: list[Table] = [*self.given.ops[: self.settled or 0]]
        ops = [*build(Answers(package, tuple(tables)), empty=True).ops] if tables else []
        while True:
            index = len(tables)
            table, op = self._op(index, package, ops)
            tables.append(table)
            ops.append(op)
            if len(tables) < len(self.given.ops):
                continue
            if not self.all_questions or not self._another(len(tables)):
                break
        try:
            return build(Answers(package, tuple(tables)))
        except AnswerError as error:
            self.interview.reopen(error, ("package",))
            raise

    def _package(self) -> dict[str, Given]:
        given = self.given.package
        package: dict[str, Given] = {}
        for key, question in PACKAGE.items():
            default = {
                "package": DEFAULT_PACKAGE,
                "description": DEFAULT_DESCRIPTION,
                "torch_min": DEFAULT_TORCH,
            }.get(key, "")
            if key == "namespace":
                said = next((n for n in map(said_namespace, self.given.ops) if n), "")
                if said and key not in given:
                    continue
                default = module_name(str(package["package"].value))
            asked = self.all_questions and key not in UNASKED
            if key in given or key == "package" or asked:
                if key == "package":
                    question = replace(question, check_item=self._free(question))
                package[key] = self._answer(("package", key), question, default, given.get(key))
        return package

    def _free(self, question: Question) -> Callable[[str], str]:
        def check(text: str) -> str:
            name = question.check_item(text)
            reason = self.taken(name)
            if reason is not None:
                raise ValueError(reason)
            return name

        return check

    def _op(
        self, index: int, package: Mapping[str, Given], before: Sequence[OpSpec]
    ) -> tuple[Table, OpSpec]:
        given = self.given.ops[index] if index < len(self.given.ops) else {}
        under = ("op", index)
        table = dict(given)
        partial = Answers(package, (*self.given.ops, table))
        setting = setting_of(partial)
        release = release_of(setting.torch_min)
        try:
            namespace = namespace_of(partial)
            if "schema" not in given and "signature" not in given:
                self._parts(index, table, before)
            contract = self._contract(index, table, namespace, release)
            self.interview.once(
                under,
                f"\n{contract.kind.value} op: {format_schema(contract)}",
                "bold",
            )
            if self.all_questions and "wraps" not in table:
                self._traits(index, table, contract, release)
                rest = {k: v for k, v in table.items() if k != "kernel"}
                likely = before[-1].kernel if before else KernelLanguage.TORCH
                self._kernel(index, table, build_op(rest, namespace, release), setting, likely)
            op = build_op(table, namespace, release, setting)
            self._refuse_taken(op, before)
        except AnswerError as error:
            self.interview.reopen(error, under)
            raise
        return table, op

    def _answer(
        self,
        key: Key,
        question: Question,
        default: str,
        given: Given | None,
        choices: Sequence[tuple[str, str]] = (),
    ) -> Given:
        value, asked = self.interview.ask(
            key,
            Prompt(question.ask, question.why, choices),
            question.check,
            default=default,
            given=None if given is None else _as_text(given.value),
        )
        if asked or given is None:
            return Given(value)
        return Given(value, given.origin)

    def _parts(self, index: int, table: dict[str, Given], before: Sequence[OpSpec]) -> None:
        """Ask for what a schema would say."""
        under = ("op", index)
        if "kind" not in table and not {"params", "returns"} <= table.keys():
            table["kind"] = Given(kind_word(ask_kind(self.interview, index)))
        kind = KINDS[str(table["kind"].value)] if "kind" in table else None
        taken = {name for op in before for name in op_names(op)}
        default = default_name(kind, taken)
        table["name"] = self._answer((*under, "name"), OP["name"], default, table.get("name"))
        self._params(index, table)
        names = [p.name for p in told_parameters(table) if p.is_tensor_like]
        if kind is Kind.OUT and "returns" not in table and "mutates" not in table:
            if "out" in table or not any(p == KW_ONLY for p in _tuple(table["params"].value)):
                key = (*under, "out")
                table["out"] = self._answer(key, OP["out"], "out", table.get("out"))
        elif kind is Kind.MUTABLE and (names or "mutates" in table):
            key = (*under, "mutates")
            table["mutates"] = self._answer(
                key, OP["mutates"], next(iter(names), ""), table.get("mutates")
            )
        if kind in (Kind.FUNCTIONAL, Kind.MUTABLE):
            default = "Tensor" if kind is Kind.FUNCTIONAL else "()"
            key = (*under, "returns")
            table["returns"] = self._answer(key, OP["returns"], default, table.get("returns"))

    def _params(self, index: int, table: dict[str, Given]) -> None:
        """Ask for arguments one by one, until there are no more."""
        given = table.get("params")
        settled = _tuple(given.value) if given is not None else ()
        found: list[str] = []
        asked_any = False
        while True:
            number = len(found)
            default = DONE if number else str(_tuple(DEFAULT_OP["params"])[0])
            known = None if given is None else (*settled, DONE)[min(number, len(settled))]
            ask = f"Argument {number + 1}?" if number == 0 else f"Argument {number + 1}, or {DONE}?"
            text, asked = self.interview.ask(
                ("op", index, "params", number),
                Prompt(ask, "" if number else OP["params"].why),
                _argument(found),
                default=default,
                given=known,
            )
            asked_any = asked_any or asked
            if text == DONE:
                break
            found.append(text)
        table["params"] = given if given is not None and not asked_any else Given(tuple(found))

    def _contract(
        self, index: int, table: dict[str, Given], namespace: str, release: Release
    ) -> OpContract:
        """The contract, asking for what leaves it open: the kind, or what is mutated."""
        while True:
            found = _attempt(table, namespace, release)
            if isinstance(found, OpContract):
                return found
            key = next((k for k in found.keys if k in ("kind", "mutates") and k not in table), "")
            if not key:
                raise found
            self.interview.once(("op", index), f"\n{found.message}.")
            kinds = [(kind_word(o.kind), o.title) for o in decision.OUTCOMES.values() if o.kind]
            table[key] = self._answer(
                ("op", index, key),
                OP[key],
                self._likely(key, table),
                None,
                kinds if key == "kind" else (),
            )

    def _likely(self, key: str, table: Table) -> str:
        if key == "kind":
            return kind_word(Kind.MUTABLE)
        tensors = [p.name for p in told_parameters(table) if p.is_tensor_like]
        return tensors[-1] if tensors else ""

    def _traits(
        self, index: int, table: dict[str, Given], contract: OpContract, release: Release
    ) -> None:
        """Ask for what stands beside the contract: output metadata, autograd, family."""

        def ask(key: str, default: str, choices: Sequence[tuple[str, str]] = ()) -> Value:
            table[key] = self._answer(("op", index, key), OP[key], default, table.get(key), choices)
            return table[key].value

        if needs_fake(contract):
            self._fake(table, contract, ask)
        if trains(contract):
            ask("autograd", "y", YES_NO)
        if contract.kind is Kind.FUNCTIONAL and not check_family(contract, release):
            mode = table.get("fake", Given(FakeMode.SAME.value)).value
            if mode in (FakeMode.SAME.value, FakeMode.BROADCAST.value):
                ask("family", "n", YES_NO)

    def _fake(
        self,
        table: dict[str, Given],
        contract: OpContract,
        ask: Callable[..., Value],
    ) -> None:
        likes = like_choices(contract)
        modes = [(mode.value, _FAKES[mode]) for mode in fitting_modes(contract)]
        default = FakeMode.EXPRESSION.value if "fake_shape" in table else modes[0][0]
        mode = ask("fake", default, modes)
        if mode != FakeMode.BROADCAST.value and len(likes) > 1:
            ask("fake_like", likes[0])
        if mode == FakeMode.EXPRESSION.value:
            ask("fake_shape", default_shape(contract))

    def _kernel(
        self,
        index: int,
        table: dict[str, Given],
        op: OpSpec,
        setting: Setting,
        likely: KernelLanguage,
    ) -> None:
        """Ask for the language of the kernel, where more than one is possible."""
        choices = {each.word: each.about for each in fitting(op, setting)}
        if len(choices) < 2 and "kernel" not in table:
            return
        default = likely if likely in choices else KernelLanguage.TORCH
        shown = [(word.value, about) for word, about in choices.items()]
        key = ("op", index, "kernel")
        table["kernel"] = self._answer(key, OP["kernel"], default.value, table.get("kernel"), shown)

    def _refuse_taken(self, op: OpSpec, before: Sequence[OpSpec]) -> None:
        taken = {name.lower() for other in before for name in op_names(other)}
        for name in op_names(op):
            if name.lower() in taken:
                raise AnswerError(
                    f"an op named {name} is there already; each needs a name of its own",
                    keys=("name", "family"),
                )

    def _another(self, count: int) -> bool:
        answer, _ = self.interview.ask(
            ("another", count),
            Prompt("Another op?", "All ops of a package share its namespace and tests.", YES_NO),
            yes_or_no,
            default="n",
        )
        return answer


def _confirm(interview: Interview, summary: str) -> None:
    interview.screen.show(f"\n{summary}")
    write, _ = interview.ask(
        ("write",), Prompt("Write these files?", "", YES_NO), yes_or_no, default="y"
    )
    if not write:
        raise Declined("Nothing was written")


def _attempt(table: Table, namespace: str, release: Release) -> OpContract | AnswerError:
    try:
        return build_contract(table, namespace, release)
    except AnswerError as error:
        return error


def _as_text(value: Value) -> str:
    if isinstance(value, bool):
        return "y" if value else "n"
    return value if isinstance(value, str) else ", ".join(value)


def _tuple(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _argument(before: Sequence[str]) -> Callable[[str], str]:
    names = {parameter_of(text).name for text in before if text != KW_ONLY}

    def check(text: str) -> str:
        if text.lower() == DONE:
            return DONE
        if text == KW_ONLY and KW_ONLY in before:
            raise ValueError("'*' stands among the arguments already")
        checked = read_parameter(text)
        if text != KW_ONLY and parameter_of(text).name in names:
            raise ValueError(f"an argument named {parameter_of(text).name} is there already")
        return checked

    return check
