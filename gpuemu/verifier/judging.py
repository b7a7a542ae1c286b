"""Judgement of one call by its ground truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuemu.verifier.comparison import Difference, compare
from gpuemu.verifier.operations import PendingCheck
from gpuemu.verifier.values import snapshot, tensors


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of the ground truth, and how that of the call differs from it; None if it does not."""

    expected: Any
    difference: Difference | None


def judge_call(pending: PendingCheck) -> Judgement:
    """Compare the result of a call with that of its ground truth.

    The ground truth gets copies, so that one that changes its arguments leaves those of the failure as they were.
    """
    expected = pending.operation.ground_truth(*snapshot(pending.args), **snapshot(pending.kwargs))
    terms = max((max(tensor.shape, default=1) for _, tensor in tensors(pending.args)), default=1)
    return Judgement(expected, compare(pending.result, expected, pending.operation.tolerance, terms))
