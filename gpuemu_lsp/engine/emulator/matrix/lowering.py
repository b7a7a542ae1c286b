"""Lowering of fragment loads and stores, and of ``wmma``, to ordinary PTX (sections 9.7.14.4 and 9.7.14.5).

PTX does not define which lane holds which element of a ``wmma`` fragment. Here fragments have the layout of the ``mma``
with the same types, as on sm_80: a 16 x 16 x 16 product is two ``mma.m16n8k16``, and a product with eight rows is the
transposed product of the transposed operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gpuemu_lsp.engine.emulator.ir.opcodes import GROUP_EVENT, TENSOR_MEMORY
from gpuemu_lsp.engine.emulator.ir.operands import elements
from gpuemu_lsp.engine.emulator.matrix.permutation import FRAGMENTS, ROWS, TRANSPOSE
from gpuemu_lsp.engine.emulator.matrix.product import product_of
from gpuemu_lsp.engine.emulator.matrix.tensor_memory import lower_tensor
from gpuemu_lsp.engine.emulator.matrix.warpgroup import ends_with_barrier, group_barrier, lower_group
from gpuemu_lsp.engine.emulator.matrix.wmma import Fragment, FragmentElement, fragment_of, tiles_of
from gpuemu_lsp.engine.ptx.model import Address, Guard, Immediate, Instruction, Operand, Register, Symbol, Vector

__all__ = ["EVERY_LANE", "OPCODES", "ends_with_barrier", "group_barrier", "lower", "warp_barrier"]

OPCODES = frozenset({"mma", "wmma", "wgmma", "ldmatrix", "stmatrix", "movmatrix", TENSOR_MEMORY})

EVERY_LANE = Immediate(0xFFFFFFFF, "int")


def lower(instruction: Instruction, registers: dict[str, str]) -> tuple[Instruction, ...] | None:
    """Return equivalent instructions for converged lanes, or None if the instruction cannot be run.

    New registers are added to ``registers``, which maps names to types.
    """
    out = _Lowering(instruction, registers)
    done = _LOWER[instruction.opcode](out, instruction)
    return tuple(out.code) if done else None


def warp_barrier(instruction: Instruction) -> Instruction:
    """Return a barrier of all lanes of the warp, which implements ``.sync.aligned``."""
    return replace(instruction, opcode="bar", modifiers=("warp", "sync"), operands=(EVERY_LANE,), guard=None)


class _Lowering:
    """Appends the instructions that one matrix instruction is lowered to; they inherit its location."""

    def __init__(self, instruction: Instruction, registers: dict[str, str]) -> None:
        self._origin = instruction
        self.registers = registers
        self.code: list[Instruction] = []

    def fresh(self, type_: str) -> Register:
        name = f"%m{len(self.registers)}"
        self.registers[name] = type_
        return Register(name)

    def put(self, name: str, *operands: Operand, guard: Guard | None = None) -> None:
        opcode, *modifiers = name.split(".")
        one = replace(self._origin, opcode=opcode, modifiers=tuple(modifiers), operands=operands, guard=guard)
        self.code.append(one)

    def note(self, modifiers: tuple[str, ...], *operands: Operand) -> None:
        one = replace(self._origin, opcode=GROUP_EVENT, modifiers=modifiers, operands=operands, guard=None)
        self.code.append(one)

    def compute(self, name: str, type_: str, *operands: Operand) -> Register:
        result = self.fresh(type_)
        self.put(name, result, *operands)
        return result


def _number(value: int) -> Immediate:
    return Immediate(value, "int")


# ---- mma -------------------------------------------------------------------------------------------------------------


def _mma(out: _Lowering, instruction: Instruction) -> bool:
    if product_of(instruction) is None:
        return False
    words = (word for word in instruction.modifiers if word not in ("sync", "aligned"))
    out.put(".".join(("mma", *words)), *instruction.operands)
    return True


# ---- ldmatrix, stmatrix, movmatrix -----------------------------------------------------------------------------------


def _matrix_words(instruction: Instruction, operand: Operand) -> tuple[str, str, int] | None:
    """Return (space, transposition, number of matrices) of an ``ldmatrix`` or ``stmatrix``."""
    words = instruction.modifiers
    known = {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared", "shared::cta", "b16"}
    count = next((int(word[1]) for word in words if word in ("x1", "x2", "x4")), 0)
    if not set(words) <= known or "m8n8" not in words or len(elements(operand)) != count:
        return None
    space = next((f".{word}" for word in words if word.startswith("shared")), "")
    return space, ".trans" if "trans" in words else "", count


def _row_guard(out: _Lowering, count: int) -> Guard | None:
    """Return a guard for the lanes whose address is used: eight lanes per matrix, one per row."""
    # Four matrices take the addresses of all 32 lanes.
    if count == 4:
        return None
    lane = out.compute("mov.u32", "b32", Register("%laneid"))
    return Guard(out.compute("setp.lt.u32", "pred", lane, _number(8 * count)), False)


def _ldmatrix(out: _Lowering, instruction: Instruction) -> bool:
    target, address = instruction.operands
    found = _matrix_words(instruction, target)
    if found is None:
        return False
    space, transposed, count = found
    # Each row is 16 bytes: lane i loads row i % 8 of matrix i / 8, then the halves are redistributed.
    row = Vector(tuple(out.fresh("b32") for _ in range(4)))
    out.put(f"ld{space}.v4.b32", row, address, guard=_row_guard(out, count))
    out.put(f"{ROWS}{transposed}", Vector(elements(target)), row)
    return True


def _stmatrix(out: _Lowering, instruction: Instruction) -> bool:
    address, source = instruction.operands
    found = _matrix_words(instruction, source)
    if found is None:
        return False
    space, transposed, count = found
    row = Vector(tuple(out.fresh("b32") for _ in range(4)))
    out.put(f"{FRAGMENTS}{transposed}", row, Vector(elements(source)))
    out.put(f"st{space}.v4.b32", address, row, guard=_row_guard(out, count))
    return True


def _movmatrix(out: _Lowering, instruction: Instruction) -> bool:
    if instruction.modifiers != ("sync", "aligned", "m8n8", "trans", "b16"):
        return False
    out.put(TRANSPOSE, *instruction.operands)
    return True


# ---- wmma ------------------------------------------------------------------------------------------------------------


def _wmma(out: _Lowering, instruction: Instruction) -> bool:
    words = instruction.modifiers
    if words[:1] == ("mma",):
        return _wmma_mma(out, instruction)
    fragment = fragment_of(instruction)
    if fragment is None:
        return False
    store = words[0] == "store"
    address, registers = instruction.operands[:2] if store else instruction.operands[1::-1]
    stride = instruction.operands[2] if len(instruction.operands) > 2 else _number(fragment.default_stride)
    if not isinstance(address, Address) or len(elements(registers)) != fragment.count:
        return False
    space = next((f".{word}" for word in words if word.split("::")[0] in ("global", "shared")), "")
    addresses = _FragmentAddresses(out, fragment, address, stride, "b32" if space.startswith(".shared") else "b64")
    names = elements(registers)
    for index, pieces in enumerate(fragment.registers()):
        # f16 operands have eight registers in every shape: beyond the distinct ones they are copies.
        if index >= fragment.distinct:
            out.put("mov.b32", names[index], names[index % fragment.distinct])
        elif store:
            _store_register(out, fragment, names[index], pieces, addresses, space)
        else:
            _load_register(out, fragment, names[index], pieces, addresses, space)
    return True


class _FragmentAddresses:
    """Addresses of a fragment's elements in memory, computed once per line of the matrix.

    A line is a row or a column, whichever is contiguous in memory.
    """

    def __init__(self, out: _Lowering, fragment: Fragment, address: Address, stride: Operand, narrow: str) -> None:
        self._writer, self._fragment = out, fragment
        base = address.base
        self._type = out.registers.get(base.name, "b64") if isinstance(base, Register) else narrow
        if isinstance(base, Symbol | Immediate):
            base = self._compute("mov", base)
        self._offset = address.offset
        lane = out.compute("mov.u32", "b32", Register("%laneid"))
        # Lane 4 g + t starts at line g and at run t (PTX ISA section 9.7.14.5).
        group = self._wide(out.compute("shr.u32", "b32", lane, _number(2)))
        place = out.compute("and.b32", "b32", lane, _number(3))
        inner = self._wide(out.compute("mul.lo.u32", "b32", place, _number(fragment.run)))
        bits = fragment.bits
        # Strides are given in elements; elements of less than a byte are addressed by bits.
        scaled = self._compute("mul.lo", self._wide(stride), _number(bits if bits < 8 else bits // 8))
        self._stride = self._compute("shr", scaled, _number(3)) if bits < 8 else scaled
        along, across = (inner, group) if fragment.inner_contiguous else (group, inner)
        run = self._compute("mul.lo", along, _number(bits))
        start = self._compute("add", base, self._compute("shr", run, _number(3)))
        self._start = self._compute("mad.lo", across, self._stride, start)
        self._lines: dict[int, Register] = {0: self._start}

    def address(self, piece: FragmentElement) -> Address:
        """Return the address of an element of the current lane."""
        line, place = (piece.group, piece.inner) if self._fragment.inner_contiguous else (piece.inner, piece.group)
        if line not in self._lines:
            self._lines[line] = self._compute("mad.lo", self._stride, _number(line), self._start)
        return Address(self._lines[line], self._offset + place * self._fragment.bits // 8)

    def _wide(self, value: Operand) -> Operand:
        if self._type == "b32" or isinstance(value, Immediate):
            return value
        return self._writer.compute("cvt.u64.u32", "b64", value)

    def _compute(self, opcode: str, *operands: Operand) -> Register:
        type_ = "u" + self._type[1:]
        return self._writer.compute(f"{opcode}.{type_}", self._type, *operands)


def _load_register(
    out: _Lowering,
    fragment: Fragment,
    name: Operand,
    pieces: tuple[FragmentElement, ...],
    addresses: _FragmentAddresses,
    space: str,
) -> None:
    # The elements of one register are neighbours in memory: one load. Else one load per element.
    if fragment.inner_contiguous or len(pieces) == 1:
        out.put(f"ld{space}.b{max(fragment.bits, 32)}", name, addresses.address(pieces[0]))
        return
    parts = [out.fresh("b16" if fragment.bits == 16 else "b32") for _ in pieces]
    for part, piece in zip(parts, pieces, strict=True):
        out.put(f"ld{space}.u{fragment.bits}", part, addresses.address(piece))
    if fragment.bits == 16:
        out.put("mov.b32", name, Vector(tuple(parts)))
        return
    joined = parts[0]
    for index, part in enumerate(parts[1:], 1):
        moved = out.compute("shl.b32", "b32", part, _number(8 * index))
        joined = out.compute("or.b32", "b32", joined, moved)
    out.put("mov.b32", name, joined)


def _store_register(
    out: _Lowering,
    fragment: Fragment,
    name: Operand,
    pieces: tuple[FragmentElement, ...],
    addresses: _FragmentAddresses,
    space: str,
) -> None:
    if fragment.inner_contiguous or len(pieces) == 1:
        out.put(f"st{space}.b{max(fragment.bits, 32)}", addresses.address(pieces[0]), name)
        return
    parts = tuple(out.fresh("b16") for _ in pieces)
    out.put("mov.b32", Vector(parts), name)
    for part, piece in zip(parts, pieces, strict=True):
        out.put(f"st{space}.b16", addresses.address(piece), part)


def _wmma_mma(out: _Lowering, instruction: Instruction) -> bool:
    tiles = tiles_of(instruction)
    if tiles is None:
        return False
    results = elements(instruction.operands[0])
    sources = [operand for _, operands in tiles for vector in operands[1:] for operand in elements(vector)]
    # A tile must not overwrite a source of a later tile. An accumulator that is updated in place is not such a source.
    clash = any(r in sources for r, c in zip(results, elements(instruction.operands[3]), strict=False) if r != c)
    own = tuple(out.fresh(out.registers[r.name]) for r in results if isinstance(r, Register)) if clash else results
    position = 0
    for modifiers, (target, *rest) in tiles:
        count = len(elements(target))
        operands = (Vector(own[position : position + count]), *rest)
        position += count
        if product_of(replace(instruction, opcode="mma", modifiers=modifiers, operands=operands)) is None:
            return False
        out.put(".".join(("mma", *modifiers)), *operands)
    for result, value in zip(results, own, strict=True):
        if result != value and isinstance(result, Register):
            out.put(f"mov.b{64 if '64' in out.registers[result.name] else 32}", result, value)
    return True


_LOWER: Mapping[str, Callable[[_Lowering, Instruction], bool]] = {
    "mma": _mma,
    "wmma": _wmma,
    "wgmma": lower_group,
    "ldmatrix": _ldmatrix,
    "stmatrix": _stmatrix,
    "movmatrix": _movmatrix,
    TENSOR_MEMORY: lower_tensor,
}
