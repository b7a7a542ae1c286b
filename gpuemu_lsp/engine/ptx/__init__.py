"""PTX text to a typed program: one parser for lint, emulator and diff. Knows nothing of CUDA C++."""

from gpuemu_lsp.engine.ptx.arithmetic import arithmetic_precisions, linear_only
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.ptx.normal_form import normalise
from gpuemu_lsp.engine.ptx.parser import parse

__all__ = ["PtxError", "arithmetic_precisions", "linear_only", "normalise", "parse"]
