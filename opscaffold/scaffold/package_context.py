"""The whole package's context: everything that its templates read."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opscaffold.contract.model import OptionalType
from opscaffold.contract.printer import format_type
from opscaffold.contract.releases import supports_tags
from opscaffold.errors import UserError
from opscaffold.scaffold.from_plan import WrappedPlan
from opscaffold.scaffold.from_samples import wrapped_samples
from opscaffold.scaffold.from_tests import wrapped_tests
from opscaffold.scaffold.languages import LANGUAGES
from opscaffold.scaffold.layout import WIDTHS, Group, Layout, TooWideError, natural_key, quote
from opscaffold.scaffold.module_tests import ModuleTests, tests_of
from opscaffold.scaffold.op_context import OpContext, op_context
from opscaffold.scaffold.plan import OpPlan
from opscaffold.scaffold.sample_context import SampleContext, samples_of
from opscaffold.scaffold.spec import OpSpec, PackageSpec, Registration

Lines = list[str]


@dataclass(frozen=True, slots=True)
class ModuleContext:
    """One op or family with its tests and samples."""

    op: OpContext
    test: ModuleTests
    samples: tuple[SampleContext, ...]


@dataclass(frozen=True, slots=True)
class PackageContext:
    """The package. ``languages`` are those of its kernels, ``dependencies`` what those need."""

    name: str
    module: str
    namespace: str
    description: str
    description_toml: str
    description_doc: Lines
    torch_min: str
    tagged: bool
    library: bool
    width: int
    languages: tuple[str, ...]
    dependencies: tuple[str, ...]
    test_dependencies: tuple[str, ...]
    extras: tuple[tuple[str, tuple[str, ...]], ...]
    additions: tuple[str, ...]
    search: tuple[str, ...]
    modules: tuple[ModuleContext, ...]
    imports: Lines
    exports: Lines
    sample_table: Lines


class UnfitSpecError(UserError):
    """A spec that PyTorch would take, but of which no typed package can be made."""


def build_context(spec: PackageSpec, width: int | None = None) -> PackageContext:
    """The context, laid out for the smallest line length that all of it fits, or for ``width``.

    Raises TooWideError where ``width`` is too small, NoSizesError where a shape expression fits no
    sample, UnfitSpecError, and DerivationError where a contract lacks a form that is asked for.
    """
    _require_fit(spec)
    if width is not None:
        return _build(spec, Layout(width))
    for each in WIDTHS[:-1]:
        with contextlib.suppress(TooWideError):
            return _build(spec, Layout(each))
    return _build(spec, Layout(WIDTHS[-1]))


def _build(spec: PackageSpec, layout: Layout) -> PackageContext:
    modules = tuple(
        _module(_plan(op, spec, layout))
        for op in sorted(spec.ops, key=lambda op: natural_key(op.contract.name))
    )
    used = {op.kernel for op in spec.ops}
    languages = [each for each in LANGUAGES.values() if each.word in used]
    needed = [each.dependencies() for each in languages]
    imports: Lines = []
    for module in sorted(modules, key=lambda m: natural_key(m.op.file)):
        names = [f.form.name for f in module.op.forms]
        imports += layout.import_from(f"{spec.ops_package}.{module.op.file}", names)
    names = sorted(f.form.name for m in modules for f in m.op.forms)
    exports = layout.statement(
        "__all__ = ", Group("[", tuple(quote(n) for n in names), "]"), depth=0
    )
    table = tuple(f"{quote(s.qualname)}: {s.function}" for m in modules for s in m.samples)
    description = " ".join(spec.description.split()) or f"PyTorch ops in {spec.namespace}."
    return PackageContext(
        name=spec.name,
        module=spec.module,
        namespace=spec.namespace,
        description=description,
        description_toml=json.dumps(description, ensure_ascii=False),
        description_doc=layout.prose(description.replace("\\", "\\\\").replace('"', '\\"')),
        torch_min=".".join(map(str, spec.torch_min)),
        tagged=supports_tags(spec.torch_min),
        library=spec.registration is Registration.LIBRARY,
        width=layout.width,
        languages=tuple(each.word.value for each in languages),
        dependencies=_each_once(needs.run for needs in needed),
        test_dependencies=_each_once(needs.test for needs in needed),
        extras=tuple((name, tuple(wanted)) for needs in needed for name, wanted in needs.extras),
        additions=_each_once(module.op.additions for module in modules),
        search=_each_once(op.wraps.search for op in spec.ops if op.wraps is not None),
        modules=modules,
        imports=imports,
        exports=exports,
        sample_table=layout.statement(
            "SAMPLES: dict[str, Callable[[torch.device], Iterator[Sample]]] = ",
            Group("{", table, "}"),
            depth=0,
        ),
    )


def _each_once(several: Iterable[Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each for some in several for each in some))


def _require_fit(spec: PackageSpec) -> None:
    files: dict[str, str] = {}
    for op in spec.ops:
        name = op.contract.name
        other = files.setdefault(name.lower(), name)
        if other != name or [o.contract.name for o in spec.ops].count(name) > 1:
            raise UnfitSpecError(f"{name} and {other} would be one file; rename one of the ops")
        for parameter in op.contract.parameters:
            none = parameter.default is not None and parameter.default.value is None
            if none and not isinstance(parameter.type, OptionalType):
                written = format_type(parameter.type)
                raise UnfitSpecError(
                    f"{name}: {parameter.name} is a {written} with the default None, which "
                    f"no type checker takes; write {written}? {parameter.name}=None"
                )


def _plan(op: OpSpec, spec: PackageSpec, layout: Layout) -> OpPlan:
    made = OpPlan if op.wraps is None else WrappedPlan
    return made(op, spec, layout, LANGUAGES[op.kernel])


def _module(plan: OpPlan) -> ModuleContext:
    wrapped = plan.op.wraps
    if wrapped is not None:
        samples = wrapped_samples(plan, wrapped)
        return ModuleContext(op_context(plan), wrapped_tests(plan, wrapped), tuple(samples))
    return ModuleContext(op_context(plan), tests_of(plan), tuple(samples_of(plan)))
