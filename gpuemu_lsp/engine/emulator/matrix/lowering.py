"""Fragment loads and stores, and ``wmma``, as ordinary PTX (sections 9.7.14.4 and 9.7.14.5).

Which lane holds which element of a ``wmma`` fragment PTX leaves open. Here they lie as the ``mma`` of the same types
wants them, which is what sm_80 does: a 16 x 16 x 16 product is two ``mma.m16n8k16``, a product of eight rows the
transposed product of the transposed operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from gpuemu_lsp.engine.emulator.ir.operands import elements
from gpuemu_lsp.engine.emulator.matrix.permutation import FRAGMENTS, ROWS, TRANSPOSE
from gpuemu_lsp.engine.emulator.matrix.product import product_of
from gpuemu_lsp.engine.emulator.matrix.wmma import Fragment, FragmentElement, fragment_of, tiles_of
from gpuemu_lsp.engine.ptx.model import Address, Guard, Immediate, Instruction, Operand, Register, Symbol, Vector

OPCODES = frozenset({"mma", "wmma", "ldmatrix", "stmatrix", "movmatrix"})

EVERY_LANE = Immediate(0xFFFFFFFF, "int")


def lower(instruction: Instruction, registers: dict[str, str]) -> tuple[Instruction, ...] | None:
    """Return the instructions that do the same once all lanes have met, or None if this one cannot be run.

    New registers are added to ``registers``, which maps names to types.
    """
    writer = _Writer(instruction, registers)
    done = _LOWER[instruction.opcode](writer, instruction)
    return tuple(writer.code) if done else None


def meeting(instruction: Instruction) -> Instruction:
    """Return what makes all lanes of the warp wait for each other (``.sync.aligned``)."""
    return replace(instruction, opcode="bar", modifiers=("warp", "sync"), operands=(EVERY_LANE,), guard=None)


class _Writer:
    """Collects the instructions that stand for one."""

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

    def compute(self, name: str, type_: str, *operands: Operand) -> Register:
        result = self.fresh(type_)
        self.put(name, result, *operands)
        return result


def _number(value: int) -> Immediate:
    return Immediate(value, "int")


# ---- mma -------------------------------------------------------------------------------------------------------------


def _mma(writer: _Writer, instruction: Instruction) -> bool:
    if product_of(instruction) is None:
        return False
    words = (word for word in instruction.modifiers if word not in ("sync", "aligned"))
    writer.put(".".join(("mma", *words)), *instruction.operands)
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


def _row_guard(writer: _Writer, count: int) -> Guard | None:
    """Return the guard of the lanes whose address counts: eight to a matrix."""
    if count == 4:
        return None
    lane = writer.compute("mov.u32", "b32", Register("%laneid"))
    return Guard(writer.compute("setp.lt.u32", "pred", lane, _number(8 * count)), False)


def _ldmatrix(writer: _Writer, instruction: Instruction) -> bool:
    target, address = instruction.operands
    found = _matrix_words(instruction, target)
    if found is None:
        return False
    space, transposed, count = found
    row = Vector(tuple(writer.fresh("b32") for _ in range(4)))
    writer.put(f"ld{space}.v4.b32", row, address, guard=_row_guard(writer, count))
    writer.put(f"{ROWS}{transposed}", Vector(elements(target)), row)
    return True


def _stmatrix(writer: _Writer, instruction: Instruction) -> bool:
    address, source = instruction.operands
    found = _matrix_words(instruction, source)
    if found is None:
        return False
    space, transposed, count = found
    row = Vector(tuple(writer.fresh("b32") for _ in range(4)))
    writer.put(f"{FRAGMENTS}{transposed}", row, Vector(elements(source)))
    writer.put(f"st{space}.v4.b32", address, row, guard=_row_guard(writer, count))
    return True


def _movmatrix(writer: _Writer, instruction: Instruction) -> bool:
    if instruction.modifiers != ("sync", "aligned", "m8n8", "trans", "b16"):
        return False
    writer.put(TRANSPOSE, *instruction.operands)
    return True


# ---- wmma ------------------------------------------------------------------------------------------------------------


def _wmma(writer: _Writer, instruction: Instruction) -> bool:
    words = instruction.modifiers
    if words[:1] == ("mma",):
        return _wmma_mma(writer, instruction)
    fragment = fragment_of(instruction)
    if fragment is None:
        return False
    store = words[0] == "store"
    address, registers = instruction.operands[:2] if store else instruction.operands[1::-1]
    stride = instruction.operands[2] if len(instruction.operands) > 2 else _number(fragment.default_stride)
    if not isinstance(address, Address) or len(elements(registers)) != fragment.count:
        return False
    space = next((f".{word}" for word in words if word.split("::")[0] in ("global", "shared")), "")
    places = _Places(writer, fragment, address, stride, "b32" if space.startswith(".shared") else "b64")
    names = elements(registers)
    for index, pieces in enumerate(fragment.registers()):
        if index >= fragment.distinct:
            writer.put("mov.b32", names[index], names[index % fragment.distinct])
        elif store:
            _store_register(writer, fragment, names[index], pieces, places, space)
        else:
            _load_register(writer, fragment, names[index], pieces, places, space)
    return True


class _Places:
    """Addresses of a fragment's elements in memory, computed once per line of the matrix."""

    def __init__(self, writer: _Writer, fragment: Fragment, address: Address, stride: Operand, narrow: str) -> None:
        self._writer, self._fragment = writer, fragment
        base = address.base
        self._type = writer.registers.get(base.name, "b64") if isinstance(base, Register) else narrow
        if isinstance(base, Symbol | Immediate):
            base = self._compute("mov", base)
        self._offset = address.offset
        lane = writer.compute("mov.u32", "b32", Register("%laneid"))
        group = self._wide(writer.compute("shr.u32", "b32", lane, _number(2)))
        place = writer.compute("and.b32", "b32", lane, _number(3))
        inner = self._wide(writer.compute("mul.lo.u32", "b32", place, _number(fragment.run)))
        bits = fragment.bits
        scaled = self._compute("mul.lo", self._wide(stride), _number(bits if bits < 8 else bits // 8))
        self._stride = self._compute("shr", scaled, _number(3)) if bits < 8 else scaled
        along, across = (inner, group) if fragment.inner_contiguous else (group, inner)
        run = self._compute("mul.lo", along, _number(bits))
        start = self._compute("add", base, self._compute("shr", run, _number(3)))
        self._start = self._compute("mad.lo", across, self._stride, start)
        self._lines: dict[int, Register] = {0: self._start}

    def address(self, piece: FragmentElement) -> Address:
        """Return where an element of the current lane lies."""
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
    writer: _Writer, fragment: Fragment, name: Operand, pieces: tuple[FragmentElement, ...], places: _Places, space: str
) -> None:
    if fragment.inner_contiguous or len(pieces) == 1:
        writer.put(f"ld{space}.b{max(fragment.bits, 32)}", name, places.address(pieces[0]))
        return
    parts = [writer.fresh("b16" if fragment.bits == 16 else "b32") for _ in pieces]
    for part, piece in zip(parts, pieces, strict=True):
        writer.put(f"ld{space}.u{fragment.bits}", part, places.address(piece))
    if fragment.bits == 16:
        writer.put("mov.b32", name, Vector(tuple(parts)))
        return
    joined = parts[0]
    for index, part in enumerate(parts[1:], 1):
        moved = writer.compute("shl.b32", "b32", part, _number(8 * index))
        joined = writer.compute("or.b32", "b32", joined, moved)
    writer.put("mov.b32", name, joined)


def _store_register(
    writer: _Writer, fragment: Fragment, name: Operand, pieces: tuple[FragmentElement, ...], places: _Places, space: str
) -> None:
    if fragment.inner_contiguous or len(pieces) == 1:
        writer.put(f"st{space}.b{max(fragment.bits, 32)}", places.address(pieces[0]), name)
        return
    parts = tuple(writer.fresh("b16") for _ in pieces)
    writer.put("mov.b32", Vector(parts), name)
    for part, piece in zip(parts, pieces, strict=True):
        writer.put(f"st{space}.b16", places.address(piece), part)


def _wmma_mma(writer: _Writer, instruction: Instruction) -> bool:
    tiles = tiles_of(instruction)
    if tiles is None:
        return False
    results = elements(instruction.operands[0])
    sources = [operand for _, operands in tiles for vector in operands[1:] for operand in elements(vector)]
    # A tile must not overwrite what a later one reads; an accumulator in its own place is read by its own tile only.
    clash = any(r in sources for r, c in zip(results, elements(instruction.operands[3]), strict=False) if r != c)
    own = (
        tuple(writer.fresh(writer.registers[r.name]) for r in results if isinstance(r, Register)) if clash else results
    )
    position = 0
    for modifiers, (target, *rest) in tiles:
        count = len(elements(target))
        operands = (Vector(own[position : position + count]), *rest)
        position += count
        if product_of(replace(instruction, opcode="mma", modifiers=modifiers, operands=operands)) is None:
            return False
        writer.put(".".join(("mma", *modifiers)), *operands)
    for result, value in zip(results, own, strict=True):
        if result != value and isinstance(result, Register):
            writer.put(f"mov.b{64 if '64' in writer.registers[result.name] else 32}", result, value)
    return True


_LOWER: Mapping[str, Callable[[_Writer, Instruction], bool]] = {
    "mma": _mma,
    "wmma": _wmma,
    "ldmatrix": _ldmatrix,
    "stmatrix": _stmatrix,
    "movmatrix": _movmatrix,
}
