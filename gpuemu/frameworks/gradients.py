"""Gradients of PyTorch operations, compared with fp64 autograd of a reference or with finite differences.

The vector-Jacobian product with a random cotangent is compared per element, within the error budget that the engine
derives from fp64 evaluations of the reference's own gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from gpuemu.derived_budget import DerivedVerdict, judge_result
from gpuemu.frameworks.finite_differences import compare_with_differences
from gpuemu.frameworks.gradient_calls import Call, cotangents_of, gradients_of
from gpuemu.frameworks.gradient_records import (
    GradientCheck,
    GradientFailure,
    GradientNotCheckedError,
    Inputs,
    failures_of,
)
from gpuemu.frameworks.subgradients import with_subgradients
from gpuemu.verifier.values import as_array


def check_backward(
    op: Callable[..., Any],
    inputs: Inputs,
    reference: Callable[..., Any] | None = None,
    *,
    seed: int = 0,
    atol: float | None = None,
    rtol: float | None = None,
    layouts: bool = True,
) -> GradientCheck:
    """Compare results and gradients of an operation with those of a reference.

    Parameters
    ----------
    op : Callable
        Called with the inputs by name, or by position if it has other names.
    inputs : Mapping or Sequence
        Tensors and other arguments. Gradients of all floating-point tensors are checked.
    reference : Callable, optional
        A differentiable function of the same arguments, evaluated on fp64 CPU tensors. Without one, gradients are
        compared with finite differences of ``op`` itself in fp64, and its results are not checked.
    seed : int
        Seed of the cotangent.
    atol, rtol : float, optional
        Allowed error, ``atol + rtol * |expected|``; derived where neither is given.
    layouts : bool
        Also pass cotangents and inputs that are not contiguous, with the same values. An operation may refuse them with
        an exception.

    Raises
    ------
    GradientNotCheckedError
        If no input has a gradient, the reference fails in fp64, or ``op`` without a reference does not run in fp64.
    """
    call = Call(op, inputs)
    if not call.differentiable:
        raise GradientNotCheckedError("no input is a floating-point tensor")
    if reference is None:
        return compare_with_differences(call, seed, atol, rtol)
    expected = Call(reference, inputs)
    failures: list[GradientFailure] = []
    compared = 0
    for variant in ("contiguous", "grad not contiguous", "inputs not contiguous") if layouts else ("contiguous",):
        try:
            results, grads, changed = _run(call, seed, variant)
        except Exception as error:
            # To refuse a layout is correct; to compute wrong numbers is not.
            if variant == "contiguous":
                message = f"{type(error).__name__}: {error}"
                failures.append(GradientFailure("ExecutionError", "op", message, variant))
            continue
        failures += [GradientFailure("InputModified", name, f"{name} was changed", variant) for name in changed]
        missing = [name for name, grad in grads.items() if grad is None]
        given = {k: v for k, v in grads.items() if v is not None}
        exact = _exact(expected, tuple(results), tuple(given), seed)
        verdict = _judged(exact, call, results, given)
        compared += verdict.decided
        failures += _zero_expected(expected, call, missing, seed, variant)
        actual = {f"result {path}".rstrip(): as_array(one) for path, one in results.items()}
        actual |= {name: as_array(one) for name, one in given.items()}
        inputs = {name: as_array(call.inputs[name]) for name in call.differentiable}
        actual = with_subgradients(_of_arrays(exact), inputs, verdict, actual)
        failures += failures_of(verdict, actual, variant, atol, rtol)
        if failures:
            break
    return GradientCheck("reference", compared, tuple(failures))


def _run(call: Call, seed: int, variant: str) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
    """Return results, gradients by ``grad of NAME``, and the tensors that were changed in place."""
    given = {}
    for name in call.differentiable:
        tensor = call.inputs[name].detach()
        tensor = _scattered(tensor) if variant == "inputs not contiguous" else tensor.clone()
        given[name] = tensor.requires_grad_()
    before = {name: tensor.detach().clone() for name, tensor in given.items()}
    results = call(given)
    cotangents = cotangents_of(results, seed)
    if not cotangents:
        raise GradientNotCheckedError("no result has a gradient")
    if variant == "grad not contiguous":
        cotangents = {path: _scattered(one) for path, one in cotangents.items()}
    kept = {path: one.clone() for path, one in cotangents.items()}
    values = {path: result.detach().clone() for path, result in results.items()}
    grads = gradients_of(results, cotangents, given, retain=True)
    again = gradients_of(results, cotangents, given, retain=False)
    changed = [name for name, tensor in given.items() if not _same(tensor.detach(), before[name])]
    changed += [
        f"the gradient of result {path}".rstrip() for path, one in cotangents.items() if not _same(one, kept[path])
    ]
    changed += [
        f"what is saved for {name}"
        for name, grad in grads.items()
        if grad is not None and again[name] is not None and not _close(grad, again[name])
    ]
    return values, grads, changed


def _scattered(tensor: Any) -> Any:
    """Return a copy whose elements are not contiguous in memory: every other element of a buffer."""
    if not tensor.ndim:
        return tensor.clone()
    buffer = torch.full(
        (*tensor.shape[:-1], 2 * tensor.shape[-1]), float("nan"), dtype=tensor.dtype, device=tensor.device
    )
    view = buffer[..., ::2]
    view.copy_(tensor)
    return view


def _same(left: Any, right: Any) -> bool:
    return bool(torch.equal(torch.nan_to_num(left), torch.nan_to_num(right)))


def _close(left: Any, right: Any) -> bool:
    # Atomic additions of a GPU differ from run to run.
    return bool(torch.allclose(left, right, rtol=1e-2, atol=1e-5, equal_nan=True))


def _exact(
    expected: Call, paths: tuple[str, ...], names: tuple[str, ...], seed: int
) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return the results and gradients of the reference as a function of tensors by name."""

    def function(values: Mapping[str, Any]) -> tuple[Any, ...]:
        with torch.enable_grad():
            given = {name: tensor.detach().requires_grad_() for name, tensor in values.items()}
            wanted = expected(given)
            if tuple(wanted) != paths:
                raise ValueError("the reference has another structure of results")
            found = gradients_of(wanted, cotangents_of(wanted, seed, wide=True), given, retain=False)
        zeros = {name: torch.zeros_like(given[name.removeprefix("grad of ")]) for name in names}
        return (
            *(one.detach() for one in wanted.values()),
            *(zeros[name] if found[name] is None else found[name] for name in names),
        )

    return function


def _of_arrays(function: Callable[[Mapping[str, Any]], tuple[Any, ...]]) -> Callable[[Mapping[str, Any]], list[Any]]:
    """Return a function of tensors as one of arrays."""
    return lambda values: [as_array(one) for one in function({k: torch.from_numpy(v) for k, v in values.items()})]


def _judged(
    function: Callable[[Mapping[str, Any]], tuple[Any, ...]],
    call: Call,
    results: Mapping[str, Any],
    grads: Mapping[str, Any],
) -> DerivedVerdict:
    inputs = {name: as_array(call.inputs[name]) for name in call.differentiable}
    outputs = {f"result {path}".rstrip(): as_array(one) for path, one in results.items()}
    outputs |= {name: as_array(one) for name, one in grads.items()}
    verdict = judge_result(function, inputs, outputs, torch=True)
    if verdict is None:
        raise GradientNotCheckedError("the reference cannot be differentiated in fp64 on the CPU")
    return verdict


def _zero_expected(
    expected: Call, call: Call, missing: list[str], seed: int, variant: str
) -> Iterator[GradientFailure]:
    """Yield a failure for each missing gradient that the reference has, and that is not zero."""
    if not missing:
        return
    given = {name: call.inputs[name].detach().double().cpu().requires_grad_() for name in call.differentiable}
    wanted = expected(given)
    found = gradients_of(wanted, cotangents_of(wanted, seed, wide=True), given, retain=False)
    for name in missing:
        if found[name] is not None and bool((found[name] != 0).any()):
            yield GradientFailure("MissingGradient", name, f"{name} is None, but the reference has one", variant)
