"""Element types of C and their dtypes."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.element_types import C_TYPE_OF, dtype_size, element_type


@pytest.mark.parametrize(
    ("text", "dtype", "lanes"),
    [
        ("float", "float32", 1),
        ("const float", "float32", 1),
        ("volatile unsigned int", "uint32", 1),
        ("__half", "float16", 1),
        ("half2", "float16", 2),
        ("__nv_bfloat162", "bfloat16", 2),
        ("float4", "float32", 4),
        ("uchar4", "uint8", 4),
        ("std::size_t", "uint64", 1),
        ("long", "int64", 1),
        ("at::Half", "float16", 1),
        ("bool", "bool", 1),
    ],
)
def test_element_types(text: str, dtype: str, lanes: int) -> None:
    """Dtype and vector width of a C type."""
    known = element_type(text)
    assert known is not None
    assert (known.dtype, known.lanes) == (dtype, lanes)


@pytest.mark.parametrize("text", ["void", "Params", "cudaTextureObject_t", "half3", "float5", ""])
def test_unknown_types(text: str) -> None:
    """A type without a dtype is None."""
    assert element_type(text) is None


def test_aliases_are_followed_and_cycles_end() -> None:
    """A typedef of a typedef is resolved, one of itself is unknown."""
    known = element_type("scalar_t", {"scalar_t": "floatX", "floatX": "const __nv_bfloat16"})
    assert known is not None and known.dtype == "bfloat16"
    assert element_type("a", {"a": "b", "b": "a"}) is None


@pytest.mark.parametrize("dtype", sorted(C_TYPE_OF))
def test_every_dtype_has_a_c_type_of_its_own(dtype: str) -> None:
    """The replacement of ``{T}`` has the dtype itself."""
    known = element_type(C_TYPE_OF[dtype])
    assert known is not None and known.dtype == dtype
    assert dtype_size(dtype) in (1, 2, 4, 8)
