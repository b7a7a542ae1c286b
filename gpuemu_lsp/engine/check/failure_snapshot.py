"""Snapshots of failing cases: the first wrong elements and a map of the errors.

They are stored with a failing case, so that it can be displayed later without running anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.check.error_map import error_map, number
from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.findings import Finding, Json
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.pack import unpack
from gpuemu_lsp.engine.oracle import Mismatch, ReferenceOutput
from gpuemu_lsp.engine.plan.model import Plan, TensorArg

_DETAILS = ("thread", "block", "buffer", "offset", "instruction", "count", "total", "ulps", "optimize")
"""Keys of a finding's data that are stored with the case."""


@dataclass(frozen=True, slots=True)
class MismatchSnapshot:
    """A mismatch with the arrays it is about.

    ``elements`` has ``index``, ``expected`` and ``actual`` of each element that the mismatch lists, None for a value
    that does not exist: without a reference, or of an element that was not written.
    """

    plan: Plan
    case: Case
    outcome: Outcome
    expected: ReferenceOutput | None
    mismatch: Mismatch
    elements: list[Json]

    @staticmethod
    def of(
        plan: Plan, case: Case, outcome: Outcome, expected: ReferenceOutput | None, mismatch: Mismatch
    ) -> MismatchSnapshot:
        """Build the snapshot of one mismatch of a launch."""
        elements = _listed_elements(plan, case, outcome, expected, mismatch)
        return MismatchSnapshot(plan, case, outcome, expected, mismatch, elements)


def _listed_elements(
    plan: Plan, case: Case, outcome: Outcome, expected: ReferenceOutput | None, mismatch: Mismatch
) -> list[Json]:
    arg = _argument(plan, mismatch)
    if arg is None:
        return []
    data = outcome.buffers.get(arg.param)
    actual = None if data is None or mismatch.rule == "numeric/unwritten-output" else unpack(arg, case, data)
    right = _expected(arg, case, expected)
    return [
        {"index": list(index), "expected": _element(right, index), "actual": _element(actual, index)}
        for index in mismatch.elements
    ]


def _argument(plan: Plan, mismatch: Mismatch) -> TensorArg | None:
    return next((arg for arg in plan.args if isinstance(arg, TensorArg) and arg.param == mismatch.param), None)


def _expected(arg: TensorArg, case: Case, expected: ReferenceOutput | None) -> Array | None:
    """Return the right values of a tensor: an input must keep its own, an output has those of the reference."""
    if arg.direction == "in":
        return case.tensors[arg.param]
    return expected.arrays.get(arg.param) if expected is not None and arg.ordered else None


def _element(array: Array | None, index: tuple[int, ...]) -> Json:
    if array is None:
        return None
    return int(array[index]) if array.dtype.kind in "iub" else float(array[index])


# ---- stored form -----------------------------------------------------------------------------------------------------


def stored_snapshot(finding: Finding, snapshot: MismatchSnapshot | None) -> dict[str, Json]:
    """Return what is stored with a failing case: details of its finding, the first wrong elements, the error map."""
    details: dict[str, Json] = {key: finding.data[key] for key in _DETAILS if finding.data.get(key) is not None}
    details["arch"] = finding.arch
    return {"details": details, "elements": _element_rows(snapshot), "picture": _map(snapshot)}


def _element_rows(snapshot: MismatchSnapshot | None) -> list[Json]:
    if snapshot is None:
        return []
    rows: list[Json] = []
    for element in snapshot.elements:
        assert isinstance(element, dict)
        index, expected, actual = element["index"], element["expected"], element["actual"]
        known = isinstance(expected, int | float) and isinstance(actual, int | float)
        # The error budget differs from element to element; a mismatch has that of the worst one only.
        worst = index == list(snapshot.mismatch.index)
        rows.append(
            {
                "buffer": snapshot.mismatch.param,
                "index": index,
                "expected": _json_number(expected),
                "actual": _json_number(actual),
                "difference": number(abs(actual - expected)) if known else None,  # type: ignore[operator]
                "allowed": _json_number(snapshot.mismatch.allowed) if worst else None,
            }
        )
    return rows


def _map(snapshot: MismatchSnapshot | None) -> Json:
    if snapshot is None or snapshot.mismatch.wrong is None:
        return None
    arg = _argument(snapshot.plan, snapshot.mismatch)
    assert arg is not None
    data = snapshot.outcome.buffers.get(arg.param)
    actual = None if data is None else unpack(arg, snapshot.case, data)
    if actual is None:
        return None
    right = _expected(arg, snapshot.case, snapshot.expected)
    return error_map(arg.param, actual, right, snapshot.mismatch.wrong)


def _json_number(value: Json) -> Json:
    """Return a number that JSON can represent; all digits are kept."""
    if isinstance(value, float):
        return number(value) if value != value or abs(value) == float("inf") else value
    return value
