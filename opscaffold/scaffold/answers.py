"""From raw answers to a PackageSpec, and back: what is missing, what contradicts, what follows."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from dataclasses import replace

from opscaffold.contract.model import Kind
from opscaffold.contract.naming import module_name, validate_namespace
from opscaffold.contract.printer import format_schema
from opscaffold.contract.releases import (
    FIRST_WITH_TAGS,
    Release,
    Version,
    parse_version,
    release_for,
)
from opscaffold.scaffold.fakes import needs_fake
from opscaffold.scaffold.from_spec import dump_wrapped
from opscaffold.scaffold.given import DEFAULT, AnswerError, Answers, Given, Table, Value
from opscaffold.scaffold.op_answers import (
    ADDED,
    TRAITS,
    build_op,
    check_table,
    said_name,
    said_namespace,
)
from opscaffold.scaffold.questions import KINDS, OP, PACKAGE, kind_word
from opscaffold.scaffold.spec import FakeMode, OpSpec, PackageSpec, Registration, Setting
from opscaffold.scaffold.wording import KW_ONLY

DEFAULT_PACKAGE = "my-ops"
DEFAULT_DESCRIPTION = "Custom PyTorch operators."
DEFAULT_TORCH = "2.13"
_NAMING = ("name", "schema", "signature")
DEFAULT_OP: Mapping[str, Value] = {
    "params": ("Tensor x", "float alpha=1.0"),
    "out": ("out",),
    "returns": "Tensor",
}
_DEFAULT_NAMES = {Kind.INPLACE: "my_op_", Kind.OUT: "my_op_out"}


def default_name(kind: Kind | None, taken: Collection[str]) -> str:
    """A name in the manner of the kind that is not taken."""
    name = _DEFAULT_NAMES.get(kind, "my_op") if kind else "my_op"
    tail = next((t for t in ("_out", "_") if name.endswith(t)), "")
    stem = name.removesuffix(tail)
    names = itertools.chain([name], (f"{stem}{number}{tail}" for number in itertools.count(2)))
    return next(n for n in names if n not in taken)


def missing(answers: Answers) -> list[str]:
    """The flags of the answers that have to be given, in the order of the questions."""
    flags = [] if "package" in answers.package else ["PACKAGE"]
    if not answers.ops:
        return [*flags, "--schema (or --signature, or --op with --param and --returns)"]
    for number, table in enumerate(answers.ops, 1):
        where = f" of op {number}" if len(answers.ops) > 1 else ""
        flags += [f"{OP[key].flag}{where}" for key in missing_of_op(table)]
    return flags


def missing_of_op(table: Table) -> list[str]:
    """The keys an op still needs, before it has a contract."""
    if "schema" in table or "signature" in table:
        return []
    keys = [key for key in ("name", "params") if key not in table]
    kind = _kind_of(table)
    if kind is Kind.OUT and not table.keys() & {"out", "mutates"}:
        params = table["params"].value if "params" in table else ()
        keys += [] if isinstance(params, tuple) and KW_ONLY in params else ["out"]
    if kind in (None, Kind.FUNCTIONAL) and not table.keys() & {"returns", "out"}:
        keys.append("returns")
    return keys


def _kind_of(table: Table) -> Kind | None:
    return KINDS.get(str(table["kind"].value)) if "kind" in table else None


def with_defaults(answers: Answers) -> Answers:
    """The answers, with the default of each one that ``missing`` would name.

    Raises AnswerError for one that cannot be used.
    """
    answers = check(answers)
    package = {"package": Given(DEFAULT_PACKAGE, DEFAULT), **answers.package}
    taken = {said_name(table) for table in answers.ops}
    ops: list[Table] = []
    for table in answers.ops or ({},):
        name = default_name(_kind_of(table), taken)
        values = {"name": name, **DEFAULT_OP}
        lacking = missing_of_op(table)
        ops.append({**table, **{k: Given(values[k], DEFAULT) for k in lacking}})
        if "name" in lacking:
            taken.add(name)
    return Answers(package, tuple(ops))


def build(answers: Answers, *, empty: bool = False) -> PackageSpec:
    """Validate all answers together. What is optional and not given takes its default.

    ``empty`` lets a package have no ops, as one that was adopted may.
    Raises AnswerError for the first answer that cannot be used, or that is missing.
    """
    checked = check(answers)
    lacking = [] if empty and not answers.ops else missing(answers)
    if lacking:
        raise AnswerError(f"answers are missing: {', '.join(lacking)}")
    name = _text(checked.package, "package", DEFAULT_PACKAGE)
    module = module_name(name)
    namespace = namespace_of(checked)
    setting = setting_of(checked)
    ops: list[OpSpec] = []
    taken: dict[str, str] = {}
    for table in checked.ops:
        op = build_op(table, namespace, release_of(setting.torch_min), setting)
        _claim_names(op, table, taken)
        ops.append(op)
    description = _text(checked.package, "description", DEFAULT_DESCRIPTION)
    version, way = setting.torch_min, setting.registration
    return PackageSpec(name, module, namespace, tuple(ops), version, description, way)


def check(answers: Answers) -> Answers:
    """Every answer in its normal form, each looked at by itself. Raises AnswerError."""
    package = check_table(answers.package, PACKAGE)
    return Answers(package, tuple(check_table(table, OP) for table in answers.ops))


def torch_version(checked: Answers) -> Version:
    """The oldest torch the package runs on."""
    return parse_version(_text(checked.package, "torch_min", DEFAULT_TORCH))


def setting_of(checked: Answers) -> Setting:
    """What all ops of the package share."""
    way = _text(checked.package, "registration", Registration.CUSTOM_OP.value)
    return Setting(torch_version(checked), Registration(way))


def release_of(version: Version) -> Release:
    """The release whose rules hold: contracts are told in tags, whatever they are rendered to."""
    return release_for(max(version, FIRST_WITH_TAGS))


def namespace_of(checked: Answers) -> str:
    """The one namespace of the ops: as answered, else as the schemas say, else the module's name.

    Raises AnswerError where they disagree, or the module's name cannot be one.
    """
    given = checked.package.get("namespace")
    origin = given.origin if given else ""
    namespace = str(given.value) if given else ""
    for table in checked.ops:
        said = said_namespace(table)
        if not said:
            continue
        if namespace and said != namespace:
            raise AnswerError(
                f"the schema says namespace {said!r}, {origin} says {namespace!r}; a package has "
                "one namespace: change one of them",
                table["schema"].origin,
                ("schema", "namespace"),
            )
        namespace, origin = said, origin or table["schema"].origin
    if namespace:
        return namespace
    module = module_name(_text(checked.package, "package", DEFAULT_PACKAGE))
    reason = validate_namespace(module)
    if reason is not None:
        raise AnswerError(
            f"the package's name does not do as a namespace: {reason} (--namespace)",
            keys=("namespace",),
        )
    return module


def _text(table: Table, key: str, default: str) -> str:
    return str(table[key].value) if key in table else default


def op_names(op: OpSpec) -> tuple[str, ...]:
    """The names an op registers under: three for a family."""
    name = op.contract.name
    return (name, f"{name}_", f"{name}_out") if op.family else (name,)


def _claim_names(op: OpSpec, table: Table, taken: dict[str, str]) -> None:
    for name in op_names(op):
        # Each op has a module of its name, and some file systems do not tell cases apart.
        if name.lower() in taken:
            keys = ("name", "schema", "signature")
            raise AnswerError(
                f"the name {name} is taken by {taken[name.lower()]}; each op needs a name that "
                "differs in more than case, and a family takes three",
                next((table[k].origin for k in keys if k in table), ""),
                (*keys, "family"),
            )
    taken.update((name.lower(), op.contract.name) for name in op_names(op))


def answers_of(spec: PackageSpec) -> Answers:
    """The answers that ``build`` makes the same package of, in one canonical form."""
    package = {
        "package": spec.name,
        "description": spec.description,
        "namespace": spec.namespace,
        "torch_min": f"{spec.torch_min[0]}.{spec.torch_min[1]}",
        "registration": spec.registration.value,
    }
    return Answers(
        {key: Given(value) for key, value in package.items()},
        tuple({k: Given(v) for k, v in _answers_of_op(op).items()} for op in spec.ops),
    )


def _answers_of_op(op: OpSpec) -> dict[str, Value]:
    contract = op.contract
    answers: dict[str, Value] = {
        "schema": format_schema(replace(contract, namespace="")),
        "kind": kind_word(contract.kind),
    }
    if needs_fake(contract):
        answers["fake"] = op.fake.mode.value
        if op.fake.like:
            answers["fake_like"] = op.fake.like
        if op.fake.mode is FakeMode.EXPRESSION:
            answers["fake_shape"] = op.fake.shape
    if contract.kind is Kind.FUNCTIONAL:
        answers["autograd"] = op.autograd
        answers["family"] = op.family
    answers["kernel"] = op.kernel.value
    answers |= {k: v for k in ADDED if (v := getattr(op.additions, k))}
    if op.wraps is not None:
        answers["wraps"] = dump_wrapped(op.wraps)
    return answers


def merge(file: Answers, flags: Answers, about: Table) -> Answers:
    """Lay flags over an answers file.

    ``flags.ops`` are ops told by a schema or a signature: they redefine the file's op of that
    name, or are added. ``about`` holds the other flags: they are about the op that ``name``
    names (a new one, where there is none), else about the only op; those that tell no op apart
    (fake, autograd, kernel and the like) are then about every op. Raises AnswerError where it
    cannot be told which op is meant.
    """
    package = {**file.package, **flags.package}
    ops = [dict(table) for table in file.ops]
    told: set[str] = set()
    for table in flags.ops:
        name = _name_of(table)
        given = table.get("schema") or table.get("signature")
        if name in told and given is not None:
            raise AnswerError(
                f"two ops are called {name!r}; give each a name of its own", given.origin
            )
        told.add(name)
        at = next((i for i, op in enumerate(ops) if _name_of(op) == name), None)
        if at is None:
            ops.append(dict(table))
        else:
            ops[at] = {**{k: v for k, v in ops[at].items() if k in TRAITS}, **table}
    if "name" in about:
        name = str(about["name"].value)
        at = next((i for i, op in enumerate(ops) if _name_of(op) == name), None)
        if at is None:
            ops.append(dict(about))
        else:
            ops[at].update(about)
        return Answers(package, tuple(ops))
    telling = {k: v for k, v in about.items() if k not in TRAITS}
    if telling and len(ops) > 1:
        key, given = next(iter(telling.items()))
        raise AnswerError(
            f"there are {len(ops)} ops, and it is about one; say which with --op NAME",
            given.origin,
            (key,),
        )
    if about and not ops:
        ops.append({})
    for op in ops:
        op.update(about)
    return Answers(package, tuple(ops))


def _name_of(table: Table) -> str:
    # A file may hold anything: only what is valid by itself has a name.
    return said_name(check_table({k: v for k, v in table.items() if k in _NAMING}, OP))
