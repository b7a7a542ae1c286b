"""Rules about the compiled kernel: its registers, spills and local memory, and what must or must not be in it."""

from gpuemu_lsp.engine.lint.check import lint
from gpuemu_lsp.engine.lint.report import report_lines
from gpuemu_lsp.engine.ptx.arithmetic import arithmetic_precisions, linear_only

__all__ = ["arithmetic_precisions", "linear_only", "lint", "report_lines"]
