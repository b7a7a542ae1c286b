"""Rules of the group ``reference``: Python references whose results cannot be used."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.rules.model import Example, Rule

RULES = (
    Rule(
        "reference/error",
        Severity.ERROR,
        "the reference failed",
        "The reference script raised an exception, exited, timed out or ran out of memory. The outputs were not "
        "checked.",
        Example(
            bad="""\
def reference(inputs):
    return np.tanh(inputs["x"])  # NameError
""",
            good="""\
import numpy as np


def reference(inputs):
    return np.tanh(inputs["x"])
""",
            language="python",
        ),
    ),
    Rule(
        "reference/wrong-shape",
        Severity.ERROR,
        "unusable result of the reference",
        "The reference must return an array, a tuple or a dict of arrays with the shapes of the outputs.",
        Example(
            bad="""\
def reference(inputs):
    print(2.0 * inputs["x"])
""",
            good="""\
def reference(inputs):
    return 2.0 * inputs["x"]
""",
            language="python",
        ),
    ),
    Rule(
        "reference/not-deterministic",
        Severity.ERROR,
        "nondeterministic reference",
        "Two calls with the same inputs returned different results, so nothing was compared with them.",
        Example(
            bad="""\
import numpy as np


def reference(inputs):
    return 2.0 * inputs["x"] + np.random.normal(size=inputs["x"].shape)
""",
            good="""\
def reference(inputs):
    return 2.0 * inputs["x"]
""",
            language="python",
        ),
    ),
    Rule(
        "reference/low-precision",
        Severity.WARNING,
        "reference of low precision",
        "The reference returns a type narrower than fp64, so its own rounding errors add to those of the kernel.",
        Example(
            bad="""\
import numpy as np


def reference(inputs):
    return (2.0 * inputs["x"]).astype(np.float32)
""",
            good="""\
def reference(inputs):
    return 2.0 * inputs["x"]
""",
            language="python",
        ),
    ),
    Rule(
        "reference/constant",
        Severity.WARNING,
        "constant reference",
        "In every case all expected elements of an output were the same value, although the kernel reads inputs: "
        "a kernel that ignores its inputs would pass. Usually the reference returns early, or `range` allows too "
        "few values.",
        Example(
            bad="""\
import numpy as np


def reference(inputs):
    return np.zeros(inputs["x"].shape)
""",
            good="""\
def reference(inputs):
    return 2.0 * inputs["x"]
""",
            language="python",
        ),
    ),
    Rule(
        "reference/changes-input",
        Severity.WARNING,
        "input changed by the reference",
        "The reference changed an array that the kernel only reads, for example with `x *= 2`. It gets copies, so the "
        "kernel is not affected, but an expression of the reference that uses the array later sees the changed values. "
        "A hint while the outputs agree.",
        Example(
            bad="""\
def reference(inputs):
    x = inputs["x"]
    x *= 2.0
    return 2.0 * inputs["x"]
""",
            good="""\
def reference(inputs):
    x = inputs["x"].copy()
    x *= 2.0
    return x
""",
            language="python",
        ),
    ),
)
