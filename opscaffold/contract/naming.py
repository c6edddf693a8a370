"""Which names an op, its namespace, its parameters and its package can have, and what they become.

Every validator returns the reason why a name cannot be used, or None. They refuse all that could
break out of generated code or of the target directory.
"""

from __future__ import annotations

import enum
import keyword
import re
import sys

from opscaffold.contract.hazards import Hazard, overload_hazards
from opscaffold.contract.lexer import RESERVED_WORDS
from opscaffold.contract.model import OpContract
from opscaffold.contract.releases import Release
from opscaffold.contract.schema_types import words

# Registered by PyTorch itself, or an attribute of torch.ops: an op there could clash or not be
# reachable. ``aten::`` and ``torch::`` are accepted by custom_op, which makes them worse.
RESERVED_NAMESPACES = words(
    "_c10d_functional _c10d_functional_autograd _dir _dtensor _native _quantized _test aten prim "
    "prims torch c10 c10d c10d_functional caffe2 cuda debug_mode_ops debugprims dtensor export "
    "fsdp higher_order import_module inductor inductor_prims load_library loaded_libraries mkl "
    "mkldnn mkldnn_prepacked onednn onnx prepacked profiler quantization quantized "
    "quantized_decomposed rngprims sparse static_runtime streams symm_mem xnnpack"
)

# Attributes of every torch.ops namespace: an op of that name cannot be reached or even defined.
RESERVED_OP_NAMES = frozenset({"name"})

# Names that generated code and annotations rely on.
SHADOWING_NAMES = words(
    "torch Tensor typing annotations collections functools opscaffold int float bool str list "
    "tuple dict set object type len range zip all any isinstance enumerate print super property "
    "staticmethod sorted"
)

MAX_NAME = 100


class OutNaming(enum.Enum):
    """How an out= op is named: ``ns::foo_out``, or the overload ``ns::foo.out``."""

    FLAT = "flat"
    OVERLOAD = "overload"


def validate_op_name(name: str) -> str | None:
    """Why ``name`` cannot name an op (without namespace and overload), or None."""
    return (
        _identifier(name, "the name of an op")
        or (f"{name!r} is kept by torch.ops for itself" if name in RESERVED_OP_NAMES else None)
        or _private(name, "torch.ops keeps names that start with '__' or '_dir' for itself")
        or _shadows(name)
    )


def validate_overload_name(name: str) -> str | None:
    """Why ``name`` cannot name an overload, or None. Empty is the default overload."""
    if not name:
        return None
    if name == "default" or name.startswith("__"):
        return f"PyTorch keeps the overload name {name!r} for itself"
    return _identifier(name, "an overload name")


def validate_namespace(name: str) -> str | None:
    """Why ``name`` cannot be the namespace of a user's ops, or None."""
    if name in RESERVED_NAMESPACES:
        return f"{name!r} is a namespace of PyTorch itself; choose one of your own"
    return _identifier(name, "a namespace") or _private(
        name, "torch.ops keeps names that start with an underscore pair for itself"
    )


def validate_parameter_name(name: str) -> str | None:
    """Why ``name`` cannot name an argument of an op, or None."""
    return (
        _identifier(name, "the name of an argument")
        or _private(name, "a name that starts with '__' is kept for Python and PyTorch")
        or _shadows(name)
    )


def validate_package_name(name: str) -> str | None:
    """Why ``name`` cannot name a distribution, or None. Its module is ``module_name(name)``."""
    if not name:
        return "a package needs a name"
    if len(name) > MAX_NAME:
        return f"a package name has at most {MAX_NAME} characters"
    if not re.fullmatch(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?", name):
        return (
            f"{name!r} is no package name: use letters, digits and single '-' or '_' between them"
        )
    return validate_module_name(module_name(name))


def validate_module_name(name: str) -> str | None:
    """Why ``name`` cannot be the import package's name, or None."""
    if name in sys.stdlib_module_names:
        return f"a package named {name!r} would hide Python's own module"
    if name.lower() in ("torch", "numpy", "test", "tests", "src", "opscaffold"):
        return f"a package named {name!r} would hide one that its code or tests need"
    return _identifier(name, "the name of a module")


def module_name(package: str) -> str:
    """The import package of a distribution: ``my-ops`` gives ``my_ops``."""
    return re.sub(r"[-_.]+", "_", package).lower()


def split_qualname(qualname: str) -> tuple[str, str, str] | None:
    """``(namespace, name, overload)`` of ``ns::name.overload``, or None where it is none."""
    match = re.fullmatch(r"([^:.]+)::([^:.]+)(?:\.([^:.]+))?", qualname)
    return None if match is None else (match[1], match[2], match[3] or "")


def out_qualname(functional: OpContract, style: OutNaming = OutNaming.FLAT) -> tuple[str, str]:
    """``(name, overload)`` of the out= op of ``functional`` in that style."""
    if style is OutNaming.OVERLOAD:
        return functional.name, "out"
    return f"{functional.name}_out", ""


def overload_refusal(
    functional: OpContract, out: OpContract, release: Release
) -> tuple[list[Hazard], list[Hazard]]:
    """The naming policy for ``ns::foo.out``: ``(refusals, warnings)``.

    The overload form may be used only where there is no refusal. What cannot be excluded by
    looking at the signature is a warning, to be said aloud.
    """
    hazards = overload_hazards(functional, out, release)
    return [h for h in hazards if not h.unavoidable], [h for h in hazards if h.unavoidable]


def _identifier(name: str, what: str) -> str | None:
    if not name:
        return f"{what} cannot be empty"
    if len(name) > MAX_NAME:
        return f"{what} has at most {MAX_NAME} characters"
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return f"{name!r} cannot be {what}: use ASCII letters, digits and '_', no digit first"
    if keyword.iskeyword(name) or name in RESERVED_WORDS:
        return f"{name!r} is a keyword and cannot be {what}"
    if not name.strip("_"):
        return f"{name!r} cannot be {what}: it says nothing, and generated code uses it"
    return None


def _private(name: str, reason: str) -> str | None:
    return f"{name!r} cannot be used: {reason}" if name.startswith(("__", "_dir")) else None


def _shadows(name: str) -> str | None:
    if name in SHADOWING_NAMES:
        return f"{name!r} would hide what the code of an op needs under that name"
    return None
