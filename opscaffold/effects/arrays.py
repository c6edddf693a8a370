"""What numpy does to memory: the functions and methods that kernels on the CPU are written with.

Source: the numpy reference. An array made of a tensor shares the tensor's memory.
"""

from __future__ import annotations

# Give back a view of their first argument, on some inputs or on all.
_VIEWS = frozenset(
    {"reshape", "ravel", "squeeze", "transpose", "swapaxes", "moveaxis", "rollaxis", "expand_dims"}
    | {"asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "require", "broadcast_to"}
    | {"atleast_1d", "atleast_2d", "atleast_3d", "diagonal", "real", "imag", "flip", "fliplr"}
    | {"flipud", "rot90", "frombuffer", "from_dlpack", "permute_dims", "matrix_transpose"}
    | {"split", "array_split", "hsplit", "vsplit", "dsplit", "diag"}
)
# Of those, the ones that copy where the input is not already what is asked for.
_MAYBE = frozenset({"reshape", "ravel", "ascontiguousarray", "asfortranarray", "require", "real"})
# Write to their first argument.
_MUTATING = frozenset({"copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis"})
# Take where to write the result as their second, third or fourth argument.
_UNARY = frozenset(
    {"negative", "absolute", "abs", "fabs", "sqrt", "cbrt", "square", "exp", "exp2", "expm1", "log"}
    | {"log2", "log10", "log1p", "sin", "cos", "tan", "tanh", "sinh", "cosh", "arctan", "sign"}
    | {"rint", "floor", "ceil", "trunc", "reciprocal", "positive", "conj", "conjugate", "invert"}
    | {"logical_not", "bitwise_not", "deg2rad", "rad2deg"}
)
_BINARY = frozenset(
    {"add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "power", "float_power"}
    | {"mod", "remainder", "fmod", "maximum", "minimum", "fmax", "fmin", "logical_and", "dot"}
    | {"logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "left_shift"}
    | {"right_shift", "arctan2", "hypot", "copysign", "matmul", "heaviside", "round", "outer"}
)
_SUBMODULES = frozenset({"linalg", "fft", "random"})

_METHOD_VIEWS = frozenset(
    {"reshape", "ravel", "squeeze", "transpose", "swapaxes", "view", "diagonal", "__array__"}
)
_METHOD_MUTATING = frozenset(
    {"fill", "sort", "put", "partition", "itemset", "resize", "byteswap", "setfield"}
)
VIEW_ATTRIBUTES = frozenset({"T", "real", "imag", "flat", "mT"})
METADATA = frozenset(
    {"shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "flags", "tobytes"}
    | {"tolist", "item"}
)


def function_name(dotted: str) -> str | None:
    """The function's own name, where it is one of numpy that is understood."""
    parts = dotted.split(".")
    if parts[0] != "numpy":
        return None
    if len(parts) == 2 or (len(parts) == 3 and parts[1] in _SUBMODULES):
        return parts[-1]
    return None


def is_view(name: str) -> bool:
    """Whether a function may return memory of its first argument."""
    return name in _VIEWS


def is_maybe_view(name: str) -> bool:
    """Whether a function or method returns a view on some inputs and a copy on others."""
    return name in _MAYBE


def is_mutating(name: str) -> bool:
    """Whether a function writes to its first argument."""
    return name in _MUTATING or name == "shuffle"


def out_position(name: str) -> int | None:
    """Where among its positional arguments a function takes the array to write to."""
    if name in _UNARY:
        return 1
    if name in _BINARY:
        return 2
    return 3 if name in {"clip", "cumsum", "cumprod"} else None


def is_method_view(name: str) -> bool:
    """Whether a method of an array may return a view of it."""
    return name in _METHOD_VIEWS


def is_method_mutating(name: str) -> bool:
    """Whether a method of an array writes to it."""
    return name in _METHOD_MUTATING
