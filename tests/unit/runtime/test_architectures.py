"""The architecture that a program is compiled for."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.runtime.toolchain.architectures import requested_architecture


@pytest.mark.parametrize(
    ("options", "architecture"),
    [
        ("-O2 -o saxpy saxpy.cu", "80"),
        ("-arch=sm_90a", "90a"),
        ("-arch sm_90", "90"),
        ("--gpu-architecture=compute_90a --gpu-code=sm_90a,compute_90a", "90a"),
        ("-gencode arch=compute_90,code=sm_90 -gencode arch=compute_90a,code=sm_90a", "90a"),
        ("-gencode=arch=compute_100a,code=sm_100a", "100a"),
        ("-gencode arch=compute_70,code=sm_70 -gencode arch=compute_90a,code=sm_90a", "80"),
        ("-gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a", "80"),
        ("-arch=sm_89", "80"),
        ("-arch=native", "80"),
        ("-arch=sm_52", "80"),
        ("-DARCH=sm_90a", "80"),
        ("-arch", "80"),
    ],
)
def test_it_is_the_lowest_that_the_options_name_from_90_on(options, architecture):
    assert requested_architecture(options.split()) == architecture
