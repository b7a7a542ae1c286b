"""Judgement of an operation's output by the reference of its entry in gpuemu.toml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuemu.derived_budget import judge_result
from gpuemu.ops.scalars import reference_scalars
from gpuemu.tolerances import ToleranceConfig
from gpuemu.verifier.comparison import Difference, Tolerance, blocks, compare
from gpuemu.verifier.values import Array, as_array, leaves
from gpuemu_lsp.engine.oracle import Reference, ReferenceFailure
from gpuemu_lsp.engine.oracle import load as load_reference
from gpuemu_lsp.engine.oracle.inputs import ReferenceInputs, widened
from gpuemu_lsp.engine.oracle.torch_reference import as_arrays, as_tensors
from gpuemu_lsp.engine.project.model import KernelSpec

_KINDS = {
    "numeric/tolerance-exceeded": "ToleranceExceeded",
    "numeric/nan": "NaNDetected",
    "numeric/inf": "InfDetected",
    "numeric/shape-mismatch": "ShapeMismatch",
    "numeric/dtype-mismatch": "DTypeMismatch",
    "numeric/invariant": "InvariantViolation",
}


_NARROW = frozenset({"f16", "bf16", "e4m3", "e5m2"})


@dataclass(frozen=True, slots=True)
class Judged:
    """A judgement; ``failures`` as in :class:`gpuemu.results.ValidationResult`, ``rule`` of the first of them.

    ``relative`` is the largest error over the largest magnitude of the expected output.
    """

    passed: bool
    failures: tuple[Mapping[str, Any], ...] = ()
    rule: str = "op/error"
    max_diff: float = 0.0
    max_rel_diff: float = 0.0
    compared: int = 0
    relative: float = 0.0


def judge_op(
    spec: KernelSpec,
    inputs: Mapping[str, Array],
    output: Any,
    atol: float | None,
    rtol: float | None,
    kwargs: Mapping[str, str],
    each_operation_rounds: bool = False,
) -> Judged:
    """Compare an output with the reference: within the given tolerance, else that of gpuemu.toml, else derived."""
    if spec.reference is None:
        return _failed("ReferenceError", f"'{spec.name}' has no reference", "reference/error")
    try:
        reference = load_reference(spec.reference, spec.reference_function)
    except ReferenceFailure as failure:
        return _failed("ReferenceError", failure.message, failure.rule)
    extra = _keywords(spec, reference, kwargs, inputs)
    scalars = reference_scalars(spec, inputs)
    try:
        expected = _call(reference, _given(inputs, scalars), extra)
    except Exception as error:
        return _failed("ReferenceError", f"the reference failed: {type(error).__name__}: {error}", "reference/error")
    found, wanted = leaves(output), leaves(expected)
    if list(found) != list(wanted) or any(np.shape(found[path]) != np.shape(wanted[path]) for path in found):
        difference = compare(output, expected, Tolerance())
        message = "the output has another structure" if difference is None else difference.sentence("output")
        return _failed("ShapeMismatch", message, "numeric/shape-mismatch")
    compared = sum(as_array(value).size for value in found.values())
    if not compared:
        return Judged(True)
    broken = _broken_invariant(spec, inputs, found)
    difference = broken or _difference(
        spec,
        reference,
        inputs,
        output,
        expected,
        (atol, rtol),
        extra,
        _NARROW if each_operation_rounds else frozenset(),
    )
    errors = [_errors(found[path], wanted[path]) for path in found]
    figures = (max(one[0] for one in errors), max(one[1] for one in errors), compared, max(one[2] for one in errors))
    if difference is None:
        return Judged(True, (), "", *figures)
    return Judged(False, (_record(difference, found, wanted),), difference.rule, *figures)


def exact_function(spec: KernelSpec, kwargs: Mapping[str, str]) -> Callable[[Mapping[str, Array]], Any]:
    """Return the reference as a function of inputs by name, which it gets widened to fp64.

    Raises
    ------
    ReferenceFailure
        If it cannot be loaded.
    """
    reference = load_reference(spec.reference or "", spec.reference_function)

    def exact(inputs: Mapping[str, Array]) -> Any:
        extra = _keywords(spec, reference, kwargs, inputs)
        return _call(reference, _given(inputs, reference_scalars(spec, inputs)), extra)

    return exact


def _given(inputs: Mapping[str, Array], scalars: Mapping[str, Any]) -> dict[str, Any]:
    return {**scalars, **{name: widened(one, one.dtype.name) for name, one in inputs.items()}}


def _keywords(
    spec: KernelSpec, reference: Reference, kwargs: Mapping[str, str], inputs: Mapping[str, Array]
) -> dict[str, Any]:
    """Return the keyword arguments that a reference takes: those of gpuemu.toml, and of the call as text."""
    own = spec.op.kwargs if spec.op is not None else {}
    given = {**reference_scalars(spec, inputs), **own, **kwargs}
    return {name: value for name, value in given.items() if reference.everything or name in reference.accepted}


def _call(reference: Reference, inputs: Mapping[str, Any], extra: Mapping[str, Any]) -> Any:
    given = as_tensors(inputs) if reference.torch else dict(inputs)
    with np.errstate(all="ignore"):
        result = reference.function(ReferenceInputs(given, {}, tuple(given)), **extra)
    return as_arrays(result, None) if reference.torch else result


def _difference(
    spec: KernelSpec,
    reference: Reference,
    inputs: Mapping[str, Array],
    output: Any,
    expected: Any,
    given: tuple[float | None, float | None],
    extra: Mapping[str, Any],
    rounded: frozenset[str],
) -> Difference | None:
    dtype = next(as_array(value).dtype.name for value in leaves(output).values())
    configured = spec.tolerances.get(dtype)
    if given != (None, None):
        return compare(output, expected, Tolerance(given[1] or 0.0, given[0] or 0.0))
    if configured is not None:
        return compare(output, expected, Tolerance(configured.rtol, configured.atol))
    outputs = {f"output {path}": as_array(value) for path, value in leaves(output).items()}

    def function(values: Mapping[str, Any]) -> tuple[Any, ...]:
        given = {**reference_scalars(spec, inputs), **values}
        result = reference.function(ReferenceInputs(given, {}, tuple(values)), **extra)
        return tuple(leaves(result).values())

    derived = judge_result(
        function, inputs, outputs, torch=reference.torch, rounded=rounded, separate=reference.separate
    )
    if derived is None:
        default = ToleranceConfig.for_dtype(dtype)
        return compare(output, expected, Tolerance(default.rtol, default.atol, explicit=False))
    if not derived.mismatches:
        return None
    allowed = {name.removeprefix("output "): budget for name, budget in derived.allowed.items()}
    return compare(output, expected, Tolerance(), allowed=allowed)


def _broken_invariant(spec: KernelSpec, inputs: Mapping[str, Array], found: Mapping[str, Any]) -> Difference | None:
    claims = spec.invariants
    claimed = (
        (claims.no_nan, np.isnan, "no_nan"),
        (claims.no_inf, np.isinf, "no_inf"),
        (claims.non_negative, _negative, "non_negative"),
    )
    for path, value in found.items():
        for (block,) in blocks(as_array(value)):
            wide = block.astype(np.float64) if block.dtype.kind != "c" else np.abs(block)
            for is_claimed, broken, name in claimed:
                if is_claimed and broken(wide).any():
                    return Difference(f"breaks the invariant {name}", "numeric/invariant", path)
    return None


def _negative(values: Array) -> Array:
    return np.asarray(values < 0)


def _record(difference: Difference, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Mapping[str, Any]:
    index, path = difference.index, difference.output
    actual = expected = None
    if difference.shape and path in found and difference.shape == np.shape(found[path]):
        actual, expected = (as_array(side[path])[index].item() for side in (found, wanted))
    return {
        "kind": _KINDS.get(difference.rule, "ToleranceExceeded"),
        "message": difference.sentence("output"),
        "index": index,
        "expected": expected,
        "actual": actual,
    }


def _errors(actual: Any, expected: Any) -> tuple[float, float, float]:
    """Return the largest absolute and relative errors, and the former over the largest expected magnitude."""
    left, right = as_array(actual), as_array(expected)
    wide = np.complex128 if "c" in (left.dtype.kind, right.dtype.kind) else np.float64
    absolute = largest_relative = scale = 0.0
    for found, wanted in blocks(left, right):
        with np.errstate(all="ignore"):
            magnitude = np.abs(wanted.astype(wide))
            error = np.abs(found.astype(wide) - wanted.astype(wide))
            relative = error / magnitude
        absolute = max(absolute, _largest(error))
        largest_relative = max(largest_relative, _largest(relative))
        scale = max(scale, _largest(magnitude))
    return absolute, largest_relative, absolute / scale if scale else absolute


def _largest(values: Array) -> float:
    return float(np.max(values, initial=0.0, where=np.isfinite(values)))


def _failed(kind: str, message: str, rule: str) -> Judged:
    return Judged(False, ({"kind": kind, "message": message, "index": (), "expected": None, "actual": None},), rule)
