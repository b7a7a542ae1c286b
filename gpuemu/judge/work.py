"""The work of PyTorch's operators: multiplications of matrix products and convolutions, and elements of results."""

from __future__ import annotations

import itertools
import operator
import sys
from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

_MOVES = frozenset({"copy_", "_to_copy", "clone", "empty", "empty_like", "empty_strided", "detach", "fill_", "zero_"})
"""Operators that make or move tensors without computing."""


class WorkCounter(TorchDispatchMode):  # type: ignore[misc]
    """Counts the work of the operators in a ``with`` statement, by operator."""

    def __init__(self) -> None:
        super().__init__()
        self.by_operator: Counter[str] = Counter()
        self.extents: set[int] = set()
        """Dimensions of the results, and the products of the last ones of each."""

    @property
    def count(self) -> int:
        """The work of all operators."""
        return sum(self.by_operator.values())

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # What hides a mode from Dynamo imports it, which takes 1.5 s of processor time.
        return "torch._dynamo" in sys.modules

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operator and count it."""
        result = operation(*args, **(kwargs or {}))
        packet = operation._overloadpacket
        name = packet.__name__
        if name in _MOVES or any(
            value.alias_info is not None and not value.alias_info.is_write for value in operation._schema.returns
        ):
            return result
        if packet in flop_registry:
            self.by_operator[name] += flop_registry[packet](*args, **(kwargs or {}), out_val=result) // 2
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, torch.Tensor):
                self.by_operator[name] += value.numel()
                self.extents.update(value.shape, itertools.accumulate(reversed(value.shape), operator.mul))
        return result
