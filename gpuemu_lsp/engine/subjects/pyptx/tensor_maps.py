"""The tensor maps that pyptx makes of its tensors at a launch: ``synthesize_tma_descriptor`` and ``.._3d``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuemu_lsp.engine.tensor_map import TensorMap

_SWIZZLES = {"TMA_128B": 3, "TMA_64B": 2, "TMA_32B": 1}
_TYPES = ("bf16", "f16", "f32", "f64")
_DEFAULT_ROWS = 128
_CHUNK, _PADDED_CHUNK = 64, 72
"""Columns of one chunk of a map of rank 3, and of its box with padding."""


class TensorMapError(ValueError):
    """pyptx makes no tensor map of such a tensor."""


def tensor_map_of(tile: Any, shape: Sequence[int], element: int, box: Sequence[int] | None) -> TensorMap:
    """Return the map of a tensor whose address is 0.

    Parameters
    ----------
    tile
        pyptx's description of the tensor: layout, rank and padding of the map.
    shape
        Its rows and columns.
    element
        Bytes of an element.
    box
        Rows and columns of a box, if the tile has one.

    Raises
    ------
    TensorMapError
        If pyptx refuses the tensor.
    """
    if len(shape) != 2:
        raise TensorMapError(f"pyptx makes tensor maps of tensors with two dimensions, not {len(shape)}")
    rows, columns = shape
    if tile.tma_rank == 3:
        if box is None:
            raise TensorMapError("a tensor map of rank 3 needs a `tma_box`")
        if columns % _CHUNK:
            raise TensorMapError(f"a tensor map of rank 3 needs columns that are a multiple of {_CHUNK}, not {columns}")
        chunk = _PADDED_CHUNK if tile.tma_padding else _CHUNK
        return TensorMap(
            0,
            (_CHUNK, rows, columns // _CHUNK),
            (columns * element, _CHUNK * element),
            (chunk, box[0], box[1] // _CHUNK),
            element,
            3 if tile.layout.name == "TMA_128B" else 0,
            tensor_type(tile),
        )
    swizzle = _SWIZZLES.get(tile.layout.name, 0)
    if box is None:
        width = 16 << swizzle if swizzle else 128
        box = (_DEFAULT_ROWS, max(width // element, 1))
    return TensorMap(
        0,
        (columns, rows),
        (columns * element,),
        (min(box[1], columns), min(box[0], rows)),
        element,
        swizzle,
        tensor_type(tile),
    )


def tensor_type(tile: Any) -> str:
    """Return the type of the map's elements."""
    name = str(tile.dtype.name)
    if name not in _TYPES:
        raise TensorMapError(f"pyptx makes no tensor maps of {name} elements, only of {', '.join(_TYPES)}")
    return name
