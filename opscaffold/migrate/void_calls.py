"""What becomes of the value of a call whose op returns nothing now: it was its own arguments."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from opscaffold.migrate.bindings import Syntaxes
from opscaffold.migrate.edits import VoidEdit
from opscaffold.migrate.evaluation import (
    FUNCTIONS,
    NESTED_SCOPES,
    enclosing,
    is_own_local,
    is_quiet,
    is_settled,
    written_order,
)
from opscaffold.migrate.hoisting import check_hoistable
from opscaffold.migrate.refusal import RefusalError
from opscaffold.source.model import Module
from opscaffold.source.project import Project

# Each read of these makes another object of a tensor.
_VIEWS = frozenset({"T", "mT", "H", "mH", "data", "real", "imag", "grad"})
_SIMPLE = (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)


class VoidCalls:
    """Plans the calls of one op. ``shown`` says that a statement's value is printed."""

    def __init__(self, project: Project, syntaxes: Syntaxes) -> None:
        self.project = project
        self.syntaxes = syntaxes
        self.hoisted: list[ast.Call] = []
        self._names: set[str] = set()

    def is_used(self, module: Module, call: ast.Call, *, shown: bool = False) -> bool:
        """Whether anything is done with the value of a call."""
        return shown or not isinstance(module.parents[call], ast.Expr)

    def plan(
        self,
        module: Module,
        call: ast.Call,
        values: Sequence[ast.expr],
        *,
        many: bool = False,
        choice: str | None = None,
        shown: bool = False,
    ) -> VoidEdit | None:
        """What becomes of a call whose value was ``values``, a tuple of them where ``many``.

        ``choice`` is given where only one of two calls at run time is the one that returns
        nothing: the name that the buffer has by then, empty where it is a name already. Returns
        None where nothing is done with the value. Raises RefusalError where the call cannot be
        written as a statement.
        """
        if not self.is_used(module, call, shown=shown):
            return None
        whole = _is_whole(module, call)
        if choice is None or not whole:
            statement = check_hoistable(self.project, module, call, self.hoisted)
        else:
            statement = _statement_of(module, call)
        name = ""
        if choice is not None:
            self._refuse_rebinding(module, call, values)
            name = "" if whole else self._result_name(module, call)
        syntax = self.syntaxes.of(module)
        order = written_order(call)
        bound: list[tuple[int, str, bool]] = []
        texts: list[str] = []
        for value in values:
            text = choice or self._text(module, call, value)
            if text is None:
                named = next((n for i, n, _ in bound if order[i] is value), None)
                text = named or self._argument_name(module, call)
                if named is None:
                    first = _may_be_bound_first(module, call, value)
                    bound.append((order.index(value), text, first))
            texts.append(text)
        self.hoisted.append(call)
        picked = self._picked(module, call, len(texts)) if many and not name else None
        outer = module.parents[call] if picked is not None else None
        return VoidEdit(
            statement=_start(syntax.key(statement)),
            values=tuple(texts),
            many=many,
            bound=tuple(bound),
            picked=None if outer is None or picked is None else (syntax.key(outer), picked),
            kept=self._kept(module, call, statement, texts, many=many),
            name=name,
        )

    def _refuse_rebinding(self, module: Module, call: ast.Call, values: Sequence[ast.expr]) -> None:
        """What a name stands for is read again behind the call that it was passed to."""
        for value in values:
            if not isinstance(value, ast.Name):
                continue
            if not is_settled(self.project, module, call, value.id):
                raise RefusalError(
                    call,
                    f"which of the two ops is called is not known here, and `{value.id}` may be "
                    "bound again while the arguments are evaluated",
                    "assign it to a local name first, and pass the name",
                )

    def _text(self, module: Module, call: ast.Call, value: ast.expr) -> str | None:
        """What denotes the object of an argument again behind the call, None where nothing does."""
        if isinstance(value, ast.NamedExpr):
            value = value.target
        elif not self._is_steady(module, call, value):
            return None
        return ast.unparse(value)

    def _is_steady(self, module: Module, call: ast.Call, value: ast.expr) -> bool:
        if isinstance(value, ast.Name):
            statement = call
            while not isinstance(statement, ast.stmt):
                statement = module.parents[statement]  # type: ignore[assignment]
            walrus = {n.target.id for n in ast.walk(statement) if isinstance(n, ast.NamedExpr)}
            return value.id not in walrus and is_settled(self.project, module, call, value.id)
        if not isinstance(value, ast.Attribute) or value.attr in _VIEWS:
            return False
        quiet = all(is_quiet(a) for a in written_order(call))
        return (
            quiet
            and not self._is_computed(value.attr)
            and self._is_steady(module, call, value.value)
        )

    def _is_computed(self, attribute: str) -> bool:
        """Whether a class anywhere may compute an attribute of this name at each read."""
        text = f"def {attribute}".encode()
        paths = [p for p in self.project.files if text in (self.project.read(p) or b"")]
        return any(
            isinstance(node, ast.FunctionDef)
            and node.name == attribute
            and (node.decorator_list or attribute == "__setattr__")
            for module in map(self.project.module_for, paths)
            if module is not None
            for node in ast.walk(module.tree)
        )

    def _argument_name(self, module: Module, call: ast.Call) -> str:
        """A name to bind an argument to, in the call or in front of it."""
        owner = enclosing(module, call, (*FUNCTIONS, *NESTED_SCOPES))
        return self._free_name(module, call, owner, "argument", ("buffer", "out_buffer"))

    def _result_name(self, module: Module, call: ast.Call) -> str:
        """A name for the value of a call, bound in front of the statement that it stands in."""
        statement = _statement_of(module, call)
        owner = enclosing(module, statement, (*FUNCTIONS, *NESTED_SCOPES))
        return self._free_name(module, call, owner, "result", ("result", "op_result"))

    def _free_name(
        self,
        module: Module,
        call: ast.Call,
        owner: ast.AST | None,
        what: str,
        wanted: tuple[str, str],
    ) -> str:
        if isinstance(owner, NESTED_SCOPES):
            raise RefusalError(
                call,
                f"the op returns nothing now, and its {what} cannot be given a name here",
                f"assign the {what} to a name outside, and use the name",
            )
        taken = self.project.bindings_in_scope(module, call) | self._names
        around = module.tree if owner is None else owner
        taken |= {n.id for n in ast.walk(around) if isinstance(n, ast.Name)}
        names = (*wanted, *(f"{wanted[0]}_{n}" for n in range(2, len(taken) + 4)))
        name = next(n for n in names if n not in taken)
        self._names.add(name)
        return name

    def _picked(self, module: Module, call: ast.Call, count: int) -> int | None:
        """Which element of the tuple is taken right away."""
        match module.parents[call]:
            case ast.Subscript(value=value, slice=index, ctx=ast.Load()) if value is call:
                try:
                    number = ast.literal_eval(index)
                except ValueError:
                    return None
                if type(number) is int and -count <= number < count:
                    return number % count
        return None

    def _kept(
        self,
        module: Module,
        call: ast.Call,
        statement: ast.stmt,
        texts: Sequence[str],
        *,
        many: bool,
    ) -> tuple[int, ...] | None:
        """Which assignments of a statement still do something; None where it stays as it is."""
        if not isinstance(statement, ast.Assign) or statement.value is not call:
            return None
        if isinstance(enclosing(module, call, (*FUNCTIONS, ast.ClassDef)), ast.ClassDef):
            return None
        match statement.targets:
            case [ast.Name(id=name)] if not many:
                return () if self._is_idle(module, call, name, texts[0]) else None
            case [ast.Attribute() as target] if not many:
                same = ast.unparse(target) == texts[0] and not self._is_computed("__setattr__")
                return () if same else None
            case [ast.Tuple(elts=parts) | ast.List(elts=parts)] if many:
                if len(parts) != len(texts) or not all(isinstance(p, ast.Name) for p in parts):
                    return None
                pairs = zip(parts, texts, strict=True)
                kept = tuple(
                    i
                    for i, (part, text) in enumerate(pairs)
                    if isinstance(part, ast.Name) and not self._is_idle(module, call, part.id, text)
                )
                return kept if len(kept) < len(parts) else None
        return None

    def _is_idle(self, module: Module, call: ast.Call, name: str, text: str) -> bool:
        """Whether assigning to a name changes nothing: it has the value, or is never read."""
        if name == text:
            return True
        owner = enclosing(module, call, FUNCTIONS)
        return (
            name == "_"
            and owner is not None
            and is_own_local(module, call, name)
            and not any(
                isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
                for n in ast.walk(owner)
            )
        )


def _statement_of(module: Module, call: ast.Call) -> ast.stmt:
    node: ast.AST = call
    while not isinstance(node, ast.stmt):
        node = module.parents[node]
    return node


def _is_whole(module: Module, call: ast.Call) -> bool:
    """Whether a call is all of a statement, so that it can be written in two branches."""
    statement = module.parents[call]
    if isinstance(statement, ast.AugAssign) and not isinstance(statement.target, ast.Name):
        return False
    return isinstance(statement, _SIMPLE) and statement.value is call


def _start(key: tuple[int, int]) -> tuple[int, int]:
    return key[0], key[0] + 1


def _may_be_bound_first(module: Module, call: ast.Call, value: ast.expr) -> bool:
    """Whether an argument may be evaluated ahead of all others of a call."""
    order = written_order(call)
    before = order[: order.index(value)]
    if any(isinstance(n, ast.NamedExpr) for a in order for n in ast.walk(a)):
        return False
    return all(
        isinstance(a, ast.Constant)
        or (isinstance(a, ast.Name) and is_own_local(module, call, a.id))
        for a in before
    )
