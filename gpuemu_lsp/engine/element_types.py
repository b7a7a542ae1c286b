"""Mapping between C element types and dtypes (names of NumPy and ml_dtypes)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_DTYPE_OF = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "_Float16": "float16",
    "at::Half": "float16",
    "c10::Half": "float16",
    "nv_bfloat16": "bfloat16",
    "__nv_bfloat16": "bfloat16",
    "bfloat16": "bfloat16",
    "at::BFloat16": "bfloat16",
    "c10::BFloat16": "bfloat16",
    "__nv_fp8_e4m3": "float8_e4m3fn",
    "__nv_fp8_e5m2": "float8_e5m2",
    "char": "int8",
    "signed char": "int8",
    "int8_t": "int8",
    "unsigned char": "uint8",
    "uint8_t": "uint8",
    "uchar": "uint8",
    "short": "int16",
    "short int": "int16",
    "int16_t": "int16",
    "unsigned short": "uint16",
    "uint16_t": "uint16",
    "ushort": "uint16",
    "int": "int32",
    "signed": "int32",
    "signed int": "int32",
    "int32_t": "int32",
    "unsigned": "uint32",
    "unsigned int": "uint32",
    "uint": "uint32",
    "uint32_t": "uint32",
    "long": "int64",
    "long int": "int64",
    "long long": "int64",
    "long long int": "int64",
    "int64_t": "int64",
    "ssize_t": "int64",
    "ptrdiff_t": "int64",
    "intptr_t": "int64",
    "clock_t": "int64",
    "unsigned long": "uint64",
    "unsigned long int": "uint64",
    "unsigned long long": "uint64",
    "unsigned long long int": "uint64",
    "uint64_t": "uint64",
    "size_t": "uint64",
    "uintptr_t": "uint64",
    "bool": "bool",
}

_VECTOR_OF = {
    "char": "int8",
    "uchar": "uint8",
    "short": "int16",
    "ushort": "uint16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "ulong": "uint64",
    "longlong": "int64",
    "ulonglong": "uint64",
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "__half": "float16",
    "__nv_bfloat16": "bfloat16",
    "nv_bfloat16": "bfloat16",
}

C_TYPE_OF = {
    "float16": "__half",
    "bfloat16": "__nv_bfloat16",
    "float32": "float",
    "float64": "double",
    "float8_e4m3fn": "__nv_fp8_e4m3",
    "float8_e5m2": "__nv_fp8_e5m2",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "bool": "bool",
}
"""C++ type that replaces ``{T}``, by dtype."""

INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"})
DISCRETE = INTEGERS | {"bool"}
"""Types of flags, indices and counts: a program may have few of their values, and in a certain relation."""
FLOATS = frozenset({"float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"})
_SIZES = {"bool": 1, "bfloat16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}


@dataclass(frozen=True, slots=True)
class ElementType:
    """A dtype, and the number of values in one C element: ``float4`` has four lanes of float32."""

    dtype: str
    lanes: int = 1


def element_type(text: str, aliases: Mapping[str, str] | None = None) -> ElementType | None:
    """Return the element type of a C type, or None for a struct, ``void`` or an unknown name.

    ``aliases`` maps names of the file (template parameters, typedefs) to C types; they are followed, at most ten deep.
    """
    name = " ".join(word for word in text.split() if word not in ("const", "volatile", "__restrict__", "typename"))
    name = name.removeprefix("std::").removeprefix("::")
    for _ in range(10):
        if aliases is None or name not in aliases:
            break
        name = " ".join(word for word in aliases[name].split() if word not in ("const", "volatile"))
        name = name.removeprefix("std::")
    if name in _DTYPE_OF:
        return ElementType(_DTYPE_OF[name])
    if name[-1:] in "234" and name[:-1] in _VECTOR_OF and (name[-1] != "3" or "half" not in name):
        return ElementType(_VECTOR_OF[name[:-1]], int(name[-1]))
    if name.endswith("bfloat162"):
        return ElementType("bfloat16", 2)
    return None


def dtype_size(dtype: str) -> int:
    """Return the size of an element in bytes."""
    return _SIZES.get(dtype) or int(dtype.removeprefix("u").removeprefix("int").removeprefix("float")) // 8


def integer_limits(dtype: str) -> tuple[int, int]:
    """Return the smallest and the largest value of an integer dtype. NumPy is not loaded in the main process."""
    signed = not dtype.startswith("u")
    bits = int(dtype.lstrip("uint"))
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
