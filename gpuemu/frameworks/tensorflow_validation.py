"""Validation of TensorFlow functions: against the references of gpuemu.toml, as graphs, and compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import tensorflow as tf

from gpuemu.client import Client
from gpuemu.frameworks.differentiation import NamedCall, checked_gradients
from gpuemu.frameworks.gradient_records import Inputs
from gpuemu.frameworks.reference_gradients import compared_gradients, cotangent_of
from gpuemu.frameworks.tensorflow_arrays import TensorflowFramework
from gpuemu.frameworks.transformed_results import called, results_equal
from gpuemu.results import FuzzResults, ValidationError
from gpuemu.validate import validate_op
from gpuemu.verifier.values import Array, as_array

_FRAMEWORK = TensorflowFramework()
_UNTRACEABLE = (tf.errors.OpError, TypeError, ValueError, NotImplementedError, AttributeError)
"""Errors of a function that runs eagerly, but not as a graph: it needs the values of its tensors, or an operation that
XLA does not have."""


class _WatchingTape(tf.GradientTape):  # type: ignore[misc]
    """A tape that watches tensors as it does variables."""

    def __init__(self, tensors: tuple[Any, ...]) -> None:
        super().__init__(persistent=True)
        self._tensors = tensors
        self.entered = False

    def __enter__(self) -> Self:
        super().__enter__()
        self.entered = True
        self.watch([one for one in self._tensors if not isinstance(one, tf.Variable)])
        return self


@contextmanager
def validate_tensorflow(
    client: Client,
    op: str,
    inputs: Mapping[str, Any],
    check_gradient: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    **kwargs: Any,
) -> Iterator[dict[str, Any]]:
    """Validate the tensors that the block stores in ``ctx["output"]``; ``ctx["result"]`` is the result afterwards.

    With ``check_gradient`` the block computes it inside ``with ctx["tape"]:``, which watches the inputs. The gradients
    are compared with finite differences of the reference; ``ctx["gradients"]`` has those results by input.

    Raises
    ------
    ValidationError
        If the output or a gradient is wrong.
    ValueError
        If the block stores no output, or one that the tape did not record for ``check_gradient``.
    """
    sources = {name: one for name, one in inputs.items() if _is_source(one)}
    # Read before the block: it may assign to a variable.
    arrays = {name: np.array(as_array(_FRAMEWORK.tensor(one))) for name, one in inputs.items()}
    tape = _WatchingTape(tuple(sources.values()))
    # TensorFlow rounds the result of each operation to its dtype.
    with validate_op(client, op, arrays, atol=atol, rtol=rtol, each_operation_rounds=True, **kwargs) as context:
        context["tape"] = tape
        yield context
    if not check_gradient:
        return
    grads, cotangent = _pulled_back(op, tape, sources, context["output"])
    context["gradients"] = compared_gradients(client, op, arrays, grads, cotangent, (atol, rtol), kwargs)
    for result in context["gradients"].values():
        if not result.passed:
            raise ValidationError(result)


def fuzz_tensorflow_op(
    client: Client,
    op: str,
    run_op: Callable[..., Any],
    iterations: int = 100,
    seed: int | None = None,
    fail_fast: bool = False,
    check_gradient: bool = False,
    check_xla: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    **options: Any,
) -> FuzzResults:
    """Run a function on tensors of drawn values; ``options`` as for :meth:`Client.fuzz_op_client_side`.

    ``run_op`` gets the tensors by name, or a dict of them if its parameters have other names. ``check_xla`` compares
    its result with that of XLA; with ``check_gradient`` its gradients are compared with finite differences of the
    reference.
    """

    def run(inputs: dict[str, Any]) -> Any:
        tensors = {name: tf.convert_to_tensor(array) for name, array in inputs.items()}
        if check_xla and not check_xla_compatible(lambda **given: called(run_op, given), tensors):
            raise AssertionError("the result of XLA is another one")
        if not check_gradient:
            return called(run_op, tensors)
        with (
            validate_tensorflow(client, op, tensors, check_gradient=True, atol=atol, rtol=rtol) as context,
            context["tape"],
        ):
            context["output"] = called(run_op, tensors)
        return context["output"]

    options = {"each_operation_rounds": True, **options}
    return client.fuzz_op_client_side(op, run, iterations, seed, fail_fast, atol=atol, rtol=rtol, **options)


def check_keras_layer(
    layer: Callable[[Any], Any],
    input_shape: tuple[int, ...],
    client: Client,
    op: str,
    atol: float | None = None,
    rtol: float | None = None,
    **kwargs: Any,
) -> bool:
    """Return whether the result and the gradient of a layer are those of an op with one input ``x``.

    The input is drawn from a normal distribution; its shape includes the batch.
    """
    x = tf.constant(np.random.default_rng(0).standard_normal(input_shape), tf.float32)
    try:
        with (
            validate_tensorflow(client, op, {"x": x}, True, atol, rtol, **kwargs) as context,
            context["tape"],
        ):
            context["output"] = layer(x)
    except ValidationError:
        return False
    return True


def check_tf_function_safe(op: Callable[..., Any], inputs: Inputs, rtol: float = 1e-6, atol: float = 1e-6) -> bool:
    """Return whether a function has the same result under ``tf.function``; one that cannot be traced has none."""
    return _same_as_graph(op, inputs, rtol, atol, None)


def check_xla_compatible(op: Callable[..., Any], inputs: Inputs, rtol: float = 1e-5, atol: float = 1e-5) -> bool:
    """Return whether a function compiled by XLA has the same result; one that XLA cannot compile has none.

    Results in 16 bits or less may also differ by rounding of the operations that XLA fuses.
    """
    return _same_as_graph(op, inputs, rtol, atol, True)


def validate_custom_gradient(
    func: Callable[..., Any],
    gradient_func: Callable[..., Any] | None,
    inputs: Inputs,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Return whether the gradient that TensorFlow takes of a function agrees with finite differences in fp64.

    ``gradient_func`` and ``eps`` are accepted for programs written for the original and not used: the gradient of a
    ``tf.custom_gradient`` is that of ``func``. The result has ``gradient_ok``, ``details`` and ``max_diff``.

    Raises
    ------
    GradientNotCheckedError
        If the function does not run in fp64.
    """
    found = checked_gradients(_FRAMEWORK, func, inputs, None, seed=0, atol=atol, rtol=rtol)
    differences = [abs((one.actual or 0.0) - (one.expected or 0.0)) for one in found.failures]
    return {
        "gradient_ok": found.passed,
        "details": [one.message for one in found.failures],
        "max_diff": max(differences, default=0.0),
    }


def _same_as_graph(op: Callable[..., Any], inputs: Inputs, rtol: float, atol: float, compile_it: bool | None) -> bool:
    call = NamedCall.of(_FRAMEWORK, op, inputs)
    eager = call({})
    given = {name: one for name, one in call.inputs.items() if tf.is_tensor(one)}
    try:
        compiled = tf.function(lambda values: call(values), jit_compile=compile_it)(given)
    except _UNTRACEABLE:
        return False
    return results_equal(eager, compiled, rtol, atol)


def _is_source(value: Any) -> bool:
    return isinstance(value, tf.Variable | tf.Tensor) and bool(value.dtype.is_floating)


def _pulled_back(
    op: str, tape: _WatchingTape, sources: Mapping[str, Any], output: Any
) -> tuple[dict[str, Array | None], Array]:
    """Return the gradients by input for a random cotangent of the output, and that cotangent."""
    missing = f"the gradients of '{op}' were not validated: "
    if not _is_source(output):
        raise ValueError(missing + "its output is not a tensor of floating-point numbers")
    cotangent = tf.cast(cotangent_of(tuple(output.shape), 0), output.dtype)
    grads = tape.gradient(output, list(sources.values()), output_gradients=cotangent) if tape.entered else []
    if all(grad is None for grad in grads):
        raise ValueError(missing + 'ctx["output"] was not computed from tensors inside `with ctx["tape"]:`')
    by_name = {
        name: None if grad is None else as_array(tf.convert_to_tensor(grad))
        for name, grad in zip(sources, grads, strict=True)
    }
    # In the dtype of the output, as the function got it.
    return by_name, as_array(cotangent).astype(np.float64)
