"""What explains a difference from the model in fp64: products in TF32, arithmetic in a narrow format, an approximation.

The model is evaluated with that in place of exact arithmetic. A result is explained if its errors are as large as those
of the evaluation: they are not the same errors, as an answer rounds other intermediate results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeAlias

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from gpuemu.judge.model import BF16, F16, TF32, Explanation

Tensors: TypeAlias = Sequence[torch.Tensor]
Rounding: TypeAlias = Callable[[torch.Tensor], torch.Tensor]

TANH_FORM = "the tanh form of GELU"
"""Answers use it for the exact one, from which it is up to 5e-4 away."""
_FACTOR = 3.0
"""How much larger the largest error of an explained result may be than that of the evaluation with rounding."""
_ROUNDOFFS = 64.0
"""Unit roundoffs of fp32, of the largest result, that sums in another order explain besides."""


def explanation(model: Callable[[], Tensors], results: Tensors) -> Explanation:
    """Return what explains the difference of results from a model, the most precise first.

    Parameters
    ----------
    model
        Evaluates the model in fp64.
    results
        Tensors of the shapes that the model returns.
    """
    tanh = _TanhForm()
    exact = {"": _evaluated(model), TANH_FORM: _evaluated(model, tanh)}
    approximations = ("", TANH_FORM) if tanh.calls else ("",)
    if tanh.calls and _within(results, exact[TANH_FORM], [0.0] * len(results)):
        return Explanation(TANH_FORM)
    narrow = any(result.dtype.itemsize < torch.float32.itemsize for result in results)
    for name, modes in _MODES.items():
        if narrow and name != TF32:
            continue  # the task itself has narrow results
        for approximation in approximations:
            base = exact[approximation]
            forms = [_TanhForm()] if approximation else []
            rounded = [_evaluated(model, mode, *forms) for mode in modes()]
            errors = [max(_largest(one[place], base[place]) for one in rounded) for place in range(len(base))]
            if any(errors) and _within(results, base, errors):
                return Explanation(approximation, name)
    return Explanation()


def _evaluated(model: Callable[[], Tensors], *modes: AbstractContextManager[object]) -> Tensors:
    with ExitStack() as stack, torch.no_grad():
        for mode in modes:
            stack.enter_context(mode)
        return model()


def _largest(actual: torch.Tensor, expected: torch.Tensor) -> float:
    """Return the largest absolute error; infinity if an element is NaN or infinite in one only."""
    if not expected.numel() or not expected.is_floating_point():
        return 0.0 if torch.equal(actual, expected) else torch.inf
    actual, expected = actual.double(), expected.double()
    error = (actual - expected).abs()
    error[(actual == expected) | (actual.isnan() & expected.isnan())] = 0.0
    return float(error.nan_to_num(torch.inf).max())


def _within(results: Tensors, exact: Tensors, errors: Sequence[float]) -> bool:
    return all(
        _largest(actual, expected) <= _FACTOR * error + _ROUNDOFFS * torch.finfo(torch.float32).eps * _scale(expected)
        for actual, expected, error in zip(results, exact, errors, strict=True)
    )


def _scale(expected: torch.Tensor) -> float:
    return float(expected.double().abs().nan_to_num(0.0, 0.0, 0.0).max()) if expected.numel() else 0.0


class _TanhForm(TorchFunctionMode):  # type: ignore[misc]
    """Computes the tanh form of GELU in place of the exact one, and counts its ``calls``."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if function is torch.nn.functional.gelu and kwargs.get("approximate", "none") == "none":
            self.calls += 1
            kwargs["approximate"] = "tanh"
        return function(*args, **kwargs)


class _RoundedProducts(TorchDispatchMode):  # type: ignore[misc]
    """Rounds the operands of matrix products and convolutions, and with ``all_results`` the result of each operator."""

    def __init__(self, rounding: Rounding, *, all_results: bool) -> None:
        super().__init__()
        self._rounding = rounding
        self._all_results = all_results

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operation._overloadpacket in flop_registry:
            args = [self._rounded(value) for value in args]
        result = operation(*args, **(kwargs or {}))
        writes = any(argument.alias_info is not None for argument in operation._schema.arguments)
        return self._rounded(result) if self._all_results and not writes else result

    def _rounded(self, value: Any) -> Any:
        floating = isinstance(value, torch.Tensor) and value.is_floating_point()
        return self._rounding(value) if floating else value


def _with_mantissa(bits: int, *, nearest: bool) -> Rounding:
    """Return the rounding to a mantissa of fp32 with fewer bits."""
    dropped = 23 - bits
    half = (1 << (dropped - 1)) if nearest else 0

    def rounded(tensor: torch.Tensor) -> torch.Tensor:
        words = tensor.float().contiguous().view(torch.int32)
        return ((words + half) & ~((1 << dropped) - 1)).view(torch.float32).to(tensor.dtype)

    return rounded


def _tf32() -> Iterator[_RoundedProducts]:
    """Yield both roundings of TF32: converted operands are rounded to nearest, others are truncated."""
    for nearest in (True, False):
        yield _RoundedProducts(_with_mantissa(10, nearest=nearest), all_results=False)


def _f16() -> Iterator[_RoundedProducts]:
    yield _RoundedProducts(_with_mantissa(10, nearest=True), all_results=True)


def _bf16() -> Iterator[_RoundedProducts]:
    yield _RoundedProducts(_with_mantissa(7, nearest=True), all_results=True)


_MODES: dict[str, Callable[[], Iterator[_RoundedProducts]]] = {TF32: _tf32, F16: _f16, BF16: _bf16}
