"""Validation of PyTorch operations against the references of gpuemu.toml."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from gpuemu.client import Client
from gpuemu.frameworks.reference_gradients import compared_gradients
from gpuemu.results import FuzzResults, ValidationError, ValidationResult
from gpuemu.validate import validate_op
from gpuemu.verifier.values import as_array
from gpuemu_lsp.engine.subjects.ops.tensors import to_tensor


@contextmanager
def validate_pytorch(
    client: Client,
    op: str,
    inputs: Mapping[str, Any],
    check_backward: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    **kwargs: Any,
) -> Iterator[dict[str, Any]]:
    """Validate the tensors that the block stores in ``ctx["output"]``; ``ctx["result"]`` is the result afterwards.

    With ``check_backward`` the inputs get ``requires_grad``, and their gradients of the output are compared with finite
    differences of the reference; ``ctx["gradients"]`` has those results by input.

    Raises
    ------
    ValidationError
        If the output or a gradient is wrong.
    ValueError
        If the block stores no output, or one without a gradient for ``check_backward``.
    """
    floats = {name: one for name, one in inputs.items() if isinstance(one, torch.Tensor) and one.is_floating_point()}
    before = {name: one.requires_grad for name, one in floats.items()}
    given = {name: one.detach().clone() for name, one in floats.items()} if check_backward else {}
    if check_backward:
        for one in floats.values():
            one.requires_grad_()
    try:
        with validate_op(client, op, inputs, atol=atol, rtol=rtol, **kwargs) as context:
            yield context
        if check_backward:
            found = _gradients(client, op, {**inputs, **given}, floats, context["output"], (atol, rtol), kwargs)
            context["gradients"] = found
            for result in found.values():
                if not result.passed:
                    raise ValidationError(result)
    finally:
        for name, one in floats.items():
            if one.is_leaf:
                one.requires_grad_(before[name])


def fuzz_pytorch_op(
    client: Client,
    op: str,
    run_op: Callable[[dict[str, Any]], Any],
    iterations: int = 100,
    seed: int | None = None,
    fail_fast: bool = False,
    check_backward: bool = False,
    atol: float | None = None,
    rtol: float | None = None,
    *,
    device: str = "cpu",
    **options: Any,
) -> FuzzResults:
    """Run an operation on tensors of drawn values; ``options`` as for :meth:`Client.fuzz_op_client_side`.

    With ``check_backward`` the gradients of each case are compared with finite differences of the reference.
    """

    def run(inputs: dict[str, Any]) -> Any:
        tensors = {name: to_tensor(array).to(device) for name, array in inputs.items()}
        if not check_backward:
            return run_op(tensors)
        with validate_pytorch(client, op, tensors, check_backward=True, atol=atol, rtol=rtol) as context:
            context["output"] = run_op(tensors)
        return context["output"]

    return client.fuzz_op_client_side(op, run, iterations, seed, fail_fast, atol=atol, rtol=rtol, **options)


def _gradients(
    client: Client,
    op: str,
    inputs: Mapping[str, Any],
    floats: Mapping[str, Any],
    output: Any,
    tolerance: tuple[float | None, float | None],
    kwargs: Mapping[str, Any],
) -> dict[str, ValidationResult]:
    if not isinstance(output, torch.Tensor) or not output.requires_grad:
        raise ValueError(f"the gradients of '{op}' were not validated: its output has none")
    generator = torch.Generator().manual_seed(0)
    cotangent = (torch.randint(-16, 17, tuple(output.shape), generator=generator) / 8).to(output)
    names = [name for name, one in floats.items() if one.requires_grad]
    grads = torch.autograd.grad(
        output, [floats[name] for name in names], cotangent, allow_unused=True, retain_graph=True
    )
    actual = {name: None if grad is None else as_array(grad) for name, grad in zip(names, grads, strict=True)}
    arrays = {name: as_array(one) for name, one in inputs.items()}
    return compared_gradients(client, op, arrays, actual, as_array(cotangent), tolerance, kwargs)
