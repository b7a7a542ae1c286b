"""Lowering of ``wgmma``, the products of four warps with operands in shared memory (PTX ISA section 9.7.15).

The rows of the result are distributed over the four warps of the group, sixteen each, and no element depends on another
warp. A ``wgmma.mma_async`` is therefore what each of its warps can execute alone: loads of the operands' elements, and
one ``mma.m16n8`` for every eight columns, whose fragments are those of ``wgmma`` (figures of 9.7.15.5.1.1). A function
executes it (``codegen.instructions.products.groups``) when it is issued, the earliest moment that the manual allows;
what orders it is checked apart (``launch.async_order``).

Addresses follow the matrix descriptor (9.7.15.5.1.2.2) and the canonical layouts (9.7.15.5.1.2.1.3). With T the element
and W the bytes of a row of the swizzle pattern (16, 32, 64 or 128), element (i, k) of an operand lies at:

- K-major: ``i/8 * SBO + i%8 * W + k*T``; without swizzle ``i/8 * SBO + i%8 * 16 + k*T/16 * LBO + k*T%16``;
- MN-major: ``i*T/W * LBO + k/8 * SBO + k%8 * W + i*T%W``; without swizzle LBO and SBO change places.

The swizzle is applied to the whole shared address: bits 4 to 6 are changed by bits 7 to 9, as many as the pattern has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

from gpuemu_lsp.engine.emulator.ir.opcodes import GROUP_BARRIER, GROUP_PRODUCT
from gpuemu_lsp.engine.emulator.ir.operands import elements
from gpuemu_lsp.engine.emulator.matrix.product import product_of, sizes
from gpuemu_lsp.engine.ptx.model import Guard, Immediate, Instruction, Operand, Register, Vector

_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
_SIGNS = {16: 0x80008000, 32: 0x80000000, 8: 0x80808080}
_MOST_COLUMNS = 256


class InstructionWriter(Protocol):
    """What the lowering of one instruction writes to: ``code``, and new ``registers`` by name, with their types."""

    code: list[Instruction]
    registers: dict[str, str]

    def fresh(self, type_: str) -> Register:
        """Return a new register."""
        ...

    def put(self, name: str, *operands: Operand, guard: Guard | None = None) -> None:
        """Append an instruction."""
        ...

    def note(self, modifiers: tuple[str, ...], *operands: Operand) -> None:
        """Append an event of the warp group."""
        ...


@dataclass(frozen=True, slots=True)
class GroupProduct:
    """A ``wgmma.mma_async``: types, columns, operands, and how operands are stored.

    ``a`` is a descriptor or a vector of registers, ``b`` a descriptor. ``scale`` is the predicate or constant that says
    if the accumulator is added. ``transposed`` says of A and of B whether they are MN-major.
    """

    columns: int
    depth: int
    d_type: str
    a_type: str
    b_type: str
    saturating: bool
    d: tuple[Operand, ...]
    a: Operand
    b: Operand
    scale: Operand
    negated: bool
    transposed: tuple[bool, bool]

    @property
    def per_tile(self) -> int:
        """Registers of the accumulator for eight columns."""
        return 2 if self.d_type == "f16" else 4

    @property
    def words(self) -> tuple[str, ...]:
        """Modifiers of the ``mma`` for eight columns."""
        saturating = ("satfinite",) if self.saturating else ()
        shape = f"m16n8k{self.depth}"
        return (shape, "row", "col", *saturating, self.d_type, self.a_type, self.b_type, self.d_type)


def group_product(instruction: Instruction) -> GroupProduct | None:
    """Return the product of a dense ``wgmma.mma_async``, or None if it cannot be run."""
    words = [word for word in instruction.modifiers if word not in ("mma_async", "sync", "aligned")]
    size = sizes(words[0]) if words else None
    saturating = words[1:2] == ["satfinite"]
    types = words[1 + saturating :]
    if size is None or len(types) != 3 or any(one not in _BITS for one in types[1:]):
        return None
    m, n, k = size
    d_type, a_type, b_type = types
    bits = _BITS[a_type]
    if m != 64 or k * bits != 256 or n % 8 or not 8 <= n <= _MOST_COLUMNS or _BITS[b_type] != bits:
        return None
    if len(instruction.operands) < 4:
        return None
    target, a, b, scale, *rest = instruction.operands
    constants = [one.bits for one in rest if isinstance(one, Immediate)]
    in_registers = isinstance(a, Vector)
    integer = a_type in ("s8", "u8")
    # imm-scale-a and -b, and for 16-bit types the transpositions of the operands in shared memory.
    wanted = 0 if integer else 2 + ((1 if in_registers else 2) if bits == 16 else 0)
    if len(constants) != len(rest) or len(rest) != wanted:
        return None
    scales, places = ([], []) if integer else (constants[:2], constants[2:])
    if any(one not in (1, -1) for one in scales) or any(one not in (0, 1) for one in places):
        return None
    transposed = (False, bool(places and places[-1])) if in_registers else tuple(map(bool, places or (0, 0)))
    product = GroupProduct(
        columns=n,
        depth=k,
        d_type=d_type,
        a_type=a_type,
        b_type=b_type,
        saturating=saturating,
        d=elements(target),
        a=a,
        b=b,
        scale=scale,
        negated=scales.count(-1) == 1,
        transposed=(transposed[0], transposed[1]),
    )
    if len(product.d) != n // 8 * product.per_tile or (in_registers and len(elements(a)) != 4):
        return None
    return product if product_of(_tile(instruction, product, 0, a_registers(a), _NO_PAIR)) is not None else None


def a_registers(a: Operand) -> tuple[Operand, ...]:
    """Return the four registers of A, or placeholders if it is a descriptor."""
    return elements(a) if isinstance(a, Vector) else (Register("_"),) * 4


_NO_PAIR = (Register("_"), Register("_"))


def _tile(
    instruction: Instruction, product: GroupProduct, tile: int, a: tuple[Operand, ...], b: tuple[Operand, ...]
) -> Instruction:
    d = Vector(product.d[tile * product.per_tile : (tile + 1) * product.per_tile])
    return replace(instruction, opcode="mma", modifiers=product.words, operands=(d, Vector(a), Vector(b), d))


def lower_group(out: InstructionWriter, instruction: Instruction) -> bool:
    """Append what one warp executes of a ``wgmma`` instruction; return False if it cannot be run."""
    words = instruction.modifiers
    if words[:1] in (("fence",), ("commit_group",), ("wait_group",)):
        out.note(words[:1], *instruction.operands)
        return True
    product = group_product(instruction) if words[:1] == ("mma_async",) else None
    if product is None:
        return False
    of_a = elements(product.a) if isinstance(product.a, Vector) else ()
    registers = [one.name for one in (*product.d, *of_a) if isinstance(one, Register)]
    described = (str(product.columns), str(_BITS[product.a_type]), *(str(int(one)) for one in product.transposed))
    places = (_int(0) if isinstance(product.a, Vector) else product.a, product.b)
    out.note(("mma_async", *described, ",".join(registers)), *places)
    sums = elements(Vector(product.d))
    # Without an addend the registers are not read.
    dropped = isinstance(product.scale, Immediate) and not product.scale.bits
    addend = Vector((_int(0),) * len(sums)) if dropped else Vector(sums)
    majors = tuple("mn" if one else "k" for one in product.transposed)
    memory = "registers" if isinstance(product.a, Vector) else "shared"
    name = ".".join((GROUP_PRODUCT, "mma_async", "shared", memory, *majors, *product.words))
    sign = _int(_SIGNS[_BITS[product.a_type]] if product.negated else 0)
    out.put(name, Vector(sums), product.a, product.b, product.scale, sign, addend)
    own = ",".join(one.name for one in product.d if isinstance(one, Register))
    out.note(("issued", own))
    return True


def ends_with_barrier(instruction: Instruction) -> bool:
    """Return whether the four warps of a group wait for each other after an instruction: ``wgmma.wait_group``.

    By the manual each warp waits for itself. Yet kernels refill a tile, or hand it to a producer, as soon as one warp
    of the group has waited: on hardware the product is then complete for all of them.
    """
    return instruction.opcode == "wgmma" and instruction.modifiers[:1] == ("wait_group",)


def group_barrier(instruction: Instruction, registers: dict[str, str]) -> tuple[Instruction, ...]:
    """Return the instructions of such a barrier, the last of which is a barrier of the 128 threads."""
    number = Register(f"%m{len(registers)}")
    registers[number.name] = "b32"

    def one(opcode: str, modifier: str, *operands: Operand) -> Instruction:
        return replace(instruction, opcode=opcode, modifiers=(modifier,), operands=operands, guard=None)

    return (
        one("mov", "u32", number, Register("%warpid")),
        one("shr", "u32", number, number, _int(2)),
        one("add", "u32", number, number, _int(GROUP_BARRIER)),
        one("bar", "sync", number, _int(128)),
    )


def _int(value: int) -> Immediate:
    return Immediate(value, "int")
