"""Validation of JAX functions: against the references of gpuemu.toml, and under JAX's transformations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpuemu.client import Client
from gpuemu.frameworks.differentiation import NamedCall
from gpuemu.frameworks.gradient_records import Inputs
from gpuemu.frameworks.jax_arrays import JaxFramework
from gpuemu.frameworks.reference_gradients import compared_gradients, cotangent_of
from gpuemu.frameworks.transformed_results import called, plain, results_equal
from gpuemu.results import FuzzResults, ValidationError
from gpuemu.validate import validate_op
from gpuemu.verifier.comparison import Tolerance, compare
from gpuemu.verifier.values import as_array, leaves, mapped

_FRAMEWORK = JaxFramework()
_UNTRACEABLE = (jax.errors.JAXTypeError, jax.errors.JAXIndexError)
"""Errors of a function that needs the values of its arguments while it is traced."""


@contextmanager
def validate_jax(
    client: Client,
    op: str,
    inputs: Mapping[str, Any],
    check_backward: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    **kwargs: Any,
) -> Iterator[dict[str, Any]]:
    """Validate the arrays that the block stores in ``ctx["output"]``; ``ctx["result"]`` is the result afterwards.

    With ``check_backward`` the block also stores the pullback, ``ctx["output"], ctx["vjp"] = jax.vjp(f, *arrays)`` with
    the inputs in order, or with all of them as a dict. The gradients are compared with finite differences of the
    reference; ``ctx["gradients"]`` has those results by input.

    Raises
    ------
    ValidationError
        If the output or a gradient is wrong.
    ValueError
        If the block stores no output, or no pullback for ``check_backward``.
    """
    # JAX rounds the result of each operation to its dtype.
    with validate_op(client, op, inputs, atol=atol, rtol=rtol, each_operation_rounds=True, **kwargs) as context:
        yield context
    if not check_backward:
        return
    if "vjp" not in context:
        raise ValueError(f"the gradients of '{op}' were not validated: the block did not set ctx[\"vjp\"]")
    grads, cotangent = _pulled_back(context, inputs)
    arrays = {name: as_array(one) for name, one in inputs.items()}
    context["gradients"] = compared_gradients(client, op, arrays, grads, cotangent, (atol, rtol), kwargs)
    for result in context["gradients"].values():
        if not result.passed:
            raise ValidationError(result)


def fuzz_jax_op(
    client: Client,
    op: str,
    run_op: Callable[..., Any],
    iterations: int = 100,
    seed: int | None = None,
    fail_fast: bool = False,
    check_vmap: bool = False,
    check_jit: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    *,
    check_backward: bool = False,
    **options: Any,
) -> FuzzResults:
    """Run a function on arrays of drawn values; ``options`` as for :meth:`Client.fuzz_op_client_side`.

    ``run_op`` gets the arrays by name, or a dict of them if its parameters have other names. ``check_jit`` compares its
    result with that under ``jax.jit``, and ``check_vmap`` that of a batch under ``jax.vmap``; with ``check_backward``
    its gradients are compared with finite differences of the reference.
    """

    def run(inputs: dict[str, Any]) -> Any:
        arrays = {name: jnp.asarray(array) for name, array in inputs.items()}
        if check_jit and not check_jit_safe(lambda **given: called(run_op, given), arrays):
            raise AssertionError("the result under jax.jit is another one")
        if check_vmap:
            batch = {name: jnp.stack([array, array[::-1] if array.ndim else array]) for name, array in arrays.items()}
            if not check_vmap_compatible(lambda **given: called(run_op, given), batch):
                raise AssertionError("the result under jax.vmap is another one")
        if not check_backward:
            return called(run_op, arrays)
        with validate_jax(client, op, arrays, check_backward=True, atol=atol, rtol=rtol) as context:
            context["output"], context["vjp"] = _vjp(run_op, arrays)
        return context["output"]

    options = {"each_operation_rounds": True, **options}
    return client.fuzz_op_client_side(op, run, iterations, seed, fail_fast, atol=atol, rtol=rtol, **options)


def check_jit_safe(op: Callable[..., Any], inputs: Inputs, rtol: float = 1e-6, atol: float = 1e-6) -> bool:
    """Return whether a function has the same result under ``jax.jit``; one that cannot be traced has none.

    Results in 16 bits or less may also differ by rounding of the operations that ``jax.jit`` fuses.
    """
    call = NamedCall.of(_FRAMEWORK, op, inputs)
    try:
        compiled = jax.jit(lambda given: call(given))(_arrays(call))
    except _UNTRACEABLE:
        return False
    return results_equal(call({}), compiled, rtol, atol)


def check_vmap_compatible(
    op: Callable[..., Any], inputs: Inputs, batch_axis: int = 0, rtol: float = 1e-5, atol: float = 1e-5
) -> bool:
    """Return whether ``jax.vmap`` of a function has the results of its calls with each item of a batch.

    All arrays of the inputs have the axis ``batch_axis``, which the function does not see.
    """
    call = NamedCall.of(_FRAMEWORK, op, inputs)
    batch = _arrays(call)
    count = next(iter(batch.values())).shape[batch_axis]
    try:
        together = jax.vmap(lambda given: call(given), in_axes=(batch_axis,))(batch)
    except _UNTRACEABLE:
        return False
    apart = [call({name: jnp.take(one, i, axis=batch_axis) for name, one in batch.items()}) for i in range(count)]
    stacked = {path: np.stack([as_array(one[path]) for one in apart]) for path in apart[0]}
    return results_equal(stacked, together, rtol, atol)


def check_pmap_compatible(
    op: Callable[..., Any], inputs: Inputs, axis_name: str = "batch", rtol: float = 1e-5, atol: float = 1e-5
) -> bool:
    """Return whether ``jax.pmap`` of a function over all devices has the results of its calls with each item.

    The first axis of all arrays is the number of devices.
    """
    call = NamedCall.of(_FRAMEWORK, op, inputs)
    batch = _arrays(call)
    count = next(iter(batch.values())).shape[0]
    if count != jax.local_device_count():
        raise ValueError(f"the first axis has {count} items for {jax.local_device_count()} devices")
    together = jax.pmap(lambda given: call(given), axis_name=axis_name)(batch)
    apart = [call({name: one[i] for name, one in batch.items()}) for i in range(count)]
    return results_equal(
        {path: np.stack([as_array(one[path]) for one in apart]) for path in apart[0]}, together, rtol, atol
    )


def check_grad_safe(op: Callable[..., Any], inputs: Inputs, argnums: int | Sequence[int] = 0) -> bool:
    """Return whether the gradients of a function's summed result are finite. It does not say that they are right."""
    call = NamedCall.of(_FRAMEWORK, op, inputs)
    names = list(call.inputs)
    chosen = [names[one] for one in ([argnums] if isinstance(argnums, int) else argnums)]
    grads = jax.grad(lambda given: sum(one.sum() for one in call(given).values()))(
        {name: call.inputs[name] for name in chosen}
    )
    return all(bool(jnp.isfinite(one).all()) for one in grads.values())


def validate_jax_primitive(
    name: str,
    impl: Callable[..., Any],
    inputs: Inputs,
    expected: Any,
    check_jvp: bool = True,
    check_vmap: bool = True,
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> dict[str, Any]:
    """Return whether a function has the expected result: ``forward_ok``, ``jvp_ok``, ``vmap_ok``, and ``details``.

    ``jvp_ok`` says that its directional derivative is that of central differences in fp64; None if it was not checked.
    """
    call = NamedCall.of(_FRAMEWORK, impl, inputs)
    wanted = mapped(expected, lambda _, leaf: as_array(leaf))
    difference = compare(plain(call({})), leaves(wanted), Tolerance(rtol, atol))
    found: dict[str, Any] = {"name": name, "forward_ok": difference is None, "jvp_ok": None, "vmap_ok": None}
    found["details"] = [] if difference is None else [difference.message]
    if check_jvp:
        found["jvp_ok"] = _jvp_agrees(call, rtol, atol)
    if check_vmap:
        batch = {key: jnp.stack([one, one]) for key, one in _arrays(call).items()}
        found["vmap_ok"] = check_vmap_compatible(lambda **given: call(given), batch, rtol=rtol, atol=atol)
    found["details"] += [f"{key} is False" for key in ("jvp_ok", "vmap_ok") if found[key] is False]
    return found


def _jvp_agrees(call: NamedCall, rtol: float, atol: float) -> bool:
    step = 1e-5
    with _FRAMEWORK.in_fp64():
        centre = {name: jnp.asarray(as_array(call.inputs[name]).astype(np.float64)) for name in call.differentiable}
        tangent = {name: jnp.asarray(cotangent_of(one.shape, 1)) for name, one in centre.items()}
        _, derivative = jax.jvp(lambda given: dict(call(given)), (centre,), (tangent,))
        above, below = (
            call({name: one + sign * step * tangent[name] for name, one in centre.items()}) for sign in (1, -1)
        )
        slopes = {path: (above[path] - below[path]) / (2 * step) for path in above}
        return results_equal(derivative, slopes, max(rtol, 1e-6), max(atol, 1e-8))


def _vjp(run_op: Callable[..., Any], arrays: Mapping[str, Any]) -> tuple[Any, Callable[..., Any]]:
    floats = {name: one for name, one in arrays.items() if _FRAMEWORK.is_differentiable(one)}
    output, pullback = jax.vjp(lambda given: called(run_op, {**arrays, **given}), floats)
    return output, pullback


def _pulled_back(context: Mapping[str, Any], inputs: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
    """Return the gradients by input for a random cotangent of the first output, and that cotangent."""
    output = context["output"]
    paths = leaves(output)
    first = next(iter(paths))
    cotangent = cotangent_of(tuple(paths[first].shape), 0)
    given = mapped(
        output,
        lambda path, leaf: jnp.asarray(cotangent).astype(leaf.dtype) if path == first else jnp.zeros_like(leaf),
    )
    pulled = context["vjp"](given)
    if len(pulled) == 1 and isinstance(pulled[0], Mapping):
        by_name = dict(pulled[0])
    else:
        by_name = dict(zip(inputs, pulled, strict=True))
    grads = {
        name: as_array(grad)
        for name, grad in by_name.items()
        if _FRAMEWORK.is_differentiable(_FRAMEWORK.tensor(inputs[name]))
    }
    # In the dtype of the output, as the function got it.
    return grads, as_array(jnp.asarray(cotangent).astype(paths[first].dtype)).astype(np.float64)


def _arrays(call: NamedCall) -> dict[str, Any]:
    return {name: one for name, one in call.inputs.items() if isinstance(one, jax.Array)}
