"""What a face shows of a failing case, kept with it: later nothing need run to look at it."""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.check.error_map import number, picture
from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.findings import Finding, Json
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.pack import unpack
from gpuemu_lsp.engine.oracle import Mismatch, ReferenceOutput
from gpuemu_lsp.engine.plan.model import Plan, TensorArg

_TOLD = ("thread", "block", "buffer", "offset", "instruction", "count", "total", "ulps", "optimize")


@dataclass(frozen=True, slots=True)
class MismatchSnapshot:
    """One mismatch with the arrays it is about, as long as they are in memory."""

    plan: Plan
    case: Case
    outcome: Outcome
    expected: ReferenceOutput | None
    mismatch: Mismatch
    elements: list[Json]


def shown(finding: Finding, sight: MismatchSnapshot | None) -> dict[str, Json]:
    """Return the first wrong elements, a picture of where they lie, and what else the finding tells."""
    told: dict[str, Json] = {key: finding.data[key] for key in _TOLD if finding.data.get(key) is not None}
    told["arch"] = finding.arch
    return {"told": told, "elements": _elements(sight), "picture": _picture(sight)}


def _elements(sight: MismatchSnapshot | None) -> list[Json]:
    if sight is None:
        return []
    rows: list[Json] = []
    for element in sight.elements:
        assert isinstance(element, dict)
        index, expected, actual = element["index"], element["expected"], element["actual"]
        known = isinstance(expected, int | float) and isinstance(actual, int | float)
        worst = index == list(sight.mismatch.index)
        rows.append(
            {
                "buffer": sight.mismatch.param,
                "index": index,
                "expected": _value(expected),
                "actual": _value(actual),
                "difference": number(abs(actual - expected)) if known else None,  # type: ignore[operator]
                "allowed": _value(sight.mismatch.allowed) if worst else None,
            }
        )
    return rows


def _picture(sight: MismatchSnapshot | None) -> Json:
    if sight is None:
        return None
    mismatch, wrong = sight.mismatch, sight.mismatch.wrong
    if wrong is None:
        return None
    arg = next(arg for arg in sight.plan.args if isinstance(arg, TensorArg) and arg.param == mismatch.param)
    data = sight.outcome.buffers.get(arg.param)
    actual = None if data is None else unpack(arg, sight.case, data)
    if actual is None:
        return None
    right: Array | None = None
    if arg.direction == "in":
        right = sight.case.tensors[arg.param]
    elif sight.expected is not None:
        right = sight.expected.arrays.get(arg.param)
    return picture(arg.param, actual, right, wrong)


def _value(value: Json) -> Json:
    if isinstance(value, float):
        return number(value) if value != value or abs(value) == float("inf") else value
    return value
