"""The first wrong elements of a mismatch, with what they are and what they should be."""

from __future__ import annotations

from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.pack import unpack
from gpuemu_lsp.engine.oracle import Mismatch, ReferenceOutput
from gpuemu_lsp.engine.plan.model import Plan, TensorArg


def first_elements(
    plan: Plan, case: Case, outcome: Outcome, expected: ReferenceOutput | None, mismatch: Mismatch
) -> list[Json]:
    """Return ``index``, ``expected`` and ``actual`` of the elements a mismatch lists; None for a value nobody knows."""
    arg = next((arg for arg in plan.args if isinstance(arg, TensorArg) and arg.param == mismatch.param), None)
    if arg is None:
        return []
    data = outcome.buffers.get(arg.param)
    actual = None if data is None or mismatch.rule == "numeric/unwritten-output" else unpack(arg, case, data)
    if arg.direction == "in":
        right: Array | None = case.tensors[arg.param]
    else:
        right = expected.arrays.get(arg.param) if expected is not None else None
    return [
        {"index": list(index), "expected": _value(right, index), "actual": _value(actual, index)}
        for index in mismatch.elements
    ]


def _value(array: Array | None, index: tuple[int, ...]) -> Json:
    if array is None:
        return None
    return int(array[index]) if array.dtype.kind in "iub" else float(array[index])
