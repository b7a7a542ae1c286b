"""NVRTC through CuPy: a device view in, PTX, cubin, true resources and NVRTC's diagnostics out. Needs no GPU."""

from __future__ import annotations

from gpuemu_lsp.engine.compile.compiler import compile_source, warm_up
from gpuemu_lsp.engine.compile.preamble import stand_ins
from gpuemu_lsp.engine.compile.toolchain import ToolchainError, toolchain

__all__ = ["ToolchainError", "compile_source", "stand_ins", "toolchain", "warm_up"]
