"""Test oracle: the user's fp64 reference, the error budget and the element-wise comparison.

:func:`load` and :func:`call` run the reference. :func:`judge` compares a completed launch with it. The derivation of
tolerances is explained in :mod:`~gpuemu_lsp.engine.oracle.budget`.

Modules: ``reference`` and ``torch_reference`` call the user's function in fp64, ``scripts`` runs those that are
programs, ``opened_files`` notes what they read, ``inputs`` prepares what they get. ``judge`` compares outputs
(``outputs``, ``compare``, ``unordered``, ``copies_only``) within the ``budget``, which ``perturb``, ``rounding``,
``arithmetic`` and ``trace`` measure; ``mismatch`` is the result. ``reference_free`` has the checks without a
reference.
"""

from gpuemu_lsp.engine.oracle.arithmetic import Numerics
from gpuemu_lsp.engine.oracle.compare import JudgingPolicy
from gpuemu_lsp.engine.oracle.judge import judge
from gpuemu_lsp.engine.oracle.mismatch import ComparisonResult, Mismatch
from gpuemu_lsp.engine.oracle.outputs import ReferenceFailure, ReferenceOutput
from gpuemu_lsp.engine.oracle.reference import Reference, ReferenceEvaluation, call, load

__all__ = [
    "ComparisonResult",
    "JudgingPolicy",
    "Mismatch",
    "Numerics",
    "Reference",
    "ReferenceEvaluation",
    "ReferenceFailure",
    "ReferenceOutput",
    "call",
    "judge",
    "load",
]
