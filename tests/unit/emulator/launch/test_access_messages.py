"""Messages of memory events: elements where the accessed bytes are one, bytes elsewhere."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.emulator.launch import access_messages
from gpuemu_lsp.engine.emulator.launch.access_messages import accessed_bytes
from gpuemu_lsp.engine.emulator.launch.device_memory.region import Region
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction

LOAD = Instruction("ld", ("global", "f32"), ())
VECTOR = Instruction("ld", ("global", "v4", "f32"), ())
HALVES = Instruction("ld", ("shared", "b32"), ())
X = Region("x", "buffer", 0, 8, 4)
TILE = Region("tile", "shared", 0, 512)


@pytest.mark.parametrize(
    ("region", "offset", "size", "expected"),
    [
        (X, 8, 4, "read of x[2] is out of bounds: x has 2 elements"),
        (X, -4, 4, "read of x[-1] is out of bounds: x has 2 elements"),
        (X, 4, 8, "read of 8 bytes at x[1] extends past the end of x, which has 2 elements"),
        (X, 10, 4, "read of 4 bytes at byte 10 of x is out of bounds: x has 8 bytes"),
        (Region("y", "buffer", 0, 4, 4), 4, 4, "read of y[1] is out of bounds: y has 1 element"),
        (TILE, 512, 4, "read of tile[128] at byte 512 is out of bounds: tile has 128 elements"),
        (Region("shared memory", "shared", 0, 64), 64, 4,
         "read of 4 bytes at byte 64 of shared memory is out of bounds: shared memory has 64 bytes"),
        (X, 4 * (1 << 31), 4, "read of x[2147483648] is out of bounds: x has 2 elements"),
        (X, -(1 << 47), 4, "read of 4 bytes is out of bounds: the address is in no buffer"),
        (None, None, 4, "read of 4 bytes is out of bounds: the address is in no buffer"),
    ],
)  # fmt: skip
def test_out_of_bounds(region, offset, size, expected):
    access = accessed_bytes(LOAD, region, region and region.name, offset, size)
    assert access_messages.out_of_bounds("read", access) == expected


def test_an_untyped_or_vector_access_of_shared_memory_is_worded_in_bytes():
    for instruction in (HALVES, VECTOR):
        access = accessed_bytes(instruction, TILE, "tile", 508, 4)
        assert access_messages.uninitialised(access) == "uninitialized read of 4 bytes at byte 508 of tile"
    access = accessed_bytes(LOAD, TILE, "tile", 508, 4)
    assert access_messages.uninitialised(access) == "uninitialized read of tile[127] at byte 508"
    whole = accessed_bytes(LOAD, Region("count", "shared", 0, 4), "count", 0, 4)
    assert access_messages.uninitialised(whole) == "uninitialized read of count"
    assert access_messages.in_flight(access).endswith("the asynchronous copy that writes it has not been waited for")


def test_a_vector_must_be_aligned_as_a_whole():
    access = accessed_bytes(VECTOR, X, "x", 4, 4)
    expected = "misaligned write of 16 bytes at x[1]: the address is not 16-byte aligned"
    assert access_messages.misaligned("write", access, VECTOR) == expected


def test_all_that_an_asynchronous_copy_moves_must_be_aligned():
    operands = (Immediate(0, "int"), Immediate(4, "int"), Immediate(16, "int"))
    copy = Instruction("cp", ("async", "cg", "shared", "global"), operands)
    access = accessed_bytes(copy, X, "x", 4, 4)
    expected = "misaligned read of 16 bytes at x[1]: the address is not 16-byte aligned"
    assert access_messages.misaligned("read", access, copy) == expected


def test_other_accesses():
    access = accessed_bytes(LOAD, X, "x", 0, 4)
    assert access_messages.null_pointer("read", access) == "read of 4 bytes through a null pointer"
    assert access_messages.read_only(access) == "write to x[0], which is in constant memory"
