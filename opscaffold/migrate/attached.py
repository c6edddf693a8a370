"""The fake kernel of a split op: an existing one loses the buffer, a missing one is derived."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import libcst as cst

from opscaffold.effects.buffers import Argument, BufferUse, use_of_buffer
from opscaffold.effects.derive_fake import UnderivableError, derive_fake
from opscaffold.effects.fake_kinds import FakeKinds, constants_of
from opscaffold.effects.trace import FunctionNode
from opscaffold.migrate.bindings import Syntaxes
from opscaffold.migrate.edits import FileEdits
from opscaffold.migrate.refusal import RefusalError
from opscaffold.migrate.signature import parameter_code, without_parameter
from opscaffold.migrate.split import refuse_early_use, refuse_lost_effects, specialised
from opscaffold.migrate.syntax import code_of
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Form, Module, Op, Registration
from opscaffold.source.project import Project

_WIDTH = 88


@dataclass(frozen=True, slots=True)
class FakeEditor:
    """Takes the buffer out of the fake kernels of one op."""

    project: Project
    syntaxes: Syntaxes
    arguments: list[Argument]
    buffer: str

    def edit(self, registration: Registration, edits: dict[Module, FileEdits]) -> None:
        """Plan the change of one fake kernel. Raises RefusalError where it is not plain."""
        function = registration.function
        module = registration.function_module or registration.module
        if function is None:
            raise self._refusal(registration, "its fake kernel is not in sight")
        if isinstance(function, ast.AsyncFunctionDef):
            raise self._refusal(registration, "its fake kernel is not a plain function")
        name = self._buffer_in(function)
        if name is None:
            return
        self._refuse_shared(registration, module, function)
        renamed = [
            Argument(own, a.tensor, a.optional, a.is_list)
            for own, a in zip(_names(function), self.arguments, strict=True)
        ]
        use = self.use_of(function, renamed, name, ProjectNames(self.project, module))
        refuse_lost_effects(use, use.omitted, use.given)
        syntax = self.syntaxes.of(module)
        target = edits.setdefault(module, FileEdits())
        if isinstance(function, ast.Lambda):
            node = syntax.find(function, cst.Lambda)
            body = self.settled(specialised(syntax, node.body, use.omitted, use.given), name)
            new = node.with_changes(body=body, params=without_parameter(node.params, name))
            if name in code_words(code_of(new.body)):
                raise self._refusal(registration, f"its fake kernel needs `{name}`")
            target.lambdas[syntax.key(function)] = new
            return
        definition = syntax.find(function, cst.FunctionDef)
        body = self.settled(specialised(syntax, definition.body, use.omitted, use.given), name)
        half = definition.with_changes(body=body)
        half = half.with_changes(params=without_parameter(half.params, name))
        refuse_early_use(half, name, function)
        target.statements[syntax.key(function)] = [half]

    def use_of(
        self,
        function: FunctionNode | ast.Lambda,
        arguments: list[Argument],
        name: str,
        names: ProjectNames,
    ) -> BufferUse:
        """How a fake kernel treats the buffer."""
        return use_of_buffer(function, arguments, name, names)

    def settled(self, body: cst.CSTNode, name: str) -> cst.CSTNode:
        """A body with what is known of the buffer beside the outcome of tests."""
        del name
        return body

    def _buffer_in(self, function: FunctionNode | ast.Lambda) -> str | None:
        """The fake's own name for the buffer; None where it takes no such parameter."""
        names = _names(function)
        if self.buffer in names and len(names) == len(self.arguments):
            return self.buffer
        if len(names) == len(self.arguments):
            order = [a.name for a in self.arguments]
            return names[order.index(self.buffer)]
        if self.buffer in names or function.args.vararg or function.args.kwarg:
            raise RefusalError(
                function,
                "its fake kernel does not take the parameters of the op",
                "give the fake kernel the op's parameters",
            )
        return None

    def _refuse_shared(
        self, registration: Registration, module: Module, function: FunctionNode | ast.Lambda
    ) -> None:
        """A fake kernel that others call as well must keep its parameters."""
        if not isinstance(function, ast.FunctionDef):
            return
        loads = [
            n
            for n in ast.walk(module.tree)
            if isinstance(n, ast.Name) and n.id == function.name and isinstance(n.ctx, ast.Load)
        ]
        decorated = registration.form is Form.DECORATOR
        if len(loads) > (0 if decorated else 1) and function.name != "_":
            raise self._refusal(
                registration, f"its fake kernel `{function.name}` is used elsewhere too"
            )

    def _refusal(self, registration: Registration, reason: str) -> RefusalError:
        return RefusalError(
            registration.statement,
            reason,
            "write the fake kernel as a decorated function of its own",
            registration.module,
        )


def code_words(code: str) -> set[str]:
    """The names in a piece of code."""
    return {n.id for n in ast.walk(ast.parse(code.strip(), mode="eval")) if isinstance(n, ast.Name)}


def _names(function: FunctionNode | ast.Lambda) -> list[str]:
    spec = function.args
    return [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]


def new_fake(
    project: Project,
    op: Op,
    functional: cst.FunctionDef,
    tensors: list[str],
    name: str,
    decorator: str,
    kernel: ast.FunctionDef | None = None,
    torch: str | None = None,
) -> cst.FunctionDef:
    """Derive a fake kernel for a functional half, or for ``kernel`` as it is going to be.

    ``torch`` is the name of torch, where ``functional`` may use it and the kernel as written does
    not. Raises UnderivableError where it does not follow from metadata alone.
    """
    function, module = kernel or op.definition.function, op.definition.module
    if not isinstance(function, ast.FunctionDef):
        raise UnderivableError("the kernel is not a plain function")
    names = ProjectNames(project, module)
    origins: dict[str, str | None] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            origins.setdefault(node.id, names.dotted(node))
    if torch is not None:
        origins.setdefault(torch, "torch")

    def dotted(expr: ast.expr) -> str | None:
        if isinstance(expr, ast.Attribute):
            owner = dotted(expr.value)
            return None if owner is None else f"{owner}.{expr.attr}"
        origin = origins.get(expr.id) if isinstance(expr, ast.Name) else None
        return None if origin is None or origin.startswith("builtins.") else origin

    functions = {
        node.id: found
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and (found := _kinds_of_function(project, names, node))
    }

    def called(expr: ast.expr) -> tuple[FunctionNode, FakeKinds] | None:
        return functions.get(expr.id) if isinstance(expr, ast.Name) else None

    constants = constants_of(module.tree)
    plain = functional.with_changes(decorators=(), leading_lines=())
    kinds = FakeKinds(dotted, constants.__contains__, called)
    body = derive_fake(code_of(plain), tensors, kinds)
    head = _head(functional, name)
    text = f"@{decorator}\n{head}\n" + "".join(f"    {line}\n" for line in body)
    fake = cst.ensure_type(cst.parse_statement(text), cst.FunctionDef)
    blank = [cst.EmptyLine(indent=False)] * (1 if function.col_offset else 2)
    return fake.with_changes(leading_lines=blank)


def _kinds_of_function(
    project: Project, names: ProjectNames, node: ast.expr
) -> tuple[FunctionNode, FakeKinds] | None:
    """A function of the project with the classifier of what its names mean."""
    target = project.resolve(names.module, node).certain if isinstance(node, ast.Name) else None
    if target is None or target.module is None or not isinstance(target.node, ast.FunctionDef):
        return None
    inner = ProjectNames(project, target.module)

    def dotted(expr: ast.expr) -> str | None:
        origin = inner.dotted(expr)
        return None if origin is None or origin.startswith("builtins.") else origin

    return target.node, FakeKinds(dotted, constants_of(target.module.tree).__contains__)


def _head(functional: cst.FunctionDef, name: str) -> str:
    params = functional.params
    texts = [parameter_code(p) for p in params.params]
    if params.kwonly_params:
        texts.append("*")
        texts += [parameter_code(p) for p in params.kwonly_params]
    returns = functional.returns
    arrow = "" if returns is None else f" -> {code_of(returns.annotation)}"
    line = f"def {name}({', '.join(texts)}){arrow}:"
    if len(line) <= _WIDTH:
        return line
    return f"def {name}(\n" + "".join(f"    {t},\n" for t in texts) + f"){arrow}:"
