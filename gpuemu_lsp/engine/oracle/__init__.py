"""Is the result right? The fp64 reference, the error budget and the element-wise comparison.

``load`` and ``call`` run the user's reference, ``judge`` turns a finished run into a verdict.
"""

from gpuemu_lsp.engine.oracle.budget import Numerics
from gpuemu_lsp.engine.oracle.compare import Mismatch, Verdict
from gpuemu_lsp.engine.oracle.judge import judge
from gpuemu_lsp.engine.oracle.reference import Reference, ReferenceFailure, ReferenceOutput, call, load

__all__ = [
    "Mismatch",
    "Numerics",
    "Reference",
    "ReferenceFailure",
    "ReferenceOutput",
    "Verdict",
    "call",
    "judge",
    "load",
]
