"""The functions that are attached to an op: where they stand, and who else uses them."""

from __future__ import annotations

import ast

from opscaffold.migrate.attached_change import AnyFunction
from opscaffold.migrate.refusal import RefusalError
from opscaffold.rules.functions import function_of, is_generator
from opscaffold.rules.names import ProjectNames
from opscaffold.source.model import Form, Module, Registration
from opscaffold.source.project import Project

# Decorators that leave a function's arguments and result as they are.
_TRANSPARENT = frozenset(
    {"torch.no_grad", "torch.enable_grad", "torch.inference_mode", "torch.compiler.disable"}
    | {"torch.autograd.function.once_differentiable", "torch.compiler.allow_in_graph"}
    | {"torch.amp.custom_bwd", "torch.cuda.amp.custom_bwd", "torch.jit.unused"}
    | {"torch._dynamo.disable", "torch._dynamo.allow_in_graph", "builtins.staticmethod"}
)


class Functions:
    """Finds the functions that the registrations of one op are given."""

    def __init__(self, project: Project, registrations: list[Registration]) -> None:
        self.project = project
        self._own = {id(n) for r in registrations for n in _registering_nodes(r)}

    def given(
        self, registration: Registration, argument: ast.expr | None, what: str
    ) -> tuple[Module, AnyFunction]:
        """The function that an argument of a registration denotes (None: the decorated one).

        Raises RefusalError where it is out of sight, wrapped, or used by others as well.
        """
        function: AnyFunction | None = None
        module = registration.module
        if registration.form is Form.HELPER:
            raise self.refusal(registration, f"its {what} is registered by a helper")
        if argument is not None:
            found = function_of(self.project, registration.module, argument)
            if found is not None:
                module, function = found
        elif isinstance(registration.statement, ast.FunctionDef):
            function = registration.statement
        if function is None:
            raise self.refusal(registration, f"its {what} is not in sight")
        if is_generator(function):
            raise self.refusal(registration, f"its {what} is a generator or a coroutine")
        self._refuse_inherited(registration, module, function, what)
        self._refuse_decorated(module, function, what)
        self._refuse_shared(module, function, what)
        return module, function

    def refusal(self, registration: Registration, reason: str) -> RefusalError:
        """The refusal for a registration that cannot be followed."""
        return RefusalError(
            registration.statement,
            reason,
            "register a plain function of the same module by its name",
            registration.module,
        )

    def _refuse_inherited(
        self, registration: Registration, module: Module, function: AnyFunction, what: str
    ) -> None:
        """A method of a class with bases is called by them: that of an autograd.Function is."""
        owner = module.parents.get(function)
        if isinstance(owner, ast.ClassDef) and (owner.bases or owner.keywords):
            raise self.refusal(
                registration,
                f"its {what} is a method of `{owner.name}`, which calls it by itself as well",
            )

    def _refuse_decorated(self, module: Module, function: AnyFunction, what: str) -> None:
        names = ProjectNames(self.project, module)
        for decorator in getattr(function, "decorator_list", ()):
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            if id(decorator) in self._own or names.dotted(target) in _TRANSPARENT:
                continue
            raise RefusalError(
                decorator,
                f"`@{ast.unparse(target)}` stands on the {what}, and what it does with the "
                "arguments is not known here",
                "take the decorator off, or split the op by hand",
                module,
            )

    def _refuse_shared(self, home: Module, function: AnyFunction, what: str) -> None:
        if isinstance(function, ast.Lambda):
            return
        for module in self.project.modules:
            names = {function.name}
            for node in module.parents:
                if isinstance(node, ast.ImportFrom):
                    names |= {a.asname or a.name for a in node.names if a.name == function.name}
            for node in module.parents:
                if isinstance(node, ast.Name):
                    wanted = node.id in names and isinstance(node.ctx, ast.Load)
                else:
                    wanted = isinstance(node, ast.Attribute) and node.attr == function.name
                if not wanted or id(node) in self._own or not isinstance(node, ast.expr):
                    continue
                found = self.project.resolve(module, node)
                if any(t.node is function for t in found.targets):
                    raise RefusalError(
                        node,
                        f"the {what} `{function.name}` is used here as well, so it must keep its "
                        "arguments and results",
                        f"give the op a {what} of its own",
                        module,
                    )
        del home


def _registering_nodes(registration: Registration) -> list[ast.AST]:
    """What of the text makes a registration: uses of a function there are no others' uses."""
    statement = registration.statement
    if not isinstance(statement, ast.FunctionDef):
        return [*ast.walk(statement)] if isinstance(statement, ast.Expr | ast.Assign) else []
    call = registration.call
    decorators = statement.decorator_list
    if call is None:
        operand = registration.operand
        own = [d for d in decorators if any(n is operand for n in ast.walk(d))]
    else:
        own = [d for d in decorators if any(n is call for n in ast.walk(d))]
    return [n for d in own for n in ast.walk(d)]


def curried_function(registration: Registration) -> ast.expr | None:
    """The function in ``op.register_kernel("cuda")(fn)``."""
    match registration.statement:
        case ast.Expr(value=ast.Call(func=func, args=[argument], keywords=[])):
            if func is registration.call:
                return argument
    return None


def imports_of(module: Module, name: str) -> list[ast.alias]:
    """What a module imports from others under a name, at its top level."""
    return [
        alias
        for node in module.tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if (alias.asname or alias.name) == name
    ]
