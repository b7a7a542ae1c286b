"""Parameter types from mangled names."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.plan.mangled import parameter_types


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("_Z3addPKfS0_Pfi", ("const float*", "const float*", "float*", "int")),
        ("_Z5emptyv", ()),
        ("_Z1kIfEvPT_i", ("float*", "int")),
        ("_Z1kI6__halfLi256EEvPKT_PS1_m", ("const __half*", "__half*", "unsigned long")),
        ("_ZN3lib1kEPdx", ("double*", "long long")),
        ("_Z1kP13__nv_bfloat16PKS_", ("__nv_bfloat16*", "const __nv_bfloat16*")),
        ("_Z1k6float4Ph", ("float4", "unsigned char*")),
        ("plain_c_name", None),
        ("_Z1kDv4_f", None),
        ("_Z", None),
    ],
)
def test_parameter_types(name: str, types: tuple[str, ...] | None) -> None:
    """The Itanium ABI's section 5.1, as far as kernels use it; anything else is None."""
    assert parameter_types(name) == types
