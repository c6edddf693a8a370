"""The functions and methods of torch.library that register something, and their parameters.

Signatures are those of torch 2.13, together with the older ones it still takes.
"""

from __future__ import annotations

import ast

from opscaffold.records import dataclass
from opscaffold.source.model import Role

# `from torch.library import *` binds these (torch.library.__all__).
EXPORTS = frozenset(
    {
        "Library",
        "custom_op",
        "define",
        "get_ctx",
        "get_kernel",
        "impl",
        "impl_abstract",
        "infer_schema",
        "register_autocast",
        "register_fake",
        "register_torch_dispatch",
        "register_vmap",
        "triton_op",
        "wrap_triton",
    }
)

LIBRARY = "torch.library.Library"
INFER_SCHEMA = frozenset(
    {
        "torch.library.infer_schema",
        "torch._library.infer_schema.infer_schema",
        # Where older releases have it.
        "torch._library.custom_ops.infer_schema",
        "torch._custom_op.impl.infer_schema",
    }
)
SCOPED_LIBRARY = "torch.library._scoped_library"


@dataclass(frozen=True, slots=True)
class Api:
    """One registering callable: its positional parameters, in order, and what they mean.

    ``operand`` is the parameter that says which op (a name, or the op itself), ``function``
    the one that takes the kernel, fake, ...; where the call leaves it out, the callable gives
    back a decorator.
    """

    role: Role
    positional: tuple[str, ...]
    operand: str | None = None
    function: str | None = None


_CUSTOM_OP = Api(Role.CUSTOM_OP, ("name", "fn"), "name", "fn")
_TRITON_OP = Api(Role.TRITON_OP, ("name", "fn"), "name", "fn")
_FAKE = Api(Role.FAKE, ("op", "func"), "op", "func")

FUNCTIONS = {
    "torch.library.custom_op": _CUSTOM_OP,
    "torch._library.custom_ops.custom_op": _CUSTOM_OP,
    "torch.library.triton_op": _TRITON_OP,
    "torch._library.triton_op": _TRITON_OP,
    "torch._library.triton.triton_op": _TRITON_OP,
    "torch.library.define": Api(Role.DEFINE, ("qualname", "schema"), "qualname"),
    "torch.library.impl": Api(Role.IMPL, ("qualname", "types", "func"), "qualname", "func"),
    "torch.library.register_fake": _FAKE,
    "torch.library.impl_abstract": Api(Role.FAKE, ("qualname", "func"), "qualname", "func"),
    "torch.library.register_kernel": Api(Role.KERNEL, ("op", "device_types", "func"), "op", "func"),
    "torch.library.register_autograd": Api(Role.AUTOGRAD, ("op", "backward"), "op", "backward"),
    "torch.library.register_vmap": Api(Role.VMAP, ("op", "func"), "op", "func"),
    "torch.library.register_autocast": Api(
        Role.AUTOCAST, ("op", "device_type", "cast_inputs"), "op"
    ),
    "torch.library.register_torch_dispatch": Api(
        Role.TORCH_DISPATCH, ("op", "torch_dispatch_class", "func"), "op", "func"
    ),
}

# The forms that take a Library object first: define(lib, schema), impl(lib, name, key).
LEGACY = {
    Role.DEFINE: Api(Role.DEFINE, ("lib", "schema", "alias_analysis")),
    Role.IMPL: Api(Role.IMPL, ("lib", "name", "dispatch_key"), "name", "fn"),
}

OP_METHODS = {
    "register_fake": Api(Role.FAKE, ("fn",), function="fn"),
    "register_kernel": Api(Role.KERNEL, ("device_types", "fn"), function="fn"),
    "register_autograd": Api(Role.AUTOGRAD, ("backward",), function="backward"),
    "register_vmap": Api(Role.VMAP, ("func",), function="func"),
    "register_autocast": Api(Role.AUTOCAST, ("device_type", "cast_inputs")),
    "register_torch_dispatch": Api(
        Role.TORCH_DISPATCH, ("torch_dispatch_class", "fn"), function="fn"
    ),
}

LIBRARY_METHODS = {
    "define": Api(Role.DEFINE, ("schema", "alias_analysis")),
    "impl": Api(Role.IMPL, ("op_name", "fn", "dispatch_key"), "op_name", "fn"),
    "_register_fake": Api(Role.FAKE, ("op_name", "fn"), "op_name", "fn"),
    "_register_torch_dispatch_rule": Api(
        Role.TORCH_DISPATCH, ("op_name", "torch_dispatch_class", "fn"), "op_name", "fn"
    ),
}

API_WORDS = frozenset(
    {name.rpartition(".")[2] for name in (*FUNCTIONS, *INFER_SCHEMA, LIBRARY, SCOPED_LIBRARY)}
    | OP_METHODS.keys()
    | LIBRARY_METHODS.keys()
)
"""The names that whatever registers something is written with, or with one bound to it."""

DEFINING = frozenset({Role.CUSTOM_OP, Role.TRITON_OP, Role.DEFINE})


def bind(call: ast.Call, positional: tuple[str, ...]) -> dict[str, ast.expr]:
    """Return the arguments of a call by parameter name.

    What stands behind a star argument cannot be told and is left out.
    """
    arguments: dict[str, ast.expr] = {}
    for name, value in zip(positional, call.args, strict=False):
        if isinstance(value, ast.Starred):
            break
        arguments[name] = value
    arguments.update({k.arg: k.value for k in call.keywords if k.arg is not None})
    return arguments
