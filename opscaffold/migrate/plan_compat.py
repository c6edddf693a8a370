"""Keeping a split op callable under its old name, for callers out of sight."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator, Sequence

import libcst as cst

from opscaffold.findings.intents import KeepCallable
from opscaffold.findings.model import Finding, Position, Severity
from opscaffold.migrate.bindings import Bindings
from opscaffold.migrate.definition import torch_import
from opscaffold.migrate.edits import FileEdits, Template
from opscaffold.migrate.plan import Context, OpPlan
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.split_names import Namer
from opscaffold.rules.notices import OLD_NAME
from opscaffold.source.model import Form, Op, Reference, Use

CODE, NAME = OLD_NAME.code, OLD_NAME.name


def keep_callable(plans: Sequence[OpPlan]) -> Iterator[Finding]:
    """One finding for each split op whose old name is still to be kept callable."""
    kept = {plan.op for plan in plans if CODE in plan.codes}
    for plan in plans:
        if plan.keeps is not None and plan.op not in kept:
            yield Finding(
                CODE,
                NAME,
                Severity.INFO,
                Position(min(plan.edits), 1, 1),
                f"callers out of sight may call `{plan.keeps.name}` with `{plan.keeps.buffer}`",
                plan.op,
                "keep a function under that name",
                intent=plan.keeps,
            )


def plan_compat(context: Context, op: Op, findings: Sequence[Finding]) -> OpPlan:
    """Give the functional op another name, and its old name to a function that chooses.

    Raises RefusalError where a use of the op's object cannot be told from a call.
    """
    intent = findings[0].intent
    if not isinstance(intent, KeepCallable):
        raise TypeError("this finding intends another repair")
    definition, module = op.definition, op.definition.module
    out = next((o for o in context.project.all_ops if o.qualname == intent.out_op), None)
    function = definition.function
    if out is None or out.definition.module is not module or function is None:
        raise RefusalError(definition.statement, "its mutable half is not in sight", "write it")
    plan = OpPlan(op.qualname, f"kept callable as `{intent.name}`")
    fresh = Namer(context, op).free(_anchor(definition.statement, function), f"{intent.name}_fresh")
    syntax = context.syntaxes.of(module)
    edits = plan.edits_for(module)
    if definition.form is Form.DECORATOR:
        node = syntax.find(function, cst.FunctionDef)
        edits.statements[syntax.key(function)] = [node.with_changes(name=cst.Name(fresh))]
    else:
        _rename_target(definition.statement, syntax.key, edits, fresh)
    root = torch_import(module, _anchor(definition.statement, function))
    edits.import_torch = context.options.deprecate and root is None
    wrapper = _wrapper(intent, fresh, context.options.deprecate and (root or "torch"))
    blank = [cst.EmptyLine(indent=False)] * (1 if definition.statement.col_offset else 2)
    place = out.definition.function if out.definition.form is Form.DECORATOR else None
    edits.behind.setdefault(syntax.key(place or out.definition.statement), []).append(
        wrapper.with_changes(leading_lines=blank)
    )
    bindings = Bindings(context.project, op, fresh, op.qualname, context.syntaxes)
    for reference in context.project.references(op):
        if _means_the_object(reference) and isinstance(reference.node, ast.expr):
            text = bindings.expression(reference)
            key = context.syntaxes.of(reference.module).key(reference.node)
            plan.edits_for(reference.module).expressions[key] = Template(text)
    plan.take(bindings.edits)
    return plan


def _anchor(statement: ast.stmt, function: ast.AST) -> ast.FunctionDef:
    node = function if isinstance(function, ast.FunctionDef) else statement
    if not isinstance(node, ast.FunctionDef):
        raise RefusalError(statement, "its kernel is not a plain function in sight", "write it")
    return node


def _rename_target(statement: ast.stmt, key: object, edits: FileEdits, fresh: str) -> None:
    if not isinstance(statement, ast.Assign) or not callable(key):
        raise RefusalError(statement, "the op is not assigned to one plain name", "write it")
    edits.expressions[key(statement.targets[0])] = Template(fresh)


def _means_the_object(reference: Reference) -> bool:
    """Whether a use needs the op itself, where a function of its name would not do."""
    if reference.torch_ops or isinstance(reference.node, ast.Constant):
        return False
    if reference.use in (Use.REGISTRATION, Use.ATTRIBUTE):
        return True
    parent = reference.module.parents.get(reference.node)
    handed = isinstance(parent, ast.Call) and parent.func is not reference.node
    tests = ast.unparse(parent.func) if handed and isinstance(parent, ast.Call) else ""
    return "opcheck" in tests


def _wrapper(intent: KeepCallable, fresh: str, torch: str | bool) -> cst.FunctionDef:
    """The function; ``torch`` is the name of torch where it is to warn."""
    tree = ast.parse(f"def f{intent.head}:\n    pass\n").body[0]
    if not isinstance(tree, ast.FunctionDef):
        raise TypeError("a head is the head of a function")
    spec = tree.args
    positional = [a.arg for a in spec.args if a.arg != intent.buffer]
    keywords = [f"{a.arg}={a.arg}" for a in spec.kwonlyargs if a.arg != intent.buffer]
    given = [*positional, *keywords]
    if intent.index is None:
        with_buffer = [*given, f"{intent.buffer}={intent.buffer}"]
    else:
        with_buffer = [*given[: intent.index], intent.buffer, *given[intent.index :]]
    call = f"{intent.out_name}({', '.join(with_buffer)})"
    last = f"return {call}" if intent.index is None else f"{call}\nreturn {intent.buffer}"
    test, chosen = f"{intent.buffer} is None", "a buffer is given"
    if intent.flag is not None:
        test = f"not {intent.buffer}" if intent.flag else intent.buffer
        chosen = f"{intent.buffer} is {intent.flag}"
        call = f"{intent.out_name}({', '.join(given)})"
        last = f"{call}\nreturn {intent.written}" if intent.written else f"return {call}"
    warning = ""
    if torch:
        warning = textwrap.dedent(f"""\
            if not {torch}.compiler.is_compiling():
                import warnings

                warnings.warn(
                    "{intent.buffer}= is deprecated here: call {intent.out_name}",
                    DeprecationWarning,
                    stacklevel=2,
                )
            """)
    body = (
        f'"""Call {fresh}, or {intent.out_name} where {chosen}."""\n'
        f"if {test}:\n    return {fresh}({', '.join(given)})\n{warning}{last}\n"
    )
    text = f"def {intent.name}{intent.head}:\n{textwrap.indent(body, '    ')}"
    return cst.ensure_type(cst.parse_statement(text), cst.FunctionDef)
