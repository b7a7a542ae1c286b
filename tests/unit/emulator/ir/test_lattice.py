"""The divergence lattice: laws of the join, and shapes of thread indices against enumerated ones."""

from __future__ import annotations

from itertools import product

import pytest

from gpuemu_lsp.engine.emulator.ir.lattice import (
    UNIFORM,
    VARYING,
    WARP_SIZE,
    LatticeValue,
    VectorShape,
    join,
    thread_block_shape,
)

SHAPES = [
    UNIFORM,
    VARYING,
    VectorShape(True),
    *(VectorShape(part, step) for part in (False, True) for step in (1, 4, -2)),
]
VALUES = [LatticeValue(shape, zeros) for shape in SHAPES for zeros in ((0,) if shape.varying else (0, 3, 63))]


def below(a: LatticeValue, b: LatticeValue) -> bool:
    return join(a, b) == b


def test_join_is_idempotent_and_commutative() -> None:
    for a, b in product(VALUES, repeat=2):
        assert join(a, a) == a
        assert join(a, b) == join(b, a)


def test_join_is_associative_and_an_upper_bound() -> None:
    for a, b, c in product(VALUES, repeat=3):
        assert join(join(a, b), c) == join(a, join(b, c))
        assert below(a, join(a, b))


def test_nothing_known_is_the_bottom_and_varying_the_top() -> None:
    for value in VALUES:
        assert join(None, value) == value
        assert join(value, LatticeValue(VARYING)) == LatticeValue(VARYING)


def test_different_strides_have_no_stride() -> None:
    assert join(LatticeValue(UNIFORM), LatticeValue(VectorShape(False, 4))).shape == VARYING


def test_a_base_per_part_absorbs_a_base_per_warp() -> None:
    assert join(LatticeValue(VectorShape(False, 4), 5), LatticeValue(VectorShape(True, 4), 3)) == LatticeValue(
        VectorShape(True, 4), 3
    )


def holds(value: LatticeValue, lanes_of_warp: list[int], lanes: int) -> bool:
    """Whether the values of a warp's lanes have the shape, and bases the zero bits."""
    shape = value.shape
    if shape.varying:
        return True
    groups = [lanes_of_warp]
    if shape.per_part:
        groups = [lanes_of_warp[at : at + lanes] for at in range(0, len(lanes_of_warp), lanes)]
    return all(
        group[0] % (1 << value.zeros) == 0 and all(one == group[0] + i * shape.step for i, one in enumerate(group))
        for group in groups
        if group
    )


BLOCKS = [
    (1, 1, 1), (32, 1, 1), (33, 1, 1), (48, 2, 1), (256, 1, 1), (1024, 1, 1), (8, 8, 1), (16, 4, 2), (32, 4, 2),
    (64, 3, 1), (4, 4, 4), (1, 64, 1), (1, 1, 64), (7, 9, 1), (24, 3, 2), (16, 1, 8),
]  # fmt: skip


@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_thread_indices_have_their_shapes(block: tuple[int, int, int], lanes: int) -> None:
    shape = thread_block_shape(block, lanes)
    x, y, z = block
    threads = range(x * y * z)
    indices = {"x": [t % x for t in threads], "y": [t // x % y for t in threads], "z": [t // (x * y) for t in threads]}
    for axis, values in indices.items():
        for warp in range(0, len(threads), WARP_SIZE):
            assert holds(getattr(shape, axis), values[warp : warp + WARP_SIZE], lanes), (axis, warp)
    assert shape.full_warps == (len(threads) % WARP_SIZE == 0)
    assert x % (1 << shape.width_zeros) == 0


def test_block_sizes_with_the_same_shapes_share_a_version() -> None:
    assert thread_block_shape((128, 1, 1), 16) == thread_block_shape((256, 1, 1), 16)
    assert thread_block_shape((128, 1, 1), 16) != thread_block_shape((100, 1, 1), 16)
