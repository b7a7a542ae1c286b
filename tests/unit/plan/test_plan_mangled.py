"""Parameter types from mangled names."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.plan.mangled import parameter_types, template_arguments_of


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


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("_Z1kIfLi256ELb1EEvPT_", ("float", "256", "1")),
        ("_Z1kIN3c104HalfELin3EEvPKT_", ("c10::Half", "-3")),
        ("_Z1kIfL9Reduction1EEvPT_", ("float", "(Reduction)1")),
        ("_Z1kILN2at4KindE2EEvPf", ("(at::Kind)2",)),
        ("_Z3addPf", ()),
    ],
)
def test_template_arguments(name: str, arguments: tuple[str, ...]) -> None:
    assert template_arguments_of(name) == arguments
