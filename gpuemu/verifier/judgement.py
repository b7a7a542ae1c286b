"""Judgement of one call by its ground truth."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuemu.derived_budget import DerivedVerdict, judge_result
from gpuemu.verifier.autograd_context import StandInContext, is_context
from gpuemu.verifier.comparison import (
    Difference,
    compare,
    describe,
)
from gpuemu.verifier.devices import autocasting
from gpuemu.verifier.operations import PendingCheck
from gpuemu.verifier.values import Array, as_array, is_module, is_tensor, is_torch, leaves, mapped, snapshot

_OWN_ERRORS = 2.0
"""Errors of the ground truth in the dtypes of the call that are allowed in addition to the derived budget."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The result of the ground truth, and how that of the call differs from it; None if it does not."""

    expected: Any
    difference: Difference | None


def judge_call(pending: PendingCheck) -> Judgement:
    """Compare the result of a call with that of its ground truth.

    Without a tolerance the error budget of the engine applies, for which the ground truth is evaluated in fp64. A
    difference is reported if the ground truth in the dtypes of the call shows it too: a function that depends on
    its dtype, by its ``eps`` for instance, is another one in fp64.
    """
    operation = pending.operation
    tolerance = operation.tolerance
    if tolerance.explicit:
        expected = _ground_truth(pending)
        return Judgement(expected, compare(pending.result, expected, tolerance))
    derived = _derived(pending)
    if derived is not None and not derived.mismatches:
        return Judgement(None, None)
    expected = _ground_truth(pending)
    terms = max((max(np.shape(tensor), default=1) for tensor in _tensors(pending).values()), default=1)
    if derived is None:
        return Judgement(expected, compare(pending.result, expected, tolerance, terms))
    allowed = {
        name.removeprefix("output "): budget + _own_error(derived.expected[name], leaves(expected)[name[7:]])
        for name, budget in derived.allowed.items()
        if name[7:] in leaves(expected)
    }
    difference = compare(pending.result, expected, tolerance, allowed=allowed)
    return Judgement(expected, None if difference is None else _located(pending, derived) or difference)


def _ground_truth(pending: PendingCheck) -> Any:
    """Call the ground truth with copies: it may change its arguments, and those of the failure must stay as they were.

    A context of ``torch.autograd.Function`` is replaced by a stand-in, as it belongs to the graph of the call.
    """
    args, kwargs = mapped((pending.args, pending.kwargs), lambda _, leaf: _argument(leaf))
    with autocasting(pending.autocast):
        return detached(pending.operation.ground_truth(*args, **kwargs))


def _own_error(exact: Array, computed: Any) -> Any:
    """Return the largest error of the ground truth itself in each row: it may round in narrow formats, too."""
    array = as_array(computed)
    if array.shape != exact.shape or array.dtype.kind in "iub":
        return 0.0
    with np.errstate(all="ignore"):
        error = np.abs(array.astype(np.float64) - exact.astype(np.float64))
    error = np.where(np.isfinite(error), error, 0.0)
    return _OWN_ERRORS * (error.max(axis=-1, keepdims=True, initial=0.0) if error.ndim else error)


def _argument(leaf: Any) -> Any:
    return StandInContext() if is_context(leaf) else snapshot(leaf)


def detached(value: Any) -> Any:
    """Return ``value`` without the autograd graph of its tensors."""
    return mapped(value, lambda _, leaf: leaf.detach() if is_torch(leaf) else leaf)


def _tensors(pending: PendingCheck) -> dict[str, Any]:
    return {path: leaf for path, leaf in leaves((pending.args, pending.kwargs)).items() if is_tensor(leaf)}


def _derived(pending: PendingCheck) -> DerivedVerdict | None:
    """Judge a call by the derived budget; None if its ground truth or its result do not allow that."""
    if not pending.operation.tolerance.equal_nan:
        return None
    given = _tensors(pending)
    frameworks = {is_torch(tensor) for tensor in given.values()}
    result = leaves(pending.result)
    if len(frameworks) != 1 or not all(is_tensor(leaf) for leaf in result.values()):
        return None
    (torch,) = frameworks
    inputs = {f"input {path}": as_array(tensor) for path, tensor in given.items()}
    outputs = {f"output {path}": as_array(leaf) for path, leaf in result.items()}

    def function(values: Mapping[str, Any]) -> tuple[Any, ...]:
        def wide(path: str, leaf: Any) -> Any:
            if is_module(leaf):
                return copy.deepcopy(leaf).double().cpu()
            if is_context(leaf):
                return StandInContext()
            return values.get(f"input {path}", leaf)

        args, kwargs = mapped((pending.args, pending.kwargs), wide)
        ground_truth: Any = pending.operation.ground_truth
        if is_module(ground_truth):
            ground_truth = copy.deepcopy(ground_truth).double().cpu()
        expected = leaves(ground_truth(*args, **kwargs))
        if list(expected) != list(result) or any(np.shape(expected[path]) != np.shape(result[path]) for path in result):
            raise ValueError("the ground truth has another structure")
        return tuple(expected.values())

    precisions = frozenset(short for _, _, short in pending.autocast) | (_precisions(given) if torch else frozenset())
    return judge_result(function, inputs, outputs, torch=torch, precisions=precisions)


def _precisions(given: Mapping[str, Any]) -> frozenset[str]:
    """Return the formats of the device's arithmetic besides those of the tensors."""
    if not any(tensor.is_cuda for tensor in given.values()):
        return frozenset()
    import torch

    tensor_cores = torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32
    return frozenset({"tf32"}) if tensor_cores else frozenset({"mma"})


def _located(pending: PendingCheck, derived: DerivedVerdict) -> Difference | None:
    """Return the difference of the worst mismatch, with the value in fp64 as the expected one."""
    worst = derived.mismatches[0]
    if worst.wrong is None:
        return None
    path = worst.param.removeprefix("output ")
    actual: Array = as_array(leaves(pending.result)[path])
    expected = derived.expected[worst.param]
    with np.errstate(all="ignore"):
        error = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    index = worst.index if actual.ndim else ()
    found = describe(path, actual, expected, worst.wrong.reshape(actual.shape), index, error)
    if worst.allowed is None or worst.error is None:
        return replace(found, rule=worst.rule)
    text = f"{found.text}, error {worst.error:.2g}, allowed {worst.allowed:.2g}"
    return replace(found, rule=worst.rule, text=text)
