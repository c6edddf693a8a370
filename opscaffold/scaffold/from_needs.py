"""What a function needs around it, and whether it can be copied with that.

Copied is what needs nothing of its project but its own module: packages from elsewhere, helper
functions and constants. What needs other modules of the project is imported from its own. What
reads state that outlives a call is neither: PyTorch sees arguments and results alone.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from opscaffold.effects.fake_kinds import is_constant
from opscaffold.effects.trace import OuterKind
from opscaffold.scaffold.from_error import FromError
from opscaffold.scaffold.from_names import Bindings, bindings_of, free_names
from opscaffold.scaffold.from_origin import Origin

_LINE_END = re.compile(r"\r\n|\r|\n")
# Give the same for the same, and keep nothing.
_PURE = ("math.", "torch.finfo", "torch.iinfo", "torch.device", "torch.Size", "typing.TypeVar")
_BUILT = frozenset({"float", "int", "bool", "str", "tuple", "frozenset", "complex", "len"})
_SURROUNDINGS = ("os.environ", "os.getenv", "random.", "numpy.random.", "time.", "sys.argv")
_RANDOM = frozenset(
    {"rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "normal"}
    | {"bernoulli", "multinomial", "poisson", "binomial", "dropout", "dropout1d", "dropout2d"}
    | {"dropout3d", "alpha_dropout", "feature_alpha_dropout", "rrelu", "gumbel_softmax"}
    | {"normal_", "uniform_", "random_", "bernoulli_", "exponential_", "geometric_", "cauchy_"}
    | {"log_normal_", "manual_seed", "seed"}
)


@dataclass(slots=True)
class Needs:
    """What was found. ``foreign`` are the reasons why the text cannot stand by itself."""

    statements: dict[ast.stmt, None] = field(default_factory=dict)
    imports: dict[str, str] = field(default_factory=dict)
    foreign: list[str] = field(default_factory=list)

    def constants(self) -> set[str]:
        """The names that assignments bind: what was found stands for the same for good."""
        return {
            node.id
            for statement in self.statements
            if isinstance(statement, ast.Assign | ast.AnnAssign)
            for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }


def needs_of(origin: Origin, function: ast.FunctionDef) -> Needs:
    """Follow every name that a function reads. Raises FromError for state and for chance."""
    found = Needs()
    _Follower(origin, bindings_of(origin.module.tree), found).take(function)
    return found


@dataclass(slots=True)
class _Follower:
    origin: Origin
    bindings: Bindings
    found: Needs

    def take(self, node: ast.stmt) -> None:
        """Take a definition of the module, and all that it reads."""
        if node in self.found.statements:
            return
        self.found.statements[node] = None
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.refuse_chance(node)
            self.imports_within(node)
        for name, use in free_names(node).items():
            self.name(name, use)

    def name(self, name: str, use: ast.Name) -> None:
        statements = self.bindings.of(name)
        if statements is None:
            return
        if not statements:
            if self.bindings.starred:
                self.found.foreign.append(f"{name} comes from an import of *")
                return
            raise FromError(
                self.origin.shown,
                use,
                f"{name} is defined nowhere in the module",
                "import or define it there",
            )
        first = statements[0]
        changed = isinstance(first, ast.Assign | ast.AnnAssign) and name in self.bindings.changed
        if len(statements) > 1 or changed:
            where = self.bindings.changed.get(name, statements[-1])
            self.refuse_state(name, use, where)
        if isinstance(first, ast.Import | ast.ImportFrom):
            self.imported(name, first)
        elif isinstance(first, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            self.take(first)
        elif isinstance(first, ast.Assign | ast.AnnAssign):
            self.constant(name, use, first)
        elif isinstance(first, ast.Try | ast.If) and _only_imports(first):
            self.take(first)
        else:
            self.found.foreign.append(f"{name} is bound under a condition")

    def imports_within(self, definition: ast.stmt) -> None:
        """Note the imports of the project's own modules that a definition makes when it runs."""
        for node in ast.walk(definition):
            if isinstance(node, ast.ImportFrom) and (
                node.level or self.origin.is_own(node.module or "")
            ):
                module = f"{'.' * node.level}{node.module or ''}"
                self.found.foreign.append(f"it imports from {module}, of the same project")
            elif isinstance(node, ast.Import):
                own = [a.name for a in node.names if self.origin.is_own(a.name)]
                self.found.foreign += [f"it imports {n}, of the same project" for n in own]

    def imported(self, name: str, statement: ast.Import | ast.ImportFrom) -> None:
        alias = next(a for a in statement.names if (a.asname or a.name.partition(".")[0]) == name)
        if isinstance(statement, ast.ImportFrom):
            module = f"{'.' * statement.level}{statement.module or ''}"
            text = f"from {module} import {alias.name}"
            if statement.level or self.in_tree(statement, alias):
                self.found.foreign.append(f"{name} is imported from {module}, of the same project")
                return
        else:
            text = f"import {alias.name}"
            if self.in_tree(statement, alias):
                self.found.foreign.append(f"{alias.name} is a module of the same project")
                return
        text += f" as {alias.asname}" if alias.asname else ""
        self.found.imports[text] = name

    def in_tree(self, statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> bool:
        """Whether an import is of the project that the file belongs to."""
        module = getattr(statement, "module", None) or alias.name
        return self.origin.is_own(module)

    def constant(self, name: str, use: ast.Name, statement: ast.Assign | ast.AnnAssign) -> None:
        value = statement.value
        outer = self.origin.names.outer(use)
        if outer is not None and outer.kind is OuterKind.TENSOR:
            self.refuse_state(name, use, statement, "a Tensor that lasts from call to call")
        if value is None or not self.is_settled(value):
            self.refuse_state(name, use, statement)
        self.take(statement)

    def is_settled(self, value: ast.expr) -> bool:
        """Whether an expression at module level stands for the same for good."""
        if is_constant(value):
            return True
        dotted = self.origin.names.dotted
        match value:
            case ast.Name() | ast.Attribute():
                return True
            case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts):
                return all(self.is_settled(p) for p in parts)
            case ast.Dict(keys=keys, values=values):
                return all(p is None or self.is_settled(p) for p in [*keys, *values])
            case ast.BinOp(left=left, right=right):
                return self.is_settled(left) and self.is_settled(right)
            case ast.UnaryOp(operand=operand):
                return self.is_settled(operand)
            case ast.Subscript(value=owner, slice=index):
                return self.is_settled(owner) and self.is_settled(index)
            case ast.Call(func=func, args=args, keywords=keywords):
                name = dotted(func) or ""
                pure = name.startswith(_PURE) or name.removeprefix("builtins.") in _BUILT
                return pure and all(
                    self.is_settled(a) for a in [*args, *(k.value for k in keywords)]
                )
        return False

    def refuse_state(
        self, name: str, use: ast.AST, where: ast.AST, what: str = "state of its module"
    ) -> None:
        raise FromError(
            self.origin.shown,
            use,
            f"it reads {name}, {what}, which PyTorch would not see change",
            f"pass {name} as an argument",
            [self.origin.place(where, f"{name} is bound or changed here")],
        )

    def refuse_chance(self, node: ast.AST) -> None:
        """Raise FromError for what gives another result at each call, or asks the surroundings."""
        for inner in ast.walk(node):
            if not isinstance(inner, ast.Attribute | ast.Name):
                continue
            dotted = self.origin.names.dotted(inner) or ""
            if dotted.startswith(_SURROUNDINGS):
                raise FromError(
                    self.origin.shown,
                    inner,
                    f"it reads {dotted}, which is no argument",
                    "read it outside and pass it in",
                )
        for call in ast.walk(node):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr in _RANDOM and not _is_off(call):
                raise FromError(
                    self.origin.shown,
                    call,
                    f"{ast.unparse(call.func)} draws random numbers, and no test could tell a "
                    "wrong result from another draw",
                    "draw them outside and pass them in as a Tensor",
                )


def _is_off(call: ast.Call) -> bool:
    """Whether a call of dropout says that nothing is dropped."""
    return any(
        k.arg == "training" and isinstance(k.value, ast.Constant) and k.value.value is False
        for k in call.keywords
    )


def _only_imports(node: ast.Try | ast.If) -> bool:
    """Whether a compound statement imports and sets constants, and nothing else."""
    parts = [node.body, node.orelse]
    if isinstance(node, ast.Try):
        parts += [node.finalbody, *(h.body for h in node.handlers)]
    return all(
        isinstance(s, ast.Import | ast.Pass)
        or (isinstance(s, ast.ImportFrom) and not s.level)
        or (isinstance(s, ast.Assign) and is_constant(s.value))
        for part in parts
        for s in part
    )


def copied_text(origin: Origin, needs: Needs) -> str:
    """The text of all that was found, as it stands, with the comments above each part."""
    lines = _LINE_END.split(origin.module.source.text)
    heads = ["from __future__ import annotations"] if origin.postponed else []
    imports = sorted(needs.imports, key=lambda text: (text.startswith("from "), text))
    blocks = ["\n".join(heads)] if heads else []
    blocks += ["\n".join(imports)] if imports else []
    text = "\n\n".join(blocks)
    ordered = sorted(needs.statements, key=lambda s: s.lineno)
    before: ast.stmt | None = None
    for statement in ordered:
        part = _text_of(origin, lines, statement)
        plain = isinstance(statement, ast.Assign | ast.AnnAssign)
        joined = plain and isinstance(before, ast.Assign | ast.AnnAssign)
        gap = "\n" if joined else "\n\n" if plain or not text else "\n\n\n"
        text = f"{text}{gap}{part}" if text else part
        before = statement
    return f"{text}\n"


def _text_of(origin: Origin, lines: list[str], statement: ast.stmt) -> str:
    decorators = getattr(statement, "decorator_list", [])
    start = min([statement.lineno, *(d.lineno for d in decorators)]) - 1
    end = statement.end_lineno or statement.lineno
    shared = [s for s in origin.module.tree.body if s is not statement and _on(s, start + 1, end)]
    if shared:
        return ast.get_source_segment(origin.module.source.text, statement) or ast.unparse(
            statement
        )
    while start > 0 and lines[start - 1].startswith("#") and not lines[start - 1].startswith("#!"):
        start -= 1
    return "\n".join(lines[start:end])


def _on(statement: ast.stmt, first: int, last: int) -> bool:
    return statement.lineno <= last and (statement.end_lineno or statement.lineno) >= first
