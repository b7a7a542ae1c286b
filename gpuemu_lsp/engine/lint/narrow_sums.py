"""Long sums whose partial results are rounded to fp16, bfloat16 or less.

Rounding each partial sum of ``n`` terms to a format with unit roundoff ``u`` costs up to ``n u`` times the sum of their
magnitudes (Higham, section 4.2). A chain of a few elementwise operations in the same format costs a few ``u``. The
formats of a kernel's instructions do not separate the two; the number of terms behind each register does.
"""

from __future__ import annotations

from gpuemu_lsp.engine.ptx.model import Instruction, Module, Operand, Register
from gpuemu_lsp.engine.ptx.traversal import flat_operands, instructions_of, reachable

LONG_SUM = 64
"""Fewest terms of a long sum. Unrolled stencils and sums of a few tensors have fewer."""

_NARROW = {"f16": "f16", "f16x2": "f16", "bf16": "bf16", "bf16x2": "bf16", "e4m3x2": "e4m3", "e5m2x2": "e5m2"}
_WIDE = frozenset({"f32", "f64", "tf32"})
_ADDITIONS = frozenset({"add", "sub"})
_PRODUCTS = frozenset({"fma", "mad"})
_MATRIX = frozenset({"mma", "wmma", "wgmma"})
_CARRIES = frozenset({"mov", "selp", "prmt", "shl", "shr", "or", "and", "shfl", "mul", "neg"})
"""Instructions that move a partial sum, widen it bit by bit, or rescale it."""

_Terms = dict[str, int]


def narrow_sums(module: Module, entry: str) -> frozenset[str]:
    """Return the formats in which a kernel holds partial results of a long sum.

    Of ``f16 bf16 e4m3 e5m2``, and ``mma.f16`` for a sum that only tensor cores add to: their accumulator in fp16 is a
    mode of its own, chosen by its type, as the compute type of a library's GEMM is.

    A sum is long if it is carried around a loop, or if :data:`LONG_SUM` terms are added without one, as after unrolling
    or a reduction of a warp. Sums through memory and atomics are left out: other code may be what adds to them.
    """
    found: set[str] = set()
    for function in reachable(module, entry):
        body = [one for one in instructions_of(function) if _takes_part(one)]
        others = [one for one in body if one.opcode not in _MATRIX]
        for form in {name for one in body if (name := _rounds_to(one)) is not None}:
            if _has_long_sum(others, form):
                found.add(form)
            elif len(others) < len(body) and _has_long_sum(body, form):
                found.add(f"mma.{form}")
    return frozenset(found)


def _takes_part(instruction: Instruction) -> bool:
    return instruction.opcode in _ADDITIONS | _PRODUCTS | _MATRIX | _CARRIES | {"cvt"}


def _rounds_to(instruction: Instruction) -> str | None:
    """Return the narrow format that an addition or a conversion rounds to."""
    words = [word for word in instruction.modifiers if word in _NARROW or word in _WIDE]
    if not words or instruction.opcode in _CARRIES or (instruction.opcode == "cvt" and len(words) < 2):
        return None
    if instruction.opcode == "cvt" and words[0] in _NARROW and words[1] in _NARROW:
        return None
    return _NARROW.get(words[0])


def _has_long_sum(body: list[Instruction], form: str) -> bool:
    """Return whether the terms behind some register, in program order and again around loops, become many."""
    terms: _Terms = {}
    changed = True
    # Each pass over a loop adds at least one term, so that a carried sum ends the search after LONG_SUM passes. A body
    # without one converges as soon as the longest chain of moves has been followed.
    while changed:
        changed = False
        for instruction in body:
            count = _terms_after(instruction, form, terms)
            if count >= LONG_SUM:
                return True
            if count:
                for name in _registers(instruction.operands[:1]):
                    if terms.get(name, 0) < count:
                        terms[name] = count
                        changed = True
    return False


def _terms_after(instruction: Instruction, form: str, terms: _Terms) -> int:
    """Return the terms of the partial sum in an instruction's result; 0 if no narrow format rounded it so far."""
    narrow = _rounds_to(instruction) == form
    counts = [max((terms.get(name, 0) for name in _registers((one,))), default=0) for one in instruction.operands[1:]]
    if not counts:
        return 0
    if instruction.opcode in _MATRIX:
        # Operands are D, A, B, C and possibly the sparsity metadata; wgmma adds to D (PTX ISA section 9.7.15). Terms in
        # A and B are factors of products, which start a sum of their own.
        own = max((terms.get(name, 0) for name in _registers(instruction.operands[:1])), default=0)
        carried = own if instruction.opcode == "wgmma" else counts[2] if len(counts) > 2 else 0
        return carried + LONG_SUM // 8 if narrow else carried
    if instruction.opcode in _PRODUCTS:
        return max(1, *counts[:2]) + max(1, counts[-1]) if narrow else max(counts)
    if instruction.opcode in _ADDITIONS:
        return sum(max(1, count) for count in counts) if narrow else max(counts)
    if instruction.opcode == "cvt" and narrow:
        # A wide sum that is rounded after each addition, as for bfloat16 on devices without such an addition.
        return max(counts) + 1
    return max(counts)


def _registers(operands: tuple[Operand, ...]) -> set[str]:
    return {operand.name for operand in flat_operands(operands) if isinstance(operand, Register)}
