"""Symbolic values of expressions in a function that launches kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tree_sitter import Node as Syntax

from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.symbolic.size import Size, product, symbol

MAX_TEXT = 512
"""Longest text of a size; longer ones are not known."""


@dataclass(frozen=True, slots=True)
class UnknownValue:
    """A value that only a run determines; ``reason`` is the expression."""

    reason: str


@dataclass(frozen=True, slots=True)
class LiteralValue:
    """A float, boolean, text or None."""

    value: float | bool | str | None


@dataclass(frozen=True, slots=True)
class Quotient(LiteralValue):
    """The float ``left / right`` of two integers, which ``math.ceil`` or ``int`` makes an integer again."""

    left: Size
    right: Size


@dataclass(frozen=True, slots=True)
class DataType:
    """A dtype of PyTorch by its name in NumPy; empty for that of the parameters, which the check chooses."""

    name: str


@dataclass(frozen=True, slots=True)
class ValueSequence:
    """A tuple or list."""

    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class BoundKernel:
    """A kernel with its grid: ``kernel[grid]``."""

    kernel: str
    grid: Value


@dataclass(frozen=True, slots=True)
class LocalFunction:
    """A function or lambda of the module, or of ``module`` if that is another one.

    ``names`` are the variables that it sees, ``owner`` is the object of a method.
    """

    node: Syntax
    names: Mapping[str, Value] = field(compare=False, repr=False)
    owner: Value | None = field(default=None, compare=False, repr=False)
    module: ModuleScope | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class DottedName:
    """A name of another module, such as ``torch.empty``; or a kernel of this one."""

    text: str


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer of ``torch.nn``, which returns a tensor of another shape when it is called."""

    name: str


@dataclass(slots=True, eq=False)
class Storage:
    """The memory of a tensor.

    ``state`` is ``given`` (a parameter), ``empty`` (not initialised) or ``filled``. ``bounds`` are those of integers,
    half-open. ``certain``: the extents are known, not assumed. ``shared``: something besides the launch may use it.
    """

    name: str
    shape: tuple[Size, ...]
    dtype: str
    state: str
    certain: bool = True
    bounds: tuple[Size, Size] | None = None
    shared: bool = False
    launches: int = 0


@dataclass(frozen=True, slots=True)
class SymbolicTensor:
    """A tensor; ``strides`` in elements, None for a contiguous one."""

    storage: Storage
    shape: tuple[Size, ...]
    dtype: str
    strides: tuple[Size, ...] | None = None
    offset: Size | None = None
    """The index of the first element in the storage, in elements; None for 0."""

    def stride(self, axis: int) -> Size:
        """Return the distance of neighbours along an axis, in elements."""
        if self.strides is not None:
            return self.strides[axis]
        return product(self.shape[axis % len(self.shape) + 1 :])


@dataclass(slots=True, eq=False)
class ObjectValue:
    """An object of a class of the module, or a dictionary; ``methods`` are those of the class."""

    methods: Mapping[str, Syntax]
    attributes: dict[str, Value] = field(default_factory=dict)
    complete: bool = True
    """A dictionary has no other keys."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the evaluated function: a number or a tensor, depending on its use."""

    name: str


Value: TypeAlias = (
    "Size | UnknownValue | LiteralValue | DataType | ValueSequence | LocalFunction | DottedName"
    " | SymbolicTensor | Parameter | ObjectValue | BoundKernel | Layer"
)
Evaluate: TypeAlias = Callable[[Syntax], Value]


def named(name: str) -> Size:
    """Return a dim, or a number of the caller: the sizes that checks draw are positive."""
    return symbol(name, 1)
