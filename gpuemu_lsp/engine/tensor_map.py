"""Tensor maps: descriptors of tensors in global memory for the tensor memory accelerator (PTX ISA section 5.5).

The 128 bytes of a ``CUtensorMap`` are opaque: kernels hand them on, copy them, or change them by instructions. Here
they hold a record of our own, which begins with a magic number, so that other bytes are recognised as no tensor map.
CuTe DSL makes the bytes without the driver, as the hardware has them, and these are read too.

=======  =========================================================
bytes    content, little-endian
=======  =========================================================
0-7      magic number
8-15     address of the tensor
16-35    sizes of the dimensions in elements, the contiguous one first
40-71    distances in bytes of the second to fifth dimension
72-81    sizes of the box (the tile of one copy), 16 bits each
82-83    bytes of an element, swizzle: address bits changed, 0 to 3
84       rank
85       type of the elements, a number of ``ELEMENT_TYPES``, 0 if it is not known
86-90    distances in elements of those that a copy takes, one per dimension
91       1 if elements outside of the tensor are NaN, 0 if they are zero
92       interleaved layout: 0 for none, 1 and 2 for slices of 16 and 32 bytes
=======  =========================================================
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gpuemu_lsp.engine.execution import Buffer, StructArgument

MAP_BYTES: Final = 128
ADDRESS_OFFSET: Final = 8
"""Place of the tensor's address in a record."""

_MAGIC: Final = 0x70614D726F736E54
_LAYOUT: Final = struct.Struct("<QQ5I4x4Q5H4B5BBB")
_MOST_DIMENSIONS: Final = 5
_LARGEST_BOX: Final = 256
_LARGEST_ELEMENT_STRIDE: Final = 8
_ELEMENT_SIZES: Final = (1, 2, 4, 8)

ELEMENT_TYPES: Final = (
    "",
    "u8",
    "u16",
    "u32",
    "s32",
    "u64",
    "s64",
    "f16",
    "f32",
    "f64",
    "bf16",
    "f32ftz",
    "tf32",
    "tf32ftz",
)
"""Types of elements by number: those of ``CUtensorMapDataType``, plus 1."""

_REPLACED_TYPES: Final = (
    ("u8", 1),
    ("u16", 2),
    ("u32", 4),
    ("s32", 4),
    ("u64", 8),
    ("s64", 8),
    ("f16", 2),
    ("f32", 4),
    ("f32ftz", 4),
    ("f64", 8),
    ("bf16", 2),
    ("tf32", 4),
    ("tf32ftz", 4),
)
"""Types and bytes of elements by their numbers in ``tensormap.replace``, which are not those of the driver's API."""

_LAST_WHOLE_TYPE: Final = 10
"""Number of the last of these types in maps that CuTe DSL makes for the hardware."""

_HARDWARE_FLAGS: Final = 0x40002
"""Bits that are set in each map which CuTe DSL makes for the hardware."""

MAP_FIELDS: Final = (
    "global_address",
    "rank",
    "box_dim",
    "global_dim",
    "global_stride",
    "element_stride",
    "elemtype",
    "interleave_layout",
    "swizzle_mode",
    "fill_mode",
)
"""Fields that ``tensormap.replace`` changes (PTX ISA section 9.7.9.28); those of dimensions have an ordinal."""


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor in global memory and the box that one copy moves; the contiguous dimension comes first.

    ``strides`` are the distances in bytes of all dimensions but the first. ``swizzle`` is 0, or the number of address
    bits that the pattern changes: 1, 2 and 3 for the swizzles of 32, 64 and 128 bytes (section 5.5.7). ``type`` is one
    of :data:`ELEMENT_TYPES`: only reductions and NaNs depend on it. Of each dimension a copy takes every
    ``element_strides``-th element of the box, every one where it is empty. ``nan_fill`` says that elements outside of
    the tensor are NaN and not zero. ``interleave`` is the interleaved layout (section 5.5.6), 0 for none.
    """

    address: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_size: int
    swizzle: int = 0
    type: str = ""
    element_strides: tuple[int, ...] = ()
    nan_fill: bool = False
    interleave: int = 0

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)

    @property
    def steps(self) -> tuple[int, ...]:
        """Distances in elements of those that a copy takes; the driver ignores that of the contiguous dimension."""
        return (1, *self.element_strides[1:]) if self.element_strides else (1,) * self.rank

    @property
    def tile(self) -> tuple[int, ...]:
        """Elements of each dimension that one copy moves: those of the box, or every second, third, ... of them."""
        return tuple(-(-size // step) for size, step in zip(self.box, self.steps, strict=True))

    @property
    def box_bytes(self) -> int:
        """Bytes that one copy moves, elements outside of the tensor included."""
        result = self.element_size
        for size in self.tile:
            result *= size
        return result


def tensor_map_problem(tensor: TensorMap) -> str | None:
    """Return why ``cuTensorMapEncodeTiled`` would refuse the map, None if it would not (CUDA driver API, section 6.32).

    The address is not tested: it is known at the launch only.
    """
    rank = tensor.rank
    if not 1 <= rank <= _MOST_DIMENSIONS:
        return f"a tensor map has 1 to 5 dimensions, not {rank}"
    if len(tensor.box) != rank or len(tensor.strides) != rank - 1:
        return f"{rank} dimensions need {rank} sizes of the box and {rank - 1} strides"
    if tensor.element_strides and len(tensor.element_strides) != rank:
        return f"{rank} dimensions need {rank} element strides"
    if not all(1 <= step <= _LARGEST_ELEMENT_STRIDE for step in tensor.element_strides):
        return f"the element strides {tensor.element_strides} are not all between 1 and {_LARGEST_ELEMENT_STRIDE}"
    if tensor.nan_fill and tensor.type and tensor.type[0] not in "fbt":
        return f"elements of type {tensor.type} have no NaN to fill with"
    if tensor.element_size not in _ELEMENT_SIZES:
        return f"elements have 1, 2, 4 or 8 bytes, not {tensor.element_size}"
    if not all(1 <= size <= 1 << 32 for size in tensor.sizes):
        return f"the sizes {tensor.sizes} are not all between 1 and 2^32"
    if not all(1 <= size <= _LARGEST_BOX for size in tensor.box):
        return f"the sizes of the box {tensor.box} are not all between 1 and {_LARGEST_BOX}"
    if not all(stride % 16 == 0 and 0 <= stride < 1 << 40 for stride in tensor.strides):
        return f"the strides {tensor.strides} are not all multiples of 16 bytes below 2^40"
    inner = tensor.box[0] * tensor.element_size
    if inner % 16:
        return f"the first dimension of the box has {inner} bytes, not a multiple of 16"
    if tensor.swizzle not in (0, 1, 2, 3):
        return f"a swizzle changes 0 to 3 address bits, not {tensor.swizzle}"
    if tensor.swizzle and inner > 16 << tensor.swizzle:
        return f"the first dimension of the box has {inner} bytes, more than the swizzle's {16 << tensor.swizzle}"
    return None


def encode(tensor: TensorMap) -> bytes:
    """Return the 128 bytes of a map.

    Raises
    ------
    ValueError
        If ``cuTensorMapEncodeTiled`` would refuse it.
    """
    problem = tensor_map_problem(tensor)
    if problem is not None:
        raise ValueError(problem)

    def filled(values: Sequence[int], count: int) -> tuple[int, ...]:
        return (*values, *(0,) * (count - len(values)))

    record = _LAYOUT.pack(
        _MAGIC,
        tensor.address,
        *(size & 0xFFFFFFFF for size in filled(tensor.sizes, 5)),
        *filled(tensor.strides, 4),
        *filled(tensor.box, 5),
        tensor.element_size,
        tensor.swizzle,
        tensor.rank,
        ELEMENT_TYPES.index(tensor.type),
        *filled(tensor.element_strides or (1,) * tensor.rank, 5),
        tensor.nan_fill,
        tensor.interleave,
    )
    return record.ljust(MAP_BYTES, b"\0")


def decode(data: bytes) -> TensorMap | None:
    """Return the map in 128 bytes, None if they hold none."""
    tensor = raw_map(data)
    # Copied bytes may be damaged: a map that cannot be encoded is none.
    return tensor if tensor is not None and tensor_map_problem(tensor) is None else None


def raw_map(data: bytes) -> TensorMap | None:
    """Return the map in 128 bytes, also one that the driver would refuse; None if they hold none."""
    magic, address, *rest = _LAYOUT.unpack(data[: _LAYOUT.size])
    if magic != _MAGIC:
        return _as_made_for_hardware(data)
    sizes, strides, box, (element, swizzle, rank, type_) = rest[:5], rest[5:9], rest[9:14], rest[14:18]
    steps, fill, interleave = rest[18:23], rest[23], rest[24]
    if type_ >= len(ELEMENT_TYPES):
        return None
    whole = (*(size or 1 << 32 for size in sizes[:rank]), *(1,) * (rank - _MOST_DIMENSIONS))
    apart = () if all(step == 1 for step in steps[:rank]) else tuple(steps[:rank])
    return TensorMap(
        address,
        whole,
        tuple(strides[: max(rank - 1, 0)]),
        tuple(box[:rank]),
        element,
        swizzle,
        ELEMENT_TYPES[type_],
        apart,
        bool(fill),
        interleave,
    )


def _as_made_for_hardware(data: bytes) -> TensorMap | None:
    """Return the map in 128 bytes that CuTe DSL has made as a GPU of ``sm_90`` takes them, None if they hold none.

    The format is not documented; these fields are where CuTe DSL writes them, and any other bit that is set is refused.
    In words of 32 bits: the address in 0 and 1; in 2 the rank less one from bit 4, the type from bit 7, the swizzle
    from bit 13, whether f32 is TF32 in bit 16, and in bit 21 a hint; strides in units of 16 bytes in 3 to 6, and their
    upper 4 bits in 7; sizes less one in 8 to 12; sizes of the box less one in the bytes from 55 on.
    """
    words = struct.unpack("<16I", data[:64])
    flags = words[2]
    known = 0x7 << 4 | 0xF << 7 | 0x3 << 13 | 1 << 16 | 1 << 21
    rank, number = (flags >> 4 & 7) + 1, flags >> 7 & 15
    # Above bf16 the numbers are others than in tensormap.replace: 11 are elements of 4 bits, which cannot be run.
    if flags & ~known != _HARDWARE_FLAGS or rank > _MOST_DIMENSIONS or number > _LAST_WHOLE_TYPE:
        return None
    if words[13] & 0xFFFFFF or words[15]:
        return None
    type_, size = _REPLACED_TYPES[number]
    return TensorMap(
        words[0] | words[1] << 32,
        tuple(word + 1 for word in words[8 : 8 + rank]),
        tuple((words[3 + i] | (words[7] >> 4 * i & 15) << 32) << 4 for i in range(rank - 1)),
        tuple(byte + 1 for byte in data[55 : 55 + rank]),
        size,
        flags >> 13 & 3,
        "tf32" if flags >> 16 & 1 else type_,
    )


def replaced(data: bytes, field: str, ordinal: int, value: int) -> bytes | None:
    """Return the 128 bytes of a map with one of :data:`MAP_FIELDS` changed as ``tensormap.replace`` does.

    Bytes that are all zero are a map without values. The result is None if the bytes are not a map, or have no
    dimension ``ordinal``.
    """
    made = _as_made_for_hardware(data)
    values: list[int] = [*_LAYOUT.unpack((encode(made) if made is not None else data)[: _LAYOUT.size])]
    if values[0] != _MAGIC and any(data):
        return None
    values[0] = _MAGIC
    starts = {"global_dim": 2, "global_stride": 7, "box_dim": 11, "element_stride": 20}
    if field in starts:
        if not 0 <= ordinal < _MOST_DIMENSIONS - (field == "global_stride"):
            return None
        limit = {"global_dim": 1 << 32, "box_dim": 1 << 16, "element_stride": 1 << 8}.get(field, 1 << 64)
        # A value that the record cannot hold is none that a map may have: the largest one stays invalid.
        values[starts[field] + ordinal] = value if value < limit else limit - 1
    elif field == "elemtype":
        name, size = _REPLACED_TYPES[value] if value < len(_REPLACED_TYPES) else ("", 0)
        values[16], values[19] = size, ELEMENT_TYPES.index(name)
    elif field == "global_address":
        values[1] = value
    else:
        place = {"swizzle_mode": 17, "rank": 18, "fill_mode": 25, "interleave_layout": 26}[field]
        values[place] = min(value + (field == "rank"), 255)
    return _LAYOUT.pack(*values).ljust(MAP_BYTES, b"\0")


def tensor_map_argument(name: str, tensor: TensorMap, buffer: Buffer) -> StructArgument:
    """Return a map as a kernel parameter of 128 bytes (``__grid_constant__ const CUtensorMap``).

    The address of ``tensor`` is an offset in bytes to the buffer that it describes.

    Raises
    ------
    ValueError
        If ``cuTensorMapEncodeTiled`` would refuse the map, or it describes more than the buffer holds.
    """
    last = sum((size - 1) * stride for size, stride in zip(tensor.sizes[1:], tensor.strides, strict=True))
    end = tensor.address + last + tensor.sizes[0] * tensor.element_size
    if end > buffer.data.size:
        raise ValueError(f"the tensor map ends at byte {end} of `{buffer.name}`, which has {buffer.data.size}")
    return StructArgument(name, encode(tensor), ((ADDRESS_OFFSET, buffer),))
