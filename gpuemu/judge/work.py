"""The work of PyTorch's operators: multiplications of matrix products and convolutions, and elements of results."""

from __future__ import annotations

import itertools
import operator
import re
import sys
from collections import Counter
from functools import cache
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

_MOVES = frozenset({"copy_", "_to_copy", "clone", "empty", "empty_like", "empty_strided", "detach", "fill_", "zero_"})
"""Operators that make or move tensors without computing."""
_PRODUCTS = re.compile("mm|conv|attention")
"""What the names of operators have whose multiplications are counted."""
_MOST_ZEROS = 1 << 28
"""Elements of the tensors that stand for an operator's, which take memory."""


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
        try:
            result = operation(*args, **(kwargs or {}))
        except NotImplementedError:
            result = _on_zeros(operation, args, kwargs or {})
        packet = operation._overloadpacket
        name = packet.__name__
        if name in _MOVES or any(
            value.alias_info is not None and not value.alias_info.is_write for value in operation._schema.returns
        ):
            return result
        if _PRODUCTS.search(name) and packet in (counted := _counted()):
            self.by_operator[name] += counted[packet](*args, **(kwargs or {}), out_val=result) // 2
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, torch.Tensor):
                self.by_operator[name] += value.numel()
                self.extents.update(value.shape, itertools.accumulate(reversed(value.shape), operator.mul))
        return result


@cache
def _counted() -> Any:
    """Return the functions that count the operations of operators; their module imports Triton where it is."""
    from torch.utils.flop_counter import flop_registry

    return flop_registry


def _on_zeros(operation: Any, args: Any, kwargs: Any) -> Any:
    """Return the result, on the meta device, of an operator that this device does not have: its shapes for zeros.

    They depend on values, as those of ``bincount`` and ``unique`` do, which are not known.
    """
    given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor) and one.is_meta]
    if not given or operation._schema.is_mutable or sum(one.numel() for one in given) > _MOST_ZEROS:
        raise NotImplementedError(f"{operation} is not known on PyTorch's meta device")
    with torch._C.DisableTorchFunction():  # under which new tensors are on the meta device
        args, kwargs = tree_map_only(
            torch.Tensor, lambda tensor: torch.zeros_like(tensor, device="cpu"), (args, kwargs)
        )
        result = operation(*args, **kwargs)
        return tree_map_only(torch.Tensor, lambda tensor: torch.empty_like(tensor, device="meta"), result)
