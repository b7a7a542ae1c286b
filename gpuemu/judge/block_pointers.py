"""Block pointers of Triton, for answers that were written for versions before 3.9, which has none.

A block pointer is the address of a tensor with its sizes, strides and the offsets of a block. Loads and stores compute
the addresses of the block's elements, and compare the dimensions of ``boundary_check`` with the sizes, as those
versions do where the hardware does not copy the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton.language as tl
from triton.language import core

_NAN = "nan"


class BlockPointerType(core.base_type):  # type: ignore[misc]
    """The type of a block pointer: those of its ``parts``, and the sizes of its block."""

    def __init__(self, parts: Any, block: tuple[int, ...]) -> None:
        self.parts = parts
        self.block = block

    @property
    def element_ty(self) -> Any:
        """The type of the block, whose own ``element_ty`` is that of its elements."""
        return core.block_type(self.parts.types[0].element_ty, list(self.block))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BlockPointerType) and (self.parts, self.block) == (other.parts, other.block)

    def __hash__(self) -> int:
        return hash(self.block)

    def __str__(self) -> str:
        return f"block_pointer<{self.element_ty}>"

    def mangle(self) -> str:
        """Return the part of a function's name that differs between instances."""
        return f"BP{self.parts.mangle()}B{'_'.join(map(str, self.block))}"

    def _flatten_ir_types(self, builder: Any, out: list[Any]) -> None:
        self.parts._flatten_ir_types(builder, out)

    def _unflatten_ir(self, handles: list[Any], cursor: int) -> tuple[BlockPointer, int]:
        parts, cursor = self.parts._unflatten_ir(handles, cursor)
        return BlockPointer(parts.values, self.block), cursor


class BlockPointer(core.base_value):  # type: ignore[misc]
    """The base of a tensor, and for each dimension the size, the stride and the offset of the block, one list."""

    def __init__(self, parts: Sequence[Any], block: tuple[int, ...]) -> None:
        self._parts = core.tuple(parts)
        self._block = block
        self.type = BlockPointerType(self._parts.type, block)

    @property
    def dtype(self) -> Any:
        """What Triton calls the type of a pointer."""
        return self.type

    @core.builtin  # type: ignore[untyped-decorator]
    def advance(self, offsets: Any, _semantic: Any = None) -> BlockPointer:
        """Return a pointer to the block that is further by offsets."""
        given = _integers(offsets, core.int32, _semantic)
        rank = len(self._block)
        assert len(given) == rank, f"{rank} offsets expected, not {len(given)}"
        before = self._parts.values[-rank:]
        after = [one.__add__(other, _semantic=_semantic) for one, other in zip(before, given, strict=True)]
        return BlockPointer([*self._parts.values[:-rank], *after], self._block)

    def elements(self, boundary_check: Any, semantic: Any) -> tuple[Any, Any]:
        """Return the addresses of the elements, and which of them are within the checked dimensions, None for all."""
        base, *numbers = self._parts.values
        rank = len(self._block)
        sizes, strides, offsets = (numbers[start : start + rank] for start in range(0, 3 * rank, rank))
        checked = {int(core._unwrap_if_constexpr(one)) for one in _listed(boundary_check)}
        pointers, mask = base, None
        for dimension, extent in enumerate(self._block):
            places = core.arange(0, extent, _semantic=semantic)
            for axis in range(rank):
                if axis != dimension:
                    places = core.expand_dims(places, axis, _semantic=semantic)
            places = places.to(core.int64, _semantic=semantic)
            places = places.__add__(offsets[dimension].to(core.int64, _semantic=semantic), _semantic=semantic)
            step = places.__mul__(strides[dimension], _semantic=semantic)
            pointers = pointers.__add__(step, _semantic=semantic)
            if dimension in checked:
                inside = places.__ge__(0, _semantic=semantic).__and__(
                    places.__lt__(sizes[dimension], _semantic=semantic), _semantic=semantic
                )
                mask = inside if mask is None else mask.__and__(inside, _semantic=semantic)
        return pointers, mask

    def _set_name(self, builder: Any, name: str) -> None:
        self._parts._set_name(builder, name)

    def _flatten_ir(self, handles: list[Any]) -> None:
        self._parts._flatten_ir(handles)


def install() -> None:
    """Give Triton the functions of block pointers, and loads and stores through them."""
    original_load, original_store = core.load, core.store

    @core.builtin  # type: ignore[untyped-decorator]
    def make_block_ptr(
        base: Any, shape: Any, strides: Any, offsets: Any, block_shape: Any, order: Any, _semantic: Any = None
    ) -> BlockPointer:
        block = tuple(int(core._unwrap_if_constexpr(size)) for size in _listed(block_shape))
        wide = [*_integers(shape, core.int64, _semantic), *_integers(strides, core.int64, _semantic)]
        narrow = _integers(offsets, core.int32, _semantic)
        assert len(wide) == 2 * len(narrow) == 2 * len(block), "sizes, strides, offsets and block are of one rank"
        return BlockPointer([base, *wide, *narrow], block)

    @core.builtin  # type: ignore[untyped-decorator]
    def advance(base: Any, offsets: Any, _semantic: Any = None) -> Any:
        return base.advance(offsets, _semantic=_semantic)

    @core.builtin  # type: ignore[untyped-decorator]
    def load(
        pointer: Any,
        mask: Any = None,
        other: Any = None,
        boundary_check: Any = (),
        padding_option: Any = "",
        _semantic: Any = None,
        **named: Any,
    ) -> Any:
        if isinstance(pointer, BlockPointer):
            assert mask is None and other is None, "a load through a block pointer has no mask"
            padding = core._unwrap_if_constexpr(padding_option)
            pointer, mask = pointer.elements(boundary_check, _semantic)
            if mask is not None and padding:
                other = float("nan") if padding == _NAN else 0
        return original_load(pointer, mask, other, _semantic=_semantic, **named)

    @core.builtin  # type: ignore[untyped-decorator]
    def store(
        pointer: Any, value: Any, mask: Any = None, boundary_check: Any = (), _semantic: Any = None, **named: Any
    ) -> Any:
        if isinstance(pointer, BlockPointer):
            assert mask is None, "a store through a block pointer has no mask"
            pointer, mask = pointer.elements(boundary_check, _semantic)
        return original_store(pointer, value, mask, _semantic=_semantic, **named)

    for function in (make_block_ptr, advance, load, store):
        for module in (core, tl):
            setattr(module, function.__name__, function)


def _listed(value: Any) -> list[Any]:
    value = core._unwrap_if_constexpr(value)
    return list(value) if hasattr(value, "__iter__") else [value]


def _integers(values: Any, dtype: Any, semantic: Any) -> list[Any]:
    """Return numbers as scalars of a type."""
    return [semantic.to_tensor(one).to(dtype, _semantic=semantic) for one in _listed(values)]
