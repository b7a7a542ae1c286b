"""Textures and surfaces: how texture and surface objects describe memory, as a record that kernels get the address of.

The 64 bits of a ``cudaTextureObject_t`` or ``cudaSurfaceObject_t`` are opaque: kernels hand them to ``tex`` and
``suld`` instructions, or copy them. Here they are the address of a record of our own in the memory of the launch, which
begins with a magic number, so that other values are recognised as no object. The formulas by which a texture is read
are those of the CUDA C++ Programming Guide, "Texture Fetching".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from gpuemu_lsp.engine.execution import Buffer, Bytes

MAGIC: Final = 0x6572757478655421
MOST_LEVELS: Final = 16

RECORD: Final = np.dtype(
    [
        ("magic", "<u8"),
        ("address", "<u8"),
        ("slice_bytes", "<u8"),
        ("row_bytes", "<u4"),
        ("width", "<u4"),
        ("height", "<u4"),
        ("depth", "<u4"),
        ("levels", "<u4"),
        ("channel_bytes", "<u4"),
        ("channels", "<u4"),
        ("kind", "<u4"),
        ("addressing", "<u4", 3),
        ("linear", "<u4"),
        ("normalised", "<u4"),
        ("as_float", "<u4"),
        ("level_linear", "<u4"),
        ("level_bias", "<f4"),
        ("level_least", "<f4"),
        ("level_most", "<f4"),
        ("border", "<u4", 4),
        ("level_offsets", "<u4", MOST_LEVELS),
    ]
)
"""Layout of a record. ``border`` holds the bits that a read outside of the texture returns."""

ADDRESS_OFFSET: Final = int(RECORD.fields["address"][1]) if RECORD.fields else 0
_CHANNELS: Final = (1, 2, 4)
_INTEGER_BYTES, _FLOAT_BYTES = (1, 2, 4), (2, 4)


class ChannelKind(IntEnum):
    """``cudaChannelFormatKind``: how the bits of a channel are read."""

    SIGNED = 0
    UNSIGNED = 1
    FLOAT = 2


class AddressMode(IntEnum):
    """``cudaTextureAddressMode``: what a coordinate outside of the texture stands for."""

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


@dataclass(frozen=True, slots=True)
class Sampling:
    """``cudaTextureDesc``: how a texture is read. ``linear`` and ``level_linear`` are the filter modes.

    ``normalised`` coordinates are those in [0, 1); ``as_float`` is ``cudaReadModeNormalizedFloat``.
    """

    addressing: tuple[AddressMode, AddressMode, AddressMode] = (AddressMode.CLAMP,) * 3
    linear: bool = False
    normalised: bool = False
    as_float: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    level_linear: bool = False
    level_bias: float = 0.0
    level_range: tuple[float, float] = (0.0, float(MOST_LEVELS))


@dataclass(frozen=True, slots=True)
class Texture:
    """The memory that a texture or surface object describes, and how it is read.

    ``extent`` is (width, height, depth) in texels; the depth is the number of layers, of sides, or of slices. A texel
    has ``channels`` values of ``channel_bytes`` bytes. ``row_bytes`` and ``slice_bytes`` are the distances of the first
    level; 0 stands for rows and slices without padding. Further levels follow the first without padding.
    """

    extent: tuple[int, int, int]
    channel_bytes: int
    channels: int
    kind: ChannelKind
    sampling: Sampling = Sampling()
    row_bytes: int = 0
    slice_bytes: int = 0
    levels: int = 1
    address: int = 0

    @property
    def texel_bytes(self) -> int:
        """Size of a texel."""
        return self.channel_bytes * self.channels

    @property
    def row_distance(self) -> int:
        """Bytes from a row of the first level to the next."""
        return self.row_bytes or self.extent[0] * self.texel_bytes

    @property
    def slice_distance(self) -> int:
        """Bytes from a slice or layer of the first level to the next."""
        return self.slice_bytes or self.row_distance * self.extent[1]

    @property
    def level_offsets(self) -> tuple[int, ...]:
        """Byte offset of each level, and the size of all."""
        width, height, depth = self.extent
        offsets = [0, self.slice_distance * depth]
        for level in range(1, self.levels):
            size = math.prod(max(1, extent >> level) for extent in (width, height))
            offsets.append(offsets[-1] + size * depth * self.texel_bytes)
        return tuple(offsets)

    @property
    def size(self) -> int:
        """Bytes that the texture describes: up to the end of the last row, whose padding is not part of it."""
        if self.levels > 1:
            return self.level_offsets[-1]
        width, height, depth = self.extent
        return self.slice_distance * (depth - 1) + self.row_distance * (height - 1) + width * self.texel_bytes


def texture_problem(texture: Texture) -> str | None:
    """Return why ``cudaCreateTextureObject`` would refuse the texture, None if it would not."""
    if min(texture.extent) < 1:
        return f"the extents {texture.extent} are not all at least 1"
    integers = texture.kind is not ChannelKind.FLOAT
    sizes = _INTEGER_BYTES if integers else _FLOAT_BYTES
    if texture.channels not in _CHANNELS or texture.channel_bytes not in sizes:
        kind = texture.kind.name.lower()
        return f"no format has {texture.channels} {kind} channels of {texture.channel_bytes} bytes"
    if not 1 <= texture.levels <= MOST_LEVELS:
        return f"a texture has 1 to {MOST_LEVELS} levels, not {texture.levels}"
    if texture.row_distance < texture.extent[0] * texture.texel_bytes:
        return f"rows are {texture.row_distance} bytes apart, and have {texture.extent[0] * texture.texel_bytes}"
    if texture.sampling.as_float and integers and texture.channel_bytes > 2:
        return "only integers of 8 and 16 bits are read as normalised floats"
    if texture.sampling.linear and integers and not texture.sampling.as_float:
        return "linear filtering needs values that are read as floats"
    return None


def encode(texture: Texture) -> Bytes:
    """Return the bytes of a record.

    Raises
    ------
    ValueError
        If ``cudaCreateTextureObject`` would refuse the texture.
    """
    problem = texture_problem(texture)
    if problem is not None:
        raise ValueError(problem)
    record = np.zeros((), RECORD)
    sampling = texture.sampling
    record["magic"], record["address"] = MAGIC, texture.address
    record["row_bytes"], record["slice_bytes"] = texture.row_distance, texture.slice_distance
    record["width"], record["height"], record["depth"] = texture.extent
    record["levels"], record["kind"] = texture.levels, texture.kind
    record["channel_bytes"], record["channels"] = texture.channel_bytes, texture.channels
    record["addressing"], record["linear"] = sampling.addressing, sampling.linear
    record["normalised"], record["as_float"] = sampling.normalised, sampling.as_float
    record["level_linear"], record["level_bias"] = sampling.level_linear, sampling.level_bias
    record["level_least"], record["level_most"] = sampling.level_range
    floats = sampling.as_float or texture.kind is ChannelKind.FLOAT
    border = np.array(sampling.border, np.float32)
    record["border"] = border.view(np.uint32) if floats else border.astype(np.int64) & 0xFFFFFFFF
    record["level_offsets"][: texture.levels] = texture.level_offsets[: texture.levels]
    return np.frombuffer(record.tobytes(), np.uint8).copy()


def decode(data: bytes) -> Texture | None:
    """Return the texture of a record, None if the bytes hold none. The border comes back as bits, not as floats."""
    if len(data) < RECORD.itemsize:
        return None
    record = np.frombuffer(data[: RECORD.itemsize], RECORD)[0]
    if int(record["magic"]) != MAGIC:
        return None
    modes = tuple(AddressMode(int(mode)) for mode in record["addressing"])
    sampling = Sampling(
        (modes[0], modes[1], modes[2]),
        linear=bool(record["linear"]),
        normalised=bool(record["normalised"]),
        as_float=bool(record["as_float"]),
        level_linear=bool(record["level_linear"]),
        level_bias=float(record["level_bias"]),
        level_range=(float(record["level_least"]), float(record["level_most"])),
    )
    return Texture(
        (int(record["width"]), int(record["height"]), int(record["depth"])),
        int(record["channel_bytes"]),
        int(record["channels"]),
        ChannelKind(int(record["kind"])),
        sampling,
        int(record["row_bytes"]),
        int(record["slice_bytes"]),
        int(record["levels"]),
        int(record["address"]),
    )


def texture_object(name: str, texture: Texture, texels: Buffer) -> Buffer:
    """Return the argument of a texture or surface object; the address of ``texture`` is an offset to ``texels``.

    Raises
    ------
    ValueError
        If the object could not be created, or it describes more than ``texels`` holds.
    """
    data = encode(texture)
    end = texture.address + texture.size
    if end > texels.data.size:
        raise ValueError(f"the texture ends at byte {end} of `{texels.name}`, which has {texels.data.size}")
    return Buffer(name, data, element_size=8, pointers=((ADDRESS_OFFSET, texels),))


def is_texture(buffer: Buffer) -> bool:
    """Return whether a buffer is the record of a texture or surface object."""
    return bool(buffer.pointers) and buffer.data[:8].tobytes() == MAGIC.to_bytes(8, "little")
