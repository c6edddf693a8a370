"""A migration as the data of a reviewers' page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opscaffold.contract.model import OpContract, Parameter, SchemaType, alias_of
from opscaffold.contract.printer import format_default, format_schema, format_type
from opscaffold.contract.pytypes import strip_alias
from opscaffold.report.diff import unified_diff
from opscaffold.report.migration import Contract, Page, Reason, Repair, Site, Value
from opscaffold.report.order import relative_name
from opscaffold.report.page import render_page

if TYPE_CHECKING:
    from opscaffold.findings.model import Finding
    from opscaffold.migrate.engine import Migration
    from opscaffold.migrate.outcomes import Left
    from opscaffold.migrate.steps import Step


def page(migration: Migration, *, written: bool) -> bytes:
    """Return the page; ``written`` says that the changes are in the files."""
    root = migration.root
    left: dict[str, list[Reason]] = {}
    for each in migration.left:
        left.setdefault(each.finding.op, []).append(_reason(each, root))
    told = {each.finding for each in migration.left}
    unread = [finding for finding in migration.findings if finding not in told]
    for finding in unread:
        name = relative_name(finding.position.path, root)
        left.setdefault(name, []).append(_noted(finding, root, "refused"))
    repairs: dict[tuple[str, str], list[Step]] = {}
    for step in migration.steps:
        repairs.setdefault(step.key, []).append(step)
    return render_page(
        Page(
            title=root.name,
            written=written,
            ops=migration.ops,
            files=len(migration.changes),
            repairs=tuple(_repair(steps, root) for steps in repairs.values()),
            left=tuple((op, tuple(reasons)) for op, reasons in sorted(left.items())),
            notes=tuple(_noted(note, root, "note") for note in migration.notes),
        )
    )


def contract_view(name: str, contract: OpContract | None) -> Contract:
    """Return a contract as it is shown; of one that cannot be told, the name."""
    if contract is None:
        return Contract(name)
    try:
        schema: str | None = format_schema(contract)
    except ValueError:
        # A default that no schema can hold.
        schema = None
    return Contract(
        name,
        contract.kind.value,
        schema,
        tuple(sorted(tag.value for tag in contract.tags)),
        tuple(map(_argument, contract.parameters)),
        tuple(_value(returned.type, returned.name or "") for returned in contract.returns),
    )


def _argument(parameter: Parameter) -> Value:
    try:
        default = None if parameter.default is None else format_default(parameter.default)
    except ValueError:
        default = "..."
    return _value(parameter.type, parameter.name, default, kw_only=parameter.kw_only)


def _value(
    type_: SchemaType, name: str, default: str | None = None, *, kw_only: bool = False
) -> Value:
    alias = alias_of(type_)
    sets = () if alias is None else (*alias.before, *alias.after)
    written = alias is not None and alias.write
    return Value(format_type(strip_alias(type_)), name, default, kw_only, sets, written)


def _repair(steps: list[Step], root: Path) -> Repair:
    main = next((step for step in steps if not step.prose), steps[0])
    sites = sorted({site for step in steps for site in step.sites})
    return Repair(
        op=main.plan.op,
        does=main.plan.does,
        rules=tuple(sorted(main.plan.codes)),
        safe=all(intent.safe for intent in main.intents),
        old=contract_view(main.plan.op, main.old),
        new=tuple(contract_view(name, contract) for name, contract in main.new),
        diff=b"".join(unified_diff(dict(step.changes), root) for step in steps),
        sites=tuple(Site(relative_name(s.path, root), s.line, s.before, s.after) for s in sites),
    )


def _reason(left: Left, root: Path) -> Reason:
    told = _noted(left.finding, root, left.state.value)
    return Reason(told.state, told.code, told.name, told.path, told.line, left.reason, left.remedy)


def _noted(finding: Finding, root: Path, state: str) -> Reason:
    place = finding.position
    return Reason(
        state,
        finding.code,
        finding.name,
        relative_name(place.path, root),
        place.line,
        finding.message,
        finding.remedy,
    )
