"""PTX text to a typed program: one parser for lint, emulator and diff. Knows nothing of CUDA C++."""

from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.ptx.parser import parse

__all__ = ["PtxError", "parse"]
