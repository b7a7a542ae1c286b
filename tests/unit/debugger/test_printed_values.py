"""Values in the debugger against what the kernel prints: a sample of ``benchmarks.debugger_values``."""

from __future__ import annotations

import pytest

from benchmarks.debugger_values import comparisons


@pytest.mark.parametrize("kernel", ["quantize", "function_table"])
def test_values_are_those_that_the_kernel_prints(kernel):
    found = list(comparisons(kernel, 8, 1))
    assert len(found) > 4
    assert [one for one in found if not one.equal] == []
