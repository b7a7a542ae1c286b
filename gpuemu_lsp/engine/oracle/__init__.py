"""Is the result right? The fp64 reference, the error budget and the element-wise comparison.

``load`` and ``call`` run the user's reference, ``judge`` turns a finished run into a verdict.
"""

from gpuemu_lsp.engine.oracle.arithmetic import Numerics
from gpuemu_lsp.engine.oracle.judge import judge
from gpuemu_lsp.engine.oracle.mismatch import ComparisonResult, Mismatch
from gpuemu_lsp.engine.oracle.outputs import ReferenceFailure, ReferenceOutput
from gpuemu_lsp.engine.oracle.reference import Reference, call, load

__all__ = [
    "ComparisonResult",
    "Mismatch",
    "Numerics",
    "Reference",
    "ReferenceFailure",
    "ReferenceOutput",
    "call",
    "judge",
    "load",
]
