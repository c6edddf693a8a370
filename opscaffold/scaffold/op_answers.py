"""One op's answers to its OpSpec: contract, metadata rule, autograd, family."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from opscaffold.contract.legality import check_family, check_legal
from opscaffold.contract.model import (
    BaseType,
    Default,
    Kind,
    OpContract,
    Parameter,
    base_name,
)
from opscaffold.contract.releases import Release
from opscaffold.scaffold.additions import additions_of
from opscaffold.scaffold.fakes import fake_of, returns_tensors
from opscaffold.scaffold.from_spec import Wrapped, load_wrapped
from opscaffold.scaffold.given import DEFAULT, AnswerError, Given, Table
from opscaffold.scaffold.infer import RefusedError, Said, contract_of
from opscaffold.scaffold.languages import LANGUAGES
from opscaffold.scaffold.questions import KINDS, OP, Question
from opscaffold.scaffold.spec import Additions, FakeMode, KernelLanguage, OpSpec, Setting
from opscaffold.scaffold.wording import KW_ONLY, parameter_of, returns_of, schema_of, signature_of

TENSOR = BaseType("Tensor")

# The answers about the outputs and the choices on top of a contract.
ADDED = ("vmap", "autocast", "torch_dispatch", "device_kernels")
TRAITS = ("fake", "fake_like", "fake_shape", "autograd", "family", "kernel", *ADDED, "wraps")
# Code of a legality problem -> the answers at fault, the first to be asked again.
# PyTorch's limit on the arguments of an op (c10: "only supports 64").
_MOST_ARGUMENTS = 64

_AT_FAULT = {
    "return-type": ("returns",),
    "mutable-return": ("returns",),
    "inplace-return": ("returns",),
    "out-return": ("returns",),
    "return-alias": ("returns",),
    "no-effect": ("returns",),
    "optional-mutated-return": ("returns", "params"),
    "bad-name": ("name",),
    "underscore": ("name", "kind"),
    "bad-namespace": ("namespace",),
}


def check_table(table: Table, questions: Mapping[str, Question]) -> dict[str, Given]:
    """Every answer in its normal form. Raises AnswerError for one that cannot be used."""
    return {key: check_one(given, questions[key]) for key, given in table.items()}


def check_one(given: Given, question: Question) -> Given:
    """An answer in its normal form. Raises AnswerError, naming where it was given."""
    try:
        return replace(given, value=question.check(given.value))
    except ValueError as error:
        raise AnswerError(str(error), given.origin, (question.key,)) from None


def build_op(
    table: Table, namespace: str, release: Release, setting: Setting | None = None
) -> OpSpec:
    """The op that normal answers describe, in a package of that ``setting``.

    Raises AnswerError where they contradict each other, leave the kind open, or describe what
    PyTorch or the language of the kernel refuses.
    """
    try:
        contract = _contract(table, namespace, release)
        op = OpSpec(
            contract,
            fake_of(table, contract),
            autograd=_autograd(table, contract),
            family=_family(table, contract, release),
            kernel=_kernel(table),
            wraps=_wraps(table),
            additions=_additions(table),
        )
        _refuse_language(op, setting or Setting())
    except RefusedError as error:
        raise AnswerError(
            f"{_about(table)}{error.message}{_remedy(table, error.keys)}",
            _origin(table, error.keys),
            error.keys,
        ) from None
    return op


def build_contract(table: Table, namespace: str, release: Release) -> OpContract:
    """The contract alone, for the questions that depend on it. Raises AnswerError alike."""
    rest = {k: v for k, v in table.items() if k not in TRAITS}
    return build_op(rest, namespace, release).contract


def said_namespace(table: Table) -> str:
    """The namespace written in the op's schema, or nothing."""
    if "schema" in table:
        return schema_of(str(table["schema"].value)).namespace
    return ""


def said_name(table: Table) -> str:
    """The op's name as its answers give it, before they are validated together."""
    for key, read in (("schema", schema_of), ("signature", signature_of)):
        if key in table:
            return read(str(table[key].value)).name
    return str(table["name"].value) if "name" in table else ""


def _about(table: Table) -> str:
    name = said_name(table)
    return f"{name}: " if name else ""


def _origin(table: Table, keys: tuple[str, ...]) -> str:
    # Where none of them is given, any other of the op shows the place.
    for key in (*keys, "schema", "signature", "name", *table):
        if key in table and table[key].origin != DEFAULT:
            return table[key].origin
    return ""


def _form(table: Table) -> str:
    """Which wording tells the op whole, if one does."""
    return next((key for key in ("schema", "signature") if key in table), "")


def _remedy(table: Table, keys: tuple[str, ...]) -> str:
    """Name the flags or keys that a message speaks of, in the spelling of where the op stands."""
    origin = _origin(table, keys)
    told = {"name", "params", "returns", "out"} if _form(table) else {"schema", "signature"}
    named = [key for key in keys if key in OP and key not in told]
    if origin.startswith("-"):
        words = [OP[key].flag.split("/")[0] for key in named]
    elif ":" in origin:
        words = named
    else:
        return ""
    if len(words) == 1 and origin.startswith(words[0]):
        return ""
    return f" ({' or '.join(words)})" if words else ""


def _contract(table: Table, namespace: str, release: Release) -> OpContract:
    contract = _with_bools(contract_of(namespace, _said(table)))
    refuse_unusable(contract)
    for problem in check_legal(contract, release):
        raise RefusedError(str(problem), *_AT_FAULT.get(problem.code, ("params", "out")))
    return contract


def _with_bools(contract: OpContract) -> OpContract:
    """The contract with the defaults of bools as PyTorch prints them: a schema may say 0 or 1."""
    parameters = tuple(
        replace(p, default=Default(bool(p.default.value)))
        if p.default is not None and base_name(p.type) == "bool" and p.default.value in (0, 1)
        else p
        for p in contract.parameters
    )
    return replace(contract, parameters=parameters)


def refuse_unusable(contract: OpContract) -> None:
    """Raise RefusedError for what PyTorch registers, and no kernel can be called with."""
    if len(contract.parameters) > _MOST_ARGUMENTS:
        raise RefusedError(
            f"an op of {len(contract.parameters)} arguments cannot be called: PyTorch takes "
            f"{_MOST_ARGUMENTS}; pass lists instead",
            "params",
            "out",
        )
    for parameter in contract.parameters:
        value = None if parameter.default is None else parameter.default.value
        name, kind = parameter.name, base_name(parameter.type)
        if kind == "ScalarType" and value is not None:
            raise RefusedError(
                f"the default of {name!r} would reach the kernel as a number, not as a dtype; "
                f"make {name!r} Optional with the default None, and choose in the kernel",
                "params",
            )
        if kind in {"int", "SymInt"} and isinstance(value, float):
            raise RefusedError(f"the default of {name!r} is no int; write one", "params")


def _said(table: Table) -> Said:
    kind = KINDS[str(table["kind"].value)] if "kind" in table else None
    mutates = _names(table, "mutates")
    forms = [key for key in ("schema", "signature") if key in table]
    parts = [key for key in ("params", "returns", "out") if key in table]
    if len(forms) == 2:
        raise RefusedError("a schema and a signature are given for one op; keep one", *forms)
    if not forms:
        returns = returns_of(str(table["returns"].value)) if "returns" in table else None
        return _with_outs(
            Said(str(table["name"].value), _parameters(table), returns, kind, mutates), table
        )
    form = forms[0]
    if parts:
        raise RefusedError(
            f"the {form} already says the {' and '.join(parts)}; keep one of them", *parts
        )
    written = (schema_of if form == "schema" else signature_of)(str(table[form].value))
    if "name" in table and table["name"].value != written.name:
        raise RefusedError(
            f"the {form} names the op {written.name}, the name says {table['name'].value}; "
            "keep one of them",
            "name",
        )
    return Said(written.name, written.parameters, written.returns, kind, mutates)


def told_parameters(table: Table) -> tuple[Parameter, ...]:
    """The arguments that normal answers tell, whichever way. Raises AnswerError."""
    try:
        return _said({k: v for k, v in table.items() if k not in ("mutates", "kind")}).parameters
    except RefusedError as error:
        raise AnswerError(error.message, _origin(table, error.keys), error.keys) from None


def _names(table: Table, key: str) -> tuple[str, ...] | None:
    if key not in table:
        return None
    value = table[key].value
    names = value if isinstance(value, tuple) else ()
    twice = {n for n in names if names.count(n) > 1}
    if twice:
        raise RefusedError(f"{key} names {' and '.join(sorted(twice))} twice", key)
    return names


def _parameters(table: Table) -> tuple[Parameter, ...]:
    found: list[Parameter] = []
    kw_only = False
    texts = table["params"].value if "params" in table else ()
    for text in texts if isinstance(texts, tuple) else ():
        if text == KW_ONLY:
            if kw_only:
                raise RefusedError("'*' stands twice among the arguments; once is enough", "params")
            kw_only = True
            continue
        parameter = parameter_of(text)
        if any(p.name == parameter.name for p in found):
            raise RefusedError(f"two arguments are called {parameter.name}; rename one", "params")
        found.append(replace(parameter, kw_only=kw_only))
    if kw_only and not any(p.kw_only for p in found) and "out" not in table:
        raise RefusedError(
            "nothing stands behind '*'; drop it or put arguments behind it", "params"
        )
    return tuple(found)


def _with_outs(said: Said, table: Table) -> Said:
    outs = _names(table, "out")
    if outs is None:
        return said
    if not outs:
        raise RefusedError("an out= op writes at least one buffer; name it", "out")
    if said.kind not in (None, Kind.OUT):
        raise RefusedError(
            f"out names buffers, but the kind is {said.kind.value}; keep one", "out", "kind"
        )
    names = {p.name for p in said.parameters}
    for name in outs:
        if name in names:
            raise RefusedError(f"{name} is an argument already; name the buffer otherwise", "out")
    if said.mutates is not None and set(said.mutates) != set(outs):
        raise RefusedError(
            "out and mutates name different arguments; drop mutates", "mutates", "out"
        )
    buffers = tuple(Parameter(name, TENSOR, kw_only=True) for name in outs)
    return replace(said, parameters=(*said.parameters, *buffers), kind=Kind.OUT, mutates=outs)


def trains(contract: OpContract) -> bool:
    """Whether the op can have autograd: functional, with Tensors to differentiate."""
    return (
        contract.kind is Kind.FUNCTIONAL
        and returns_tensors(contract)
        and any(p.is_tensor_like for p in contract.parameters)
    )


def _autograd(table: Table, contract: OpContract) -> bool:
    wanted = table["autograd"].value is True if "autograd" in table else trains(contract)
    if wanted and contract.kind is not Kind.FUNCTIONAL:
        raise RefusedError(
            f"an op of kind {contract.kind.value} cannot have autograd: PyTorch refuses it for ops "
            "that write their arguments; nearest legal form: a functional op, or a family, whose "
            "functional op trains",
            "autograd",
            "kind",
        )
    if wanted and not trains(contract):
        raise RefusedError("without a Tensor to take and one to return, nothing trains", "autograd")
    return wanted


def _kernel(table: Table) -> KernelLanguage:
    return KernelLanguage(table["kernel"].value) if "kernel" in table else KernelLanguage.TORCH


def _additions(table: Table) -> Additions:
    devices = _names(table, "device_kernels") or ()
    return Additions(
        vmap="vmap" in table and table["vmap"].value is True,
        autocast=str(table["autocast"].value) if "autocast" in table else "",
        torch_dispatch="torch_dispatch" in table and table["torch_dispatch"].value is True,
        device_kernels=devices,
    )


def _wraps(table: Table) -> Wrapped | None:
    return load_wrapped(str(table["wraps"].value)) if "wraps" in table else None


def _refuse_language(op: OpSpec, setting: Setting) -> None:
    reason = LANGUAGES[op.kernel].refusal(op, setting)
    if reason is not None:
        raise RefusedError(reason, "kernel")
    for addition in additions_of(op):
        reason = addition.refusal(op) or addition.too_old(setting)
        if reason is not None:
            raise RefusedError(reason, addition.key)


def _family(table: Table, contract: OpContract, release: Release) -> bool:
    if "family" not in table or table["family"].value is not True:
        return False
    if contract.kind is not Kind.FUNCTIONAL:
        raise RefusedError(
            f"a family is told by its functional op, and this one is {contract.kind.value}; "
            "give the functional one, the in-place and out= ops follow from it",
            "family",
            "kind",
        )
    for problem in check_family(contract, release):
        raise RefusedError(str(problem), "family", *_AT_FAULT.get(problem.code, ("params",)))
    fake = fake_of(table, contract)
    first = contract.parameters[0].name
    if fake.mode is not FakeMode.BROADCAST and (fake.mode, fake.like) != (FakeMode.SAME, first):
        raise RefusedError(
            f"the in-place op of a family writes its result into {first}, so the result has its "
            f"shape; nearest legal form: fake same, like {first}, or broadcast",
            "fake",
            "fake_like",
            "fake_shape",
            "family",
        )
    return True
