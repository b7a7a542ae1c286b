"""Artifact checks: resource limits and required or forbidden patterns of a compiled kernel.

Limits (registers, spills, local memory) are compared with ptxas' report. A pattern is a PTX instruction, a function, an
intrinsic or a piece of source text. It is matched where the answer is most certain: intrinsics with an unmistakable
instruction in PTX; functions in calls and in the inlining chains of ``.loc``; everything else in the source text that
the kernel reaches. A forbidden pattern is reported only where it certainly is part of the kernel, a required one only
if it certainly is not.
"""

from gpuemu_lsp.engine.lint.check import lint
from gpuemu_lsp.engine.lint.narrow_sums import narrow_sums
from gpuemu_lsp.engine.lint.report import report_lines
from gpuemu_lsp.engine.lint.unassigned_locals import unassigned_locals
from gpuemu_lsp.engine.ptx.arithmetic import arithmetic_precisions, ignores_nan, linear_only

__all__ = [
    "arithmetic_precisions",
    "ignores_nan",
    "linear_only",
    "lint",
    "narrow_sums",
    "report_lines",
    "unassigned_locals",
]
