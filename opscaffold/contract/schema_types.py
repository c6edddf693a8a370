"""The type names, symbols and literals of PyTorch's schema language, as data.

Measured against ``torch._C.parse_schema`` of torch 2.13; the tests hold every row against it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from opscaffold.patterns import pattern


def words(text: str) -> frozenset[str]:
    """The set of the words of a text: a table of names that stays short to read."""
    return frozenset(text.split())


SIMPLE_TYPES = words(
    "Tensor int SymInt float complex bool SymBool str string Scalar number ScalarType Layout "
    "MemoryFormat Device DeviceIndex Generator Stream Storage QScheme Quantizer ConstQuantizerPtr "
    "Capsule Any AnyClassType AnyEnumType None NoneType"
)

# Name -> how many types stand in its parentheses: (at least, at most).
GENERIC_TYPES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {"Dict": (2, 2), "Future": (1, 1), "Await": (1, 1), "RRef": (1, 1), "Union": (2, 64)}
)

# Generic types that may carry an alias annotation behind their parentheses.
ALIASED_GENERICS = frozenset({"Dict", "Union"})

# A word with a lower-case initial is a type variable to PyTorch; a dotted path is a custom class.
TYPE_VARIABLE = pattern(r"[a-z][A-Za-z0-9_]*\Z")

DTYPE_SYMBOLS = words(
    "bfloat16 bit bits16 bits1x8 bits2x4 bits4x2 bits8 bool cdouble cfloat chalf complex128 "
    "complex32 complex64 double float float16 float32 float4_e2m1fn_x2 float64 float8_e4m3fn "
    "float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu half int int1 int16 int2 int3 "
    "int32 int4 int5 int6 int64 int7 int8 long qint32 qint8 quint2x4 quint4x2 quint8 short uint1 "
    "uint16 uint2 uint3 uint32 uint4 uint5 uint6 uint64 uint7 uint8"
)

# Words that any scalar type takes as a default, whatever they mean there.
COMMON_SYMBOLS = frozenset({"Mean", "contiguous_format", "strided", "long", "float", "complex"})

DEVICE_TYPES = words(
    "cpu cuda ipu xpu mkldnn opengl opencl ideep hip ve fpga maia xla lazy vulkan mps meta hpu "
    "mtia privateuseone"
)
DEVICE = pattern(r"(?P<type>[a-z_]+)(?::(?:0|[1-9][0-9]*))?\Z")

# Types stored as an integer: a default is a whole number or a symbol.
INT_LIKE = words("int SymInt ScalarType Layout MemoryFormat DeviceIndex ConstQuantizerPtr")
# Whose default is one literal or symbol.
SCALAR_DEFAULT_TYPES = INT_LIKE | {"float", "complex", "bool", "str", "Scalar"}
# Whose only default is None.
NONE_DEFAULT_TYPES = frozenset({"Tensor", "Generator", "Quantizer"})
# Whose lists may have a default.
LIST_DEFAULT_ELEMENTS = INT_LIKE | {"float", "complex", "bool"}

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
FLOAT_MIN_NORMAL = 2.2250738585072014e-308
