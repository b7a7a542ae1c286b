"""The context that ``torch.autograd.Function`` passes to ``forward``, and a stand-in for calls of a ground truth."""

from __future__ import annotations

import sys
from typing import Any


class StandInContext:
    """Accepts and forgets what ``forward`` saves in its context."""

    needs_input_grad: tuple[bool, ...] = ()
    saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Accept tensors."""
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Accept tensors."""

    def mark_dirty(self, *tensors: Any) -> None:
        """Accept tensors."""

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Accept tensors."""

    def set_materialize_grads(self, value: bool) -> None:
        """Accept the choice."""


def is_context(value: object) -> bool:
    """Return whether ``value`` is the context of a ``torch.autograd.Function``."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.autograd.function.FunctionCtx)
