"""A reference that returns one value for all inputs makes a pass meaningless, which is reported."""

from __future__ import annotations

import numpy as np
import pytest

from gpuemu_lsp.engine.check.policies.vacuous_reference import ReferenceValues
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.oracle import ReferenceOutput
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.project.model import DimSpec


def plan(direction="in"):
    args = (
        TensorArg("x", "x", direction, "float32", (parse("n"),)),
        TensorArg("y", "y", "out", "float32", (parse("n"),)),
    )
    place = Place("/k.cu", Range.of(0, 0, 0, 1))
    return Plan("k", "k", "float32", args, (DimSpec("n"),), (parse("1"),), (parse("32"),), parse("0"), place)


def seen(*cases):
    expectations = ReferenceValues()
    for case in cases:
        expectations.add(ReferenceOutput({name: np.array(values) for name, values in case.items()}))
    return expectations


@pytest.mark.parametrize(
    ("cases", "vacuous"),
    [
        ([{"y": [0.0] * 4}, {"y": [0.0] * 5}], True),
        ([{"y": [1, 1, 1, 1], "z": [7] * 4}] * 3, True),
        ([{"y": [0.0] * 4}, {"y": [0.0, 0.0, 2.0]}], False),  # relu on negative inputs, then on others
        ([{"y": [0.0] * 4}, {"y": [1.0] * 4}], False),
        ([{"y": [0.0] * 8, "flag": [1]}, {"y": list(range(8)), "flag": [1]}], False),
        ([{"y": [0.0] * 3}], False),  # too few elements
        ([{"y": [np.nan] * 20}], False),
    ],
)
def test_only_one_value_everywhere_is_vacuous(cases, vacuous):
    assert (seen(*cases).vacuous(plan()) is not None) == vacuous


def test_a_kernel_that_reads_nothing_may_write_the_same_everywhere():
    assert seen({"y": [0.0] * 50}).vacuous(plan("inout")) is None


def test_the_value_is_named():
    assert "y is 0 everywhere" in str(seen({"y": [0.0] * 50}).vacuous(plan()))
