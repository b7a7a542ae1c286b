"""Results of an answer against the model of its task in fp64, within the error that rounding explains."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from gpuemu.derived_budget import DerivedVerdict, Function, judge_result
from gpuemu.judge.explanations import explanation
from gpuemu.judge.model import Comparison, Status
from gpuemu.judge.task import Task
from gpuemu.judge.values import copied, mapped, results_of, tensors_of
from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.oracle.mismatch import Mismatch, number

Tensors: TypeAlias = "list[torch.Tensor]"

_BENCHMARKS = {"1e-2": 1e-2, "1e-4": 1e-4}
"""Bounds of KernelBench, before and since 2026: ``|a - b| <= t + t |b|``."""
_CLOSE = 1e-3
_OWN_ERRORS, _OWN_UNITS = 32.0, 64.0
"""Errors of the model in its own dtypes, and unit roundoffs of the largest result, that are allowed where a budget
cannot be derived: the elements are too many for evaluating the model a dozen times."""
_LARGEST_OWN, _MEAN_OWN = 2.0, 1.5
"""How many times as large as those of the model in a narrow format the errors may be that the format explains."""
_NARROW_FACTOR = 4.0
"""Both, of results in a narrow format: sums are in fp32, and few results are rounded to it before the last."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The model of a task on the inputs of a case: ``inputs`` by position, ``state`` has weights and buffers by name.

    ``seed`` is that of random numbers that the model draws. Without ``training`` the model is in ``eval()`` mode, else
    in that of the task.
    """

    task: Task
    inputs: Sequence[Any]
    state: Mapping[str, torch.Tensor]
    seed: int
    training: bool = True

    def _model(self) -> Any:
        model = self.task.constructed(self.seed)
        return model if self.training else model.eval()

    def given(self) -> dict[str, torch.Tensor]:
        """Return all tensors by the names that :meth:`function` takes."""
        tensors = {f"input {place}": tensor for place, tensor in enumerate(tensors_of(list(self.inputs)))}
        return tensors | {f"weight {name}": one for name, one in self.state.items()}

    def function(self) -> Function:
        """Return the results of the model in fp64 as a function of its tensors."""
        model = self._model().double()

        def results(given: Mapping[str, Any]) -> tuple[Any, ...]:
            places = itertools.count()
            inputs = mapped(list(self.inputs), lambda _: given[f"input {next(places)}"])
            # Buffers are changed in place, by a normalisation that counts its batches.
            weights = {name: given[f"weight {name}"].clone() for name in self.state}
            torch.manual_seed(self.seed)
            result = torch.func.functional_call(model, weights, tuple(copied(inputs)))
            return tuple(results_of(result, torch.float64))

        return results

    def in_own_dtypes(self) -> Tensors:
        """Return the results of the model as the task computes them, on the CPU."""
        model = self._model()
        model.load_state_dict(self.state)
        torch.manual_seed(self.seed)
        with torch.no_grad():
            return results_of(model(*copied(self.inputs)))


def compare(evaluation: Evaluation, results: Tensors, fill: Mapping[torch.dtype, float]) -> Comparison:
    """Compare results with those of the model.

    ``fill`` is what new memory of the answer was filled with, by dtype.
    """
    given, function = evaluation.given(), evaluation.function()
    wide = {name: _wide(one) for name, one in given.items()}
    with torch.no_grad():
        exact = function(wide)
    if len(exact) != len(results):
        return Comparison(Status.DIFFERS, f"returns {_tensors(len(results))}, expected {_tensors(len(exact))}")
    computed = evaluation.in_own_dtypes()
    for place, (expected, actual) in enumerate(zip(computed, results, strict=True)):
        name = _named(place, exact)
        if expected.shape != actual.shape:
            message = f"{name} has the shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
            return Comparison(Status.DIFFERS, message)
        if expected.dtype != actual.dtype:
            dtypes = [str(one.dtype).removeprefix("torch.") for one in (actual, expected)]
            return Comparison(Status.DIFFERS, f"{name} has the dtype {dtypes[0]}, expected {dtypes[1]}")
    figures = Comparison(Status.SAME, worst=_worst(exact, results), accepted=_accepted(exact, results))
    arrays = {name: _array(one) for name, one in given.items()}
    outputs = {_named(place, exact): _array(one) for place, one in enumerate(results)}
    verdict = judge_result(function, arrays, outputs, torch=True)
    if verdict is None:
        comparison = _by_own_error(exact, computed, results, figures)
    elif verdict.mismatches and not _rounds_as_the_task(verdict, exact, computed, results):
        message, unwritten = _sentence(verdict.mismatches[0]), _is_unwritten(verdict, outputs, fill)
        comparison = replace(figures, status=Status.DIFFERS, message=message, unwritten=unwritten)
    else:
        decided = verdict.decided or verdict.mismatches or not sum(one.numel() for one in results)
        return replace(figures, status=Status.SAME if decided else Status.UNDECIDED)
    if comparison.status is Status.DIFFERS:
        return replace(comparison, explanation=explanation(lambda: function(wide), results))
    return comparison


def _rounds_as_the_task(
    verdict: DerivedVerdict, exact: Sequence[torch.Tensor], computed: Tensors, results: Tensors
) -> bool:
    """Return whether mismatches are as small as the errors of the model itself, which rounds to a narrow format.

    An answer may store what it computes between its first and its last step in that format, as the operators do.
    """
    wrong = {mismatch.param for mismatch in verdict.mismatches}
    for place, (expected, own, actual) in enumerate(zip(exact, computed, results, strict=True)):
        if _named(place, exact) not in wrong:
            continue
        if not actual.is_floating_point() or actual.dtype.itemsize >= torch.float32.itemsize:
            return False
        error, own_error = _errors(actual, expected), _errors(own, expected)
        if not error.max() <= _LARGEST_OWN * own_error.max() < torch.inf:
            return False
        if _mean(error) > _MEAN_OWN * _mean(own_error):
            return False
    return True


def _errors(actual: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """Return absolute errors, infinite where only one is finite."""
    equal = (actual == expected) | (actual.isnan() & expected.isnan())
    return (actual.double() - expected.double()).abs().nan_to_num(torch.inf).masked_fill(equal, 0.0)


def _mean(errors: torch.Tensor) -> float:
    return float(errors.square().mean().sqrt())


def _sentence(mismatch: Mismatch) -> str:
    """Return the worst element of a mismatch with its values, the error, and how many elements are wrong."""
    place = f"{mismatch.param}[{', '.join(map(str, mismatch.index))}]"
    values = f"{place} = {_value(mismatch.actual)}, expected {_value(mismatch.expected)}"
    if mismatch.error is not None and mismatch.allowed is not None:
        values += f" (error {mismatch.error:.2g}, allowed {mismatch.allowed:.2g})"
    return values + (f"; {mismatch.count} of {mismatch.total} elements" if mismatch.count > 1 else "")


def _value(value: float | None) -> str:
    return "another value" if value is None else number(value)


def ignored_weights(evaluation: Evaluation, initial: Mapping[str, torch.Tensor], results: Tensors) -> tuple[str, ...]:
    """Return the weights with whose initial values the results are right."""
    given = {name: _wide(one) for name, one in evaluation.given().items()}
    function = evaluation.function()
    names = []
    for name, weight in evaluation.state.items():
        if torch.equal(initial[name], weight):
            continue
        with torch.no_grad():
            exact = function({**given, f"weight {name}": _wide(initial[name])})
        if _are_close(exact, results):
            names.append(name)
    return tuple(names)


def _are_close(exact: Sequence[torch.Tensor], results: Tensors) -> bool:
    return len(exact) == len(results) and all(
        expected.shape == actual.shape and torch.allclose(expected.double(), actual.double(), rtol=_CLOSE, atol=_CLOSE)
        for expected, actual in zip(exact, results, strict=True)
    )


def _is_unwritten(verdict: DerivedVerdict, outputs: Mapping[str, Any], fill: Mapping[torch.dtype, float]) -> bool:
    """Return whether an output as a whole holds what new memory was filled with."""
    mismatch = verdict.mismatches[0]
    array = outputs[mismatch.param]
    value = fill.get(getattr(torch, array.dtype.name, None))
    if value is None:
        return False
    return bool(np.isnan(array.astype(np.float64)).all() if np.isnan(value) else (array == value).all())


def _by_own_error(
    exact: Sequence[torch.Tensor], computed: Tensors, results: Tensors, figures: Comparison
) -> Comparison:
    """Judge results that are too large for a derived budget by the model's own error in its dtypes."""
    for place, (expected, own, actual) in enumerate(zip(exact, computed, results, strict=True)):
        if not actual.is_floating_point():
            wrong = actual != own
            allowed = 0.0
        else:
            scale = _largest(expected)
            own_error = _largest(own.double() - expected)
            narrow = actual.dtype.itemsize < torch.float32.itemsize
            errors, units = (_NARROW_FACTOR, _NARROW_FACTOR) if narrow else (_OWN_ERRORS, _OWN_UNITS)
            allowed = errors * own_error + units * torch.finfo(actual.dtype).eps * scale
            equal = (actual == own) | (actual.isnan() & expected.isnan())
            wrong = ~((actual.double() - expected).abs() <= allowed) & ~equal
        if bool(wrong.any()):
            error = torch.where(wrong, (actual.double() - expected.double()).abs().nan_to_num(torch.inf), -1.0)
            index = tuple(int(one) for one in np.unravel_index(int(error.argmax()), error.shape))
            values = f"{number(float(actual[index]))}, expected {number(float(expected[index]))}"
            message = f"{_named(place, exact)}{list(index)} = {values} (allowed error {allowed:.2g})"
            return replace(figures, status=Status.DIFFERS, message=message)
    return figures


def _largest(values: torch.Tensor) -> float:
    """Return the largest finite magnitude."""
    return float(values.abs().nan_to_num(0.0, 0.0).max()) if values.numel() else 0.0


def _worst(exact: Sequence[torch.Tensor], results: Tensors) -> float:
    errors = [
        float((actual.double() - expected).abs().nan_to_num(torch.inf).max())
        for expected, actual in zip(exact, results, strict=True)
        if expected.is_floating_point() and expected.numel()
    ]
    return max(errors, default=0.0)


def _accepted(exact: Sequence[torch.Tensor], results: Tensors) -> dict[str, bool]:
    pairs = [(actual.double(), expected.double()) for expected, actual in zip(exact, results, strict=True)]
    return {
        name: all(torch.allclose(actual, expected, rtol=bound, atol=bound) for actual, expected in pairs)
        for name, bound in _BENCHMARKS.items()
    }


def _named(place: int, exact: Sequence[torch.Tensor]) -> str:
    return "output" if len(exact) == 1 else f"output {place}"


def _tensors(count: int) -> str:
    return "1 tensor" if count == 1 else f"{count} tensors"


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor


def _array(tensor: torch.Tensor) -> Any:
    if tensor.dtype is torch.bfloat16:
        return tensor.contiguous().view(torch.int16).numpy().view(numpy_dtype("bfloat16"))
    return tensor.detach().contiguous().numpy()
