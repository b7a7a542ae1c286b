"""The minimiser: from a failing case to the smallest and plainest one that fails in the same way.

Its structure is Hypothesis': passes only *propose* candidates, one file per thing they make smaller, and one search
decides: a candidate replaces the best one when it is better in a fixed order and still fails. Nothing is assumed to be
monotone, nothing is random, and the best case so far is valid at any time.

It knows neither emulator nor oracle: the caller says what "still fails" means (the same rule on the same line).
"""

from gpuemu_lsp.engine.shrink.model import CaseSpace, Improvement, ShrinkBudget, ShrinkResult, ValueDomain
from gpuemu_lsp.engine.shrink.search import STRATEGIES, improvements, minimise
from gpuemu_lsp.engine.shrink.space import space_of

__all__ = [
    "STRATEGIES",
    "CaseSpace",
    "Improvement",
    "ShrinkBudget",
    "ShrinkResult",
    "ValueDomain",
    "improvements",
    "minimise",
    "space_of",
]
