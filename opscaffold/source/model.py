"""What reading a source tree yields: modules, ops with their registrations, references to ops."""

from __future__ import annotations

import ast
import enum
from pathlib import Path

from opscaffold.fs.text import SourceText
from opscaffold.records import dataclass, field

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(slots=True, eq=False)
class Module:
    """One parsed Python file.

    ``name`` is the dotted module name as far as packages on disk tell; ``parents`` maps every
    node (operators and contexts aside) to the node that holds it, outer nodes first. Positions
    of nodes are those of ``source.text``.
    """

    path: Path
    name: str
    source: SourceText
    tree: ast.Module
    parents: dict[ast.AST, ast.AST]


class Form(enum.Enum):
    """How a registration is written."""

    DECORATOR = "decorator"
    CALL = "call"
    CURRIED = "curried call"
    LIBRARY = "Library method"
    FUNCTION = "torch.library function"
    HELPER = "project helper"


class Role(enum.Enum):
    """What a registration gives the op."""

    CUSTOM_OP = "custom_op"
    TRITON_OP = "triton_op"
    DEFINE = "define"
    IMPL = "impl"
    FAKE = "register_fake"
    KERNEL = "register_kernel"
    AUTOGRAD = "register_autograd"
    VMAP = "register_vmap"
    AUTOCAST = "register_autocast"
    TORCH_DISPATCH = "register_torch_dispatch"


@dataclass(slots=True, eq=False)
class Registration:
    """One place that registers something for one op.

    ``qualname`` is ``ns::name[.overload]``, or None where the name is computed; ``name_hint`` is
    then what is known of it. ``call`` is the registering call (``custom_op(...)``,
    ``op.register_fake`` called on a function; None for a bare decorator such as
    ``@op.register_fake``). ``function`` is the kernel, fake, ... as written: a function
    definition or a lambda; None where it is not in sight. ``statement`` is the statement that
    holds it all (the decorated definition, or the expression or assignment statement).
    ``schema`` is a literal schema string, ``mutates`` the literal names of ``mutates_args``
    ("unknown" as such), None where absent or not literal. ``conditional`` says that the
    statement stands under an if, try, loop or function: it may not run, or run more than once.

    ``keywords`` are the keyword arguments as written, ``arguments`` all of them by parameter
    name, positional ones included. ``operand`` is what names the op: the string, or the op
    itself. ``function_module`` is where ``function`` is defined. ``fallback`` says that the
    registering name is torch's on some path only (a version fallback). ``helper`` is the project
    function that registers, where form is HELPER and it can be read. ``result`` is the node
    whose value is the op: the decorated definition, or the outermost registering call.
    ``decorator`` is a project helper that is put on a definition, as written. ``settled`` holds
    what each argument stands for, as far as that can be followed, with the module it stands in.
    ``declined`` are the roles that the helper can register and, as it is called here, does not.
    """

    role: Role
    form: Form
    module: Module
    statement: ast.stmt
    qualname: str | None
    name_hint: str
    call: ast.Call | None = None
    function: FunctionNode | ast.Lambda | None = None
    schema: str | None = None
    mutates: tuple[str, ...] | str | None = None
    keywords: dict[str, ast.expr] = field(default_factory=dict)
    conditional: bool = False
    arguments: dict[str, ast.expr] = field(default_factory=dict)
    operand: ast.expr | None = None
    function_module: Module | None = None
    fallback: bool = False
    helper: FunctionNode | None = None
    result: ast.AST | None = None
    decorator: ast.expr | None = None
    settled: dict[str, tuple[Module, ast.expr]] = field(default_factory=dict)
    declined: frozenset[Role] = frozenset()


@dataclass(slots=True, eq=False)
class Op:
    """One registered op. ``definition`` has role CUSTOM_OP, TRITON_OP or DEFINE.

    Where the name is computed (``definition.qualname`` is None), ``qualname`` is its hint:
    ``ns::{kind}_apply``.
    """

    qualname: str
    definition: Registration
    attached: list[Registration] = field(default_factory=list)

    @property
    def namespace(self) -> str:
        """The part before ``::``."""
        return self.qualname.partition("::")[0]

    @property
    def name(self) -> str:
        """The part behind ``::``, overload included."""
        return self.qualname.partition("::")[2]


@dataclass(slots=True, eq=False)
class UnknownHelper:
    """A call that is given ``mutates_args`` like a registration, of a function not in sight.

    It comes from outside the tree, or cannot be followed: whether it registers an op is not
    known. ``name`` is the function, by its full name where that is known.
    """

    module: Module
    call: ast.Call
    name: str


class Use(enum.Enum):
    """What a reference to an op does with it."""

    CALL = "call"
    IMPORT = "import"
    EXPORT = "__all__ entry"
    REGISTRATION = "registration"
    ATTRIBUTE = "attribute"
    STRING = "name in a string"
    VALUE = "value"
    UNCERTAIN = "uncertain"


@dataclass(slots=True, eq=False)
class ImportBinding:
    """A ``from m import x [as y]`` that makes a name in one scope stand for the op.

    ``target`` is the module the import reads from when it lies in the tree, else None.
    """

    module: Module
    statement: ast.ImportFrom
    alias: ast.alias
    target: Module | None

    @property
    def local(self) -> str:
        """The name it binds."""
        return self.alias.asname or self.alias.name


@dataclass(slots=True, eq=False)
class Reference:
    """One place that denotes an op, or may.

    ``node`` is the outermost expression that denotes it (``scale``, ``ops.scale``,
    ``torch.ops.ns.scale.default``), the alias of an import, or a string constant.
    ``call`` is set for CALL: the call whose func is ``node``. ``via`` tells how the name is
    bound: the chain of from-imports from this module back to the defining one (nearest first),
    empty where the name is the definition itself. ``holder`` is set where ``node`` is an
    attribute of a module (``ops.scale``): the module the attribute is read from. ``torch_ops``
    says that the op's name stands in ``node`` as an attribute of its namespace (or as the string
    of a ``getattr``), however the namespace is reached. ``assignments`` are the assignments that
    make a name stand for the op (``f = scale``), nearest first. ``reason`` says, for UNCERTAIN,
    why.
    """

    op: Op
    module: Module
    node: ast.expr | ast.alias
    use: Use
    call: ast.Call | None = None
    via: tuple[ImportBinding, ...] = ()
    holder: Module | None = None
    torch_ops: bool = False
    reason: str = ""
    assignments: tuple[ast.AST, ...] = ()
