"""``gpuemu nvcc`` and ``gpuemu cxx``: the compilers of what ``gpuemu run`` starts. Builds call them often."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from gpuemu_lsp.engine.report.exit_codes import EXIT_USAGE
from gpuemu_lsp.engine.runtime.toolchain.extension_objects import compile_host_source
from gpuemu_lsp.engine.runtime.toolchain.library import toolkit_folder
from gpuemu_lsp.engine.runtime.toolchain.nvcc import run_nvcc
from gpuemu_lsp.engine.runtime.toolchain.wheels import ProgramBuildError


def nvcc(arguments: Sequence[str]) -> int:
    """Compile as nvcc does with ``arguments``; return its exit code. ``--toolkit`` prints our toolkit's folder."""
    try:
        if list(arguments) == ["--toolkit"]:
            print(toolkit_folder())
            return 0
        return run_nvcc(arguments)
    except (ProgramBuildError, OSError) as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return EXIT_USAGE


def cxx(arguments: Sequence[str]) -> int:
    """Compile as the host's C++ compiler does with ``arguments``; return its exit code."""
    try:
        return compile_host_source(arguments)
    except (ProgramBuildError, OSError) as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return EXIT_USAGE
