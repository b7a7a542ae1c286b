"""Rules of the group ``op``: functions in Python that are checked as kernels are."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.rules.model import Example, Rule

RULES = (
    Rule(
        "op/error",
        Severity.ERROR,
        "the op failed",
        "The op raised an exception, exited, crashed, or did not return within the time limit, for inputs that "
        "gpuemu.toml allows. Restrict `[ops.dims]` and the `range` of an argument if such inputs are not supported.",
        Example(
            bad="""\
def mean(x):
    return x.sum(axis=1) / x.shapes[1]  # AttributeError
""",
            good="""\
def mean(x):
    return x.sum(axis=1) / x.shape[1]
""",
            language="python",
        ),
    ),
    Rule(
        "op/wrong-result",
        Severity.ERROR,
        "results other than declared",
        "The op returned another number of results than `[ops.args]` declares as `out`, a dict without one of them, "
        "or something that is not an array.",
        Example(
            bad="""\
def layer_norm(x):
    y = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)  # no return
""",
            good="""\
def layer_norm(x):
    return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
""",
            language="python",
        ),
    ),
)
