"""Operands of ``wgmma`` in shared memory (PTX ISA section 9.7.15.5.1.2): addresses of 16 bytes at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.launch.tma.places import Pattern
from gpuemu_lsp.engine.emulator.launch.tma.races import Runs, runs

CHUNK: Final = 16
"""Bytes that stay together in every layout."""

Indices = npt.NDArray[np.int64]
"""Addresses, or numbers of chunks: one-dimensional."""

_MODES = (0, 3, 2, 1)
"""Address bits that each code of a swizzle in a descriptor changes."""

_TENSOR_MODES = {0: 0, 2: 3, 4: 2, 6: 1}
"""The same for descriptors of ``tcgen05``."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A matrix descriptor, decoded: all fields in bytes, ``swizzle`` in address bits that the pattern changes."""

    start: int
    leading: int
    stride: int
    base: int
    swizzle: int


def decoded(bits: int) -> Descriptor:
    """Return the fields of a descriptor (section 9.7.15.5.1.2.2)."""
    fields = [(bits >> shift & 0x3FFF) << 4 for shift in (0, 16, 32)]
    return Descriptor(fields[0], fields[1], fields[2], (bits >> 49 & 7) << 7, _MODES[bits >> 62])


def decoded_tensor(bits: int) -> Descriptor | None:
    """Return the fields of a descriptor of ``tcgen05`` (section 9.7.16.4.1), None if it cannot be run."""
    swizzle = _TENSOR_MODES.get(bits >> 61)
    # Bit 52: the leading dimension is an absolute address.
    if swizzle is None or bits >> 52 & 1:
        return None
    fields = [(bits >> shift & 0x3FFF) << 4 for shift in (0, 16, 32)]
    return Descriptor(fields[0], fields[1], fields[2], (bits >> 49 & 7) << 7, swizzle)


@dataclass(frozen=True, slots=True, eq=False)
class OperandChunks:
    """The chunks of an operand: shared addresses, and the row (column of B) and k of the first element of each.

    ``along_k`` says whether the elements of a chunk follow one another along k, as in K-major operands.
    """

    addresses: Indices
    rows: Indices
    ks: Indices
    along_k: bool


@lru_cache(maxsize=256)
def operand_chunks(descriptor: Descriptor, count: int, element_bits: int, mn_major: bool) -> OperandChunks:
    """Return the chunks of an operand with ``count`` rows (columns of B): by row and k, if MN-major by k and row."""
    width = CHUNK << descriptor.swizzle
    per_chunk = 128 // element_bits
    if mn_major:
        ks, groups = (part.reshape(-1) for part in np.indices((256 // element_bits, count // per_chunk)))
        # Without a swizzle the two distances change places.
        across, along = (
            (descriptor.leading, descriptor.stride) if descriptor.swizzle else (descriptor.stride, descriptor.leading)
        )
        offset = groups * CHUNK // width * across + groups * CHUNK % width + ks // 8 * along + ks % 8 * width
        rows = groups * per_chunk
    else:
        rows, halves = (part.reshape(-1) for part in np.indices((count, 2)))
        offset = (
            rows // 8 * descriptor.stride
            + rows % 8 * width
            + halves * (CHUNK if descriptor.swizzle else descriptor.leading)
        )
        ks = halves * per_chunk
    linear = descriptor.start + offset
    addresses = linear ^ ((linear - descriptor.base) >> 3 & (width - CHUNK))
    return OperandChunks(addresses, rows, ks, not mn_major)


@lru_cache(maxsize=64)
def row_chunks(descriptor: Descriptor, count: int, width: int) -> OperandChunks:
    """Return the chunks of ``count`` rows of 16 or 32 bytes, ``width``, that are stored as a K-major operand is."""
    both = operand_chunks(descriptor, count, 8, False)
    if width == 2 * CHUNK:
        return both
    return OperandChunks(both.addresses[::2], both.rows[::2], both.ks[::2], True)


@lru_cache(maxsize=256)
def chunk_numbers(pattern: Pattern) -> Indices:
    """Return the numbers of the chunks that the bytes of a pattern are in, each once, in order."""
    if pattern.dense:
        return np.arange(pattern.low // CHUNK, (pattern.low + pattern.extent - 1) // CHUNK + 1)
    return np.unique(pattern.offsets // CHUNK)


@dataclass(frozen=True, slots=True)
class OperandBytes:
    """All bytes of an operand: their addresses, the lowest and the highest, and the numbers of its chunks."""

    places: Indices
    low: int
    high: int
    numbers: Indices


@lru_cache(maxsize=256)
def operand_bytes(chunks: OperandChunks) -> OperandBytes:
    """Return the bytes of an operand."""
    places = (chunks.addresses[:, None] + np.arange(CHUNK)).reshape(-1)
    return OperandBytes(places, int(places.min()), int(places.max()), chunks.addresses // CHUNK)


@lru_cache(maxsize=256)
def operand_runs(chunks: OperandChunks) -> Runs:
    """Return the runs of adjacent chunks of an operand."""
    return runs(chunks.addresses, CHUNK)


@lru_cache(maxsize=1024)
def warp_runs(a: OperandChunks | None, b: OperandChunks, quarter: int) -> Runs:
    """Return the runs of adjacent chunks that one of the four warps of a group reads: of A, if in memory, and of B.

    Each warp reads 16 of the 64 rows of A; all rows of a chunk that holds several are of one warp.
    """
    read = b.addresses if a is None else np.concatenate([a.addresses[a.rows // 16 == quarter], b.addresses])
    return runs(read, CHUNK)
