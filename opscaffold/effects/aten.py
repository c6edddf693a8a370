"""What ATen functions do to memory: which mutate, which return views, which allocate.

The bulk is generated from PyTorch's own ``native_functions.yaml`` (``aten.json``); the short
lists here are what that file does not annotate (FACTS section 6).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

# Allocators whose contents are undefined: nothing can mean to read them before writing.
EMPTY_ALLOCATORS = frozenset(
    {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"}
)
FILLED_ALLOCATORS = frozenset(
    {"zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones", "full", "full_like"}
    | {"new_full", "rand", "rand_like", "randn", "randn_like", "randint", "randint_like"}
    | {"arange", "linspace", "logspace", "eye", "tensor", "new_tensor", "scalar_tensor"}
)

# Methods that overwrite every element without looking at the old ones.
FULL_WRITES = frozenset(
    {"copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_"}
    | {"geometric_", "cauchy_", "log_normal_"}
)

# Views that cover every element of their base.
WHOLE_VIEWS = frozenset(
    {"view", "view_as", "reshape", "reshape_as", "flatten", "ravel", "t", "transpose", "permute"}
    | {"swapaxes", "swapdims", "movedim", "moveaxis", "unsqueeze", "squeeze", "unflatten"}
    | {"contiguous", "detach", "alias", "adjoint", "view_as_real"}
    | {"T", "mT", "H", "mH", "data"}
)

# Share storage without an annotation in the YAML, on every input or on some (FACTS section 6).
_UNANNOTATED_VIEWS = frozenset(
    {"bool", "cfloat", "cpu", "cuda", "dequantize", "double", "float", "half", "int", "long"}
    | {"short", "bfloat16", "type", "type_as", "sum_to_size", "to_dense", "unsafe_chunk"}
    | {"unsafe_split", "unsafe_split_with_sizes", "dropout", "atleast_1d", "atleast_2d"}
    | {"atleast_3d", "cartesian_prod", "broadcast_tensors", "as_tensor", "asarray", "meshgrid"}
    | {"einsum", "numpy", "from_numpy", "from_dlpack", "frombuffer", "expand", "chunk", "split"}
    | {"hsplit", "vsplit", "dsplit", "tensor_split", "numpy_T", "__getitem__", "to_dlpack"}
    | {"__dlpack__", "__array__", "alpha_dropout", "feature_dropout", "feature_alpha_dropout"}
)

# Views on some inputs, copies on others (FACTS section 6, and the PyTorch docs of each).
MAYBE_VIEWS = frozenset(
    {"contiguous", "reshape", "reshape_as", "to", "flatten", "ravel", "float", "double", "half"}
    | {"int", "long", "short", "bool", "bfloat16", "cfloat", "type", "type_as", "cpu", "cuda"}
    | {"conj", "resolve_conj", "resolve_neg", "real", "coalesce", "to_dense", "sum_to_size"}
    | {"dropout", "einsum", "cartesian_prod", "atleast_1d", "atleast_2d", "atleast_3d"}
    | {"pin_memory", "as_tensor", "asarray", "broadcast_tensors", "dequantize", "meshgrid"}
    | {"alpha_dropout", "feature_dropout", "feature_alpha_dropout"}
)

# Share memory behind a storage object of their own (FACTS section 2, S2).
HIDDEN_VIEWS = frozenset(
    {"numpy", "from_numpy", "from_dlpack", "frombuffer", "__dlpack__", "to_dlpack", "__array__"}
)
# Of those, the ones that yield a numpy array.
ARRAYS = frozenset({"numpy", "__array__"})

# Give back a tuple of views of their argument.
PARTS = frozenset(
    {"chunk", "split", "split_with_sizes", "unbind", "tensor_split", "hsplit", "vsplit", "dsplit"}
    | {"unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"}
)
# May give back any of their arguments, not only the first.
VIEWS_OF_ALL = frozenset(
    {"atleast_1d", "atleast_2d", "atleast_3d", "broadcast_tensors", "meshgrid", "cartesian_prod"}
)

# May write to arguments beside the first, which native_functions.yaml does not say of all.
_MUTATING = frozenset(
    {"batch_norm", "native_batch_norm", "instance_norm", "cudnn_batch_norm", "embedding"}
    | {"miopen_batch_norm", "embedding_bag", "_batch_norm_impl_index"}
)
# Of torch.distributed: write to their first argument.
COLLECTIVES = frozenset(
    {"all_reduce", "broadcast", "reduce", "recv", "irecv", "all_gather", "all_gather_into_tensor"}
    | {"reduce_scatter", "reduce_scatter_tensor", "all_to_all", "all_to_all_single", "scatter"}
    | {"all_gather_coalesced", "all_reduce_coalesced", "gather"}
)
# Of torch.nn.functional: where among the positional arguments stands ``inplace``.
INPLACE_POSITION = {
    "relu": 1,
    "relu6": 1,
    "elu": 2,
    "selu": 1,
    "celu": 2,
    "leaky_relu": 2,
    "rrelu": 4,
    "silu": 1,
    "mish": 1,
    "hardtanh": 3,
    "hardswish": 1,
    "hardsigmoid": 1,
    "threshold": 3,
    "dropout": 3,
    "alpha_dropout": 3,
    "feature_alpha_dropout": 3,
    "dropout1d": 3,
    "dropout2d": 3,
    "dropout3d": 3,
}
# Methods named like in-place ones that leave the values alone.
SETTINGS = frozenset({"requires_grad_", "share_memory_", "retain_grad"})
# Fields of the tuples that ATen functions return.
FIELDS = frozenset(
    {"values", "indices", "eigenvalues", "eigenvectors", "U", "S", "Vh", "V", "Q", "R", "L"}
    | {"sign", "logabsdet", "mantissa", "exponent", "LU", "pivots", "info", "solution", "hist"}
    | {"residuals", "rank", "singular_values", "bin_edges", "min", "max", "inverse", "result"}
)

METADATA_ATTRIBUTES = frozenset(
    {"shape", "dtype", "device", "ndim", "layout", "is_cuda", "is_cpu", "requires_grad", "names"}
    | {"itemsize", "nbytes", "is_sparse", "is_quantized", "is_leaf", "is_meta", "is_mps"}
    | {"is_xpu", "grad_fn", "output_nr", "_version"}
)
# Of those, the ones that may be None.
NULLABLE_ATTRIBUTES = frozenset({"grad_fn", "names"})
# Functions of torch that look at no value.
METADATA_FUNCTIONS = frozenset(
    {"is_tensor", "is_storage", "promote_types", "result_type", "broadcast_shapes", "can_cast"}
    | {"finfo", "iinfo", "Size", "device", "dtype", "Generator", "get_default_dtype", "sym_int"}
    | {"sym_max", "sym_min", "sym_not", "is_grad_enabled", "is_autocast_enabled"}
)
METADATA_METHODS = frozenset(
    {"size", "stride", "dim", "numel", "nelement", "ndimension", "is_contiguous", "element_size"}
    | {"storage_offset", "get_device", "is_floating_point", "is_complex", "is_signed"}
    | {"has_names", "is_inference", "is_pinned", "is_shared", "is_conj", "is_neg", "__len__"}
    | {"is_same_size", "is_set_to"}
)
VIEW_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})

# Results that depend on values, beyond what the YAML tags: no fake kernel can compute them.
_DYNAMIC = frozenset({"tolist", "unique", "nonzero", "numpy", "item"})


@cache
def _facts() -> dict[str, frozenset[str]]:
    text = Path(__file__).with_name("aten.json").read_text("utf-8")
    return {key: frozenset(names.split()) for key, names in json.loads(text).items()}


def is_known(name: str) -> bool:
    """Whether ATen has a function or method of this name."""
    return name in _facts()["known"] or name in _UNANNOTATED_VIEWS or is_allocator(name)


def is_view(name: str) -> bool:
    """Whether the result may share memory with the first argument, on some input or on all."""
    return name in _facts()["views"] or name in _UNANNOTATED_VIEWS


def is_allocator(name: str) -> bool:
    """Whether the result is always a new tensor made from metadata or constants."""
    return name in EMPTY_ALLOCATORS or name in FILLED_ALLOCATORS


def is_inplace(name: str) -> bool:
    """Whether this is a method that mutates its receiver."""
    return name in _facts()["inplace"] or name in {"__setitem__", "__iadd__", "__imul__"}


def is_reshaping(name: str) -> bool:
    """Whether this is a method that changes its receiver's metadata or storage in place."""
    return name in _facts()["reshaping"]


def is_dynamic(name: str) -> bool:
    """Whether the result's metadata depends on values."""
    return name in _facts()["dynamic"] or name in _DYNAMIC


def returns_several(name: str) -> bool:
    """Whether some form of the function returns several tensors."""
    return name in _facts()["several"] or name in PARTS


def may_mutate(name: str) -> bool:
    """Whether a function that is not in place by its name may write to an argument."""
    return name in _facts()["mutating"] or name in _MUTATING
