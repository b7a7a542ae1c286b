"""Transfer functions on affine values are sound: lanes computed one by one have the shape that the rule claims."""

from __future__ import annotations

import random

import pytest
from support.instruction_launch import parse

from gpuemu_lsp.engine.emulator.analysis.affine_rules import AFFINE_RULES, WINDOW_ZEROS, AffineContext, trailing_zeros
from gpuemu_lsp.engine.emulator.ir.lattice import UNIFORM, VARYING, WARP_SIZE, LatticeValue, VectorShape

LANES = 8
CONTEXT = AffineContext({}, LANES)
MASK = (1 << 32) - 1
WARP = range(WARP_SIZE)

COMPUTE = {
    "add.u32": lambda a, b: a + b,
    "sub.u32": lambda a, b: a - b,
    "mul.lo.u32": lambda a, b: a * b,
    "shl.b32": lambda a, b: a << b,
    "shr.u32": lambda a, b: a >> b,
    "and.b32": lambda a, b: a & b,
    "or.b32": lambda a, b: a | b,
    "setp.lt.u32": lambda a, b: a < b,
    "setp.le.u32": lambda a, b: a <= b,
    "setp.gt.u32": lambda a, b: a > b,
    "setp.ge.u32": lambda a, b: a >= b,
}


def random_value(rng: random.Random) -> tuple[LatticeValue, list[int]]:
    """Return an affine or uniform value, and one assignment of the 32 lanes that it allows."""
    shape = VectorShape(rng.random() < 0.5, rng.choice((0, 1, 1, 2, 4, 16)))
    zeros = rng.randrange(10)
    bases = [rng.randrange(1 << 12) << zeros for _ in range(WARP_SIZE // LANES)]
    if shape.per_part:
        return LatticeValue(shape, zeros), [bases[i // LANES] + i % LANES * shape.step for i in WARP]
    return LatticeValue(shape, zeros), [bases[0] + i * shape.step for i in WARP]


def holds(value: LatticeValue, lanes: list[int]) -> bool:
    shape = value.shape
    if shape.varying:
        return True
    size = LANES if shape.per_part else WARP_SIZE
    groups = [lanes[at : at + size] for at in range(0, WARP_SIZE, size)]
    return all(
        group[0] % (1 << min(value.zeros, 32)) == 0
        and all(one == (group[0] + i * shape.step) & MASK for i, one in enumerate(group))
        for group in groups
    )


@pytest.mark.parametrize("name", COMPUTE)
def test_rules_are_sound(name: str) -> None:
    rng = random.Random(name)
    claimed = 0
    for _ in range(3000):
        a, lanes = random_value(rng)
        constant = rng.choice((0, rng.randrange(1, 64), 1 << rng.randrange(12)))
        if name.startswith("sh"):
            constant = rng.randrange(12)
        if name == "and.b32":
            constant = rng.choice((constant, (1 << rng.randrange(1, 16)) - 1, MASK << rng.randrange(12) & MASK))
        swapped = name in ("add.u32", "mul.lo.u32", "and.b32", "or.b32") or name.startswith("setp")
        values, operands = [a, LatticeValue(UNIFORM, trailing_zeros(constant))], ["a", str(constant)]
        pairs = [(lane, constant) for lane in lanes]
        if swapped and rng.random() < 0.5:
            values, operands = values[::-1], operands[::-1]
            pairs = [(y, x) for x, y in pairs]
        found = AFFINE_RULES[name.split(".")[0]](CONTEXT, parse(f"{name} d, {', '.join(operands)}"), values)
        if found is None:
            continue
        claimed += not found.shape.varying and a.shape != UNIFORM
        results = [int(COMPUTE[name](*pair)) & MASK for pair in pairs]
        if name.startswith("setp"):
            found = LatticeValue(found.shape)
        assert holds(found, results), (values, operands, results)
    assert claimed > 100


def rule(text: str, *values: LatticeValue) -> LatticeValue | None:
    instruction = parse(text)
    return AFFINE_RULES[instruction.opcode](CONTEXT, instruction, list(values))


TID = LatticeValue(VectorShape(False, 1), 5)
LITERAL = LatticeValue(UNIFORM)


def test_warp_and_lane_of_a_thread() -> None:
    assert rule("shr.u32 d, a, 5", TID, LITERAL) == LatticeValue(UNIFORM, 0)
    assert rule("and.b32 d, a, 31", TID, LITERAL) == TID
    assert rule("and.b32 d, a, -32", TID, LITERAL) == LatticeValue(UNIFORM, 5)


def test_a_mask_that_keeps_some_of_the_differing_bits_has_no_stride() -> None:
    assert rule("and.b32 d, a, 6", TID, LITERAL) is None


def test_what_is_not_uniform_over_the_warp_may_be_so_per_part() -> None:
    found = rule("shr.u32 d, a, 3", TID, LITERAL)
    assert found is not None and found.shape == VectorShape(per_part=True)


def test_comparisons_at_a_multiple_of_the_warp_size_are_uniform() -> None:
    for text in ("setp.lt.u32 p, a, 64", "setp.ge.u32 p, a, 64", "setp.le.u32 p, a, 63", "setp.gt.u32 p, a, 31"):
        literal = LatticeValue(UNIFORM, trailing_zeros(int(text.split()[-1])))
        assert rule(text, TID, literal) == LatticeValue(UNIFORM), text
    assert rule("setp.lt.u32 p, a, 60", TID, LatticeValue(UNIFORM, 2)) is None
    assert rule("setp.eq.u32 p, a, 64", TID, LatticeValue(UNIFORM, 6)) is None


def test_a_product_keeps_its_stride_only_by_a_constant() -> None:
    found = rule("mul.wide.u32 d, a, 4", TID, LatticeValue(UNIFORM, 2))
    assert found is not None and found.shape.step == 4
    unknown = rule("mul.lo.u32 d, a, b", TID, LatticeValue(UNIFORM))
    assert unknown is not None and unknown.shape == VARYING


def test_or_adds_where_no_bit_is_set_on_both_sides() -> None:
    scaled = LatticeValue(VectorShape(False, 4), 7)
    found = rule("or.b32 d, a, 3", scaled, LITERAL)
    assert found is not None and found.shape.step == 4
    assert rule("or.b32 d, a, 4", scaled, LITERAL) is None


def test_or_with_zero_knows_no_more_zero_bits_than_its_operand() -> None:
    assert rule("or.b32 d, a, 0", TID, LatticeValue(UNIFORM, 63)) == TID


def test_a_generic_address_is_aligned_as_its_window_is() -> None:
    found = rule("cvta.shared.u64 d, a", LatticeValue(UNIFORM, 63))
    assert found is not None and found.zeros == WINDOW_ZEROS


def test_saturating_arithmetic_is_not_affine() -> None:
    assert rule("add.sat.s32 d, a, b", TID, LITERAL) is None


def test_a_varying_condition_selects_from_two_lines() -> None:
    assert rule("selp.b32 d, a, b, p", TID, TID, LatticeValue(VARYING)) is None
    assert rule("selp.b32 d, a, b, p", TID, TID, LatticeValue(UNIFORM)) == TID
