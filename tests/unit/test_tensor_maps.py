"""Tensor maps: validity, the record, and the tiles that they address."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from gpuemu_lsp.engine.emulator.launch.tma.boxes import swizzled, tile_addresses
from gpuemu_lsp.engine.execution import Buffer
from gpuemu_lsp.engine.tensor_map import TensorMap, decode, encode, raw_map, replaced, tensor_map_argument


def _strides(shape: tuple[int, ...], element: int) -> tuple[int, ...]:
    """Return the distances of all but the first of contiguous dimensions, in bytes."""
    return tuple(int(np.prod(shape[:place])) * element for place in range(1, len(shape)))


def test_a_map_is_read_as_it_was_written() -> None:
    tensor = TensorMap(4096, (64, 1 << 32, 3), (128, 1 << 20), (32, 8, 1), 2, 2)
    assert len(encode(tensor)) == 128
    assert decode(encode(tensor)) == tensor


def test_other_bytes_are_not_a_map() -> None:
    assert decode(bytes(128)) is None
    damaged = bytearray(encode(TensorMap(0, (64, 8), (128,), (32, 8), 2)))
    damaged[84] = 9
    assert decode(bytes(damaged)) is None


@pytest.mark.parametrize(
    ("tensor", "problem"),
    [
        (TensorMap(0, (), (), (), 2), "1 to 5 dimensions"),
        (TensorMap(0, (64, 8), (), (8, 8), 2), "need 2 sizes"),
        (TensorMap(0, (64,), (), (16,), 3), "1, 2, 4 or 8 bytes"),
        (TensorMap(0, (0,), (), (16,), 2), "between 1 and 2^32"),
        (TensorMap(0, (512,), (), (257,), 2), "between 1 and 256"),
        (TensorMap(0, (64, 8), (100,), (8, 8), 2), "multiples of 16 bytes"),
        (TensorMap(0, (64, 8), (128,), (4, 8), 2), "not a multiple of 16"),
        (TensorMap(0, (64, 8), (128,), (64, 8), 2, 2), "more than the swizzle's 64"),
        (TensorMap(0, (64, 8), (128,), (8, 8), 2, 4), "0 to 3 address bits"),
    ],
)
def test_maps_that_the_driver_refuses(tensor: TensorMap, problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("^", r"\^")):
        encode(tensor)


def test_a_map_larger_than_its_buffer_is_refused() -> None:
    buffer = Buffer("x", np.zeros(1024, np.uint8))
    tensor_map_argument("map", TensorMap(0, (64, 8), (128,), (8, 8), 2), buffer)
    with pytest.raises(ValueError, match="ends at byte 1152 of `x`, which has 1024"):
        tensor_map_argument("map", TensorMap(0, (64, 9), (128,), (8, 8), 2), buffer)


@pytest.mark.parametrize("seed", range(40))
def test_tiles_are_slices_with_zeros_outside(seed: int) -> None:
    random = np.random.default_rng(seed)
    rank, element = int(random.integers(1, 6)), int(random.choice([1, 2, 4]))
    unit = 16 // element
    sizes = (unit * int(random.integers(1, 4)), *(int(n) for n in random.integers(1, 5, rank - 1)))
    box = (unit * int(random.integers(1, 3)), *(int(n) for n in random.integers(1, 4, rank - 1)))
    start = tuple(int(n) for n in random.integers(-3, 6, rank))
    tensor = TensorMap(0, sizes, _strides(sizes, element), box, element)
    values = random.integers(1, 256, int(np.prod(sizes)) * element, dtype=np.uint8)
    far, near = tile_addresses(tensor, start, 256)
    found = np.where(far.addresses >= 0, values[far.addresses], 0)[np.argsort(near.offsets)]
    # The first dimension of a map is the last of an array in C order.
    array = values.reshape(*sizes[::-1], element)
    padded = np.pad(array, [(4, 40)] * rank + [(0, 0)])
    wanted = padded[tuple(slice(4 + at, 4 + at + n) for at, n in zip(start[::-1], box[::-1], strict=True))]
    assert np.array_equal(found, wanted.reshape(-1))


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_swizzles_exchange_the_chunks_of_a_row(bits: int) -> None:
    # Figures of section 5.5.7, in rows of 128 bytes: chunk c of row r goes to chunk c ^ r, of as many bits as the pattern
    # has chunks. The patterns of 32, 64 and 128 bytes repeat after 256, 512 and 1024 bytes.
    for row in range(16):
        for chunk in range(8):
            shift = row % (1 << bits)
            wanted = row * 128 + (chunk ^ shift) * 16
            assert swizzled(np.array([row * 128 + chunk * 16]), bits)[0] == wanted, (row, chunk)


def test_maps_that_cute_dsl_makes_for_the_hardware_are_read() -> None:
    """The words are those of its compiled host code, version 4.8.1, for a tensor of which the layout is given."""
    address = 0x7F0000001000
    f16 = (0x800046312, 0, 0, 0xF0000003F, 0, 0x3F00000000000000, 7)
    f32 = (0x20002403C2, 0x100000000200, 0x8000, 0xF0000003F, 0x400000005, 0x1F00000000000002, 0x1010107)
    far = (0x2403A2, 0, 0x4100000000, 0xF0000003F, 0x3, 0x1F00000000000000, 7)
    maps = [raw_map(struct.pack("<8Q", address, *words).ljust(128, b"\0")) for words in (f16, f32, far)]
    assert maps == [
        TensorMap(address, (64, 16), (128,), (64, 8), 2, swizzle=3, type="f16"),
        TensorMap(address, (64, 16, 6, 5, 3), (512, 8192, 65536, 524288), (32, 8, 2, 2, 2), 4, type="f32"),
        TensorMap(address, (64, 16, 4), (1 << 36, 1 << 38), (32, 8, 1), 4, type="f32"),
    ]


def test_bytes_with_a_bit_whose_meaning_is_not_known_are_not_a_map() -> None:
    words = (1 << 12, 0x800046312 | 1 << 22, 0, 0, 0xF0000003F, 0, 0x3F00000000000000, 7)
    assert raw_map(struct.pack("<8Q", *words).ljust(128, b"\0")) is None


def test_a_map_of_elements_of_four_bits_is_not_read() -> None:
    # Of fp4, 256 elements of a row in 128 bytes: its number is that of tf32 in `tensormap.replace`.
    words = (0x5E3D0183E000, 0x8000465A2, 0x400, 0, 0x7F000000FF, 0, 0xFF00000000000000, 0x7F)
    assert raw_map(struct.pack("<8Q", *words).ljust(128, b"\0")) is None


def test_a_map_for_the_hardware_can_be_changed() -> None:
    words = (1 << 12, 0x800046312, 0, 0, 0xF0000003F, 0, 0x3F00000000000000, 7)
    changed = replaced(struct.pack("<8Q", *words).ljust(128, b"\0"), "global_address", 0, 1 << 13)
    assert changed is not None
    assert decode(changed) == TensorMap(1 << 13, (64, 16), (128,), (64, 8), 2, swizzle=3, type="f16")
