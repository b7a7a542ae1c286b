"""Fragment permutations, and the tiles of a ``wmma`` product."""

from __future__ import annotations

import pytest
from support.instruction_launch import parse

from gpuemu_lsp.engine.emulator.matrix.permutation import FRAGMENTS, ROWS, TRANSPOSE, HalfRegister, halves
from gpuemu_lsp.engine.emulator.matrix.product import product_of
from gpuemu_lsp.engine.emulator.matrix.wmma import fragment_of, tiles_of

LANES = range(32)


def test_rows_to_fragments_is_figure_104() -> None:
    for lane in LANES:
        # Elements 2 (T % 4) and 2 (T % 4) + 1 of row T / 4: one register of the lane that loaded this row.
        assert halves(ROWS, False, 0, lane) == (
            HalfRegister(lane % 4, lane // 4, 0),
            HalfRegister(lane % 4, lane // 4, 1),
        )


@pytest.mark.parametrize("transposed", [False, True])
def test_fragments_to_rows_is_the_inverse(transposed: bool) -> None:
    """Every half of four matrices that ``ROWS`` distributes is brought back by ``FRAGMENTS``."""
    for register in range(4):
        for lane in LANES:
            for upper, source in enumerate(halves(FRAGMENTS, transposed, register, lane)):
                back = halves(ROWS, transposed, source.register, source.lane)[source.upper]
                assert back == HalfRegister(register, lane, upper)


def test_transposing_twice_is_the_identity() -> None:
    for lane in LANES:
        for upper, source in enumerate(halves(TRANSPOSE, True, 0, lane)):
            assert halves(TRANSPOSE, True, 0, source.lane)[source.upper] == HalfRegister(0, lane, upper)


def vector(prefix: str, count: int) -> str:
    return "{" + ", ".join(f"{prefix}{i}" for i in range(count)) + "}"


def test_a_product_of_16_rows_is_two_tiles() -> None:
    text = "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32"
    operands = ", ".join((vector("d", 8), vector("a", 8), vector("b", 8), vector("c", 8)))
    tiles = tiles_of(parse(f"{text} {operands}"))
    assert tiles is not None and len(tiles) == 2
    for modifiers, (d, a, b, c) in tiles:
        assert modifiers[0] == "m16n8k16"
        assert [len(one.elements) for one in (d, a, b, c)] == [4, 4, 2, 4]
    assert tiles[0][1][2] != tiles[1][1][2]


def test_a_product_of_8_rows_is_transposed() -> None:
    text = "wmma.mma.sync.aligned.row.col.m8n32k16.f32.f32"
    operands = ", ".join((vector("d", 8), vector("a", 8), vector("b", 8), vector("c", 8)))
    tiles = tiles_of(parse(f"{text} {operands}"))
    assert tiles is not None
    _, (_, left, right, _) = tiles[0]
    assert left.elements[0].name.startswith("b") and right.elements[0].name.startswith("a")


def test_f16_operands_have_eight_registers() -> None:
    found = fragment_of(parse("wmma.load.a.sync.aligned.row.m16n16k16.global.f16 d, a, b"))
    assert found is not None and (found.distinct, found.count) == (4, 8)
    assert len(list(found.registers())) == 8


def test_products_with_unknown_modifiers_are_unsupported() -> None:
    good = f"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {vector('d', 4)}, {vector('a', 4)}, {vector('b', 2)}, {vector('c', 4)}"
    assert product_of(parse(good)) is not None
    assert product_of(parse(good.replace("tf32.tf32", "f16.tf32"))) is None
    assert product_of(parse(good.replace("row.col", "col.row"))) is None
    assert product_of(parse(good.replace(", a3}", "}"))) is None
