"""nvcc of the extra ``run``, for tests that build programs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuemu_lsp.engine.runtime.toolchain.wheels import ProgramBuildError, nvcc_folder


def required_nvcc() -> Path:
    """Return the folder of nvcc; without it skip the test, or fail if ``GPUEMU_REQUIRE_PROGRAMS`` is set."""
    try:
        return nvcc_folder()
    except ProgramBuildError as error:
        if os.environ.get("GPUEMU_REQUIRE_PROGRAMS"):
            raise
        pytest.skip(str(error))
