"""``wmma`` fragments: layout in registers and memory, and the ``mma`` tiles of a product (PTX ISA section 9.7.14.4).

A product whose rows are a multiple of 16 is divided into tiles of 16 x 8. One of 8 rows and 32 columns is computed
transposed, with its operands exchanged: ``left`` and ``right`` below are the operands of ``mma``, not of ``wmma``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.ir.operands import elements
from gpuemu_lsp.engine.emulator.matrix.product import ELEMENT_BITS, sizes
from gpuemu_lsp.engine.ptx.model import Instruction, Operand, Vector

_SHAPES = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), ("m16n16k16", "m8n32k16", "m32n8k16")),
    **dict.fromkeys(("s4", "u4"), ("m8n8k32",)),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
    "b1": ("m8n8k128",),
}
_ACCUMULATED = {"f16": 16, "f32": 32, "s32": 32, "f64": 64}


@dataclass(frozen=True, slots=True)
class FragmentElement:
    """An element's position relative to the first element of its lane.

    ``group`` is the dimension along which lane / 4 counts, ``inner`` that along which lane % 4 does.
    """

    group: int
    inner: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """One operand of a ``wmma``, and the layout of its elements in memory and in registers.

    ``run`` consecutive elements along ``inner`` belong to one lane; ``inner_contiguous`` if they are neighbours in
    memory. ``repeated``: further registers are copies.
    """

    role: str
    rows: int
    columns: int
    bits: int
    run: int
    inner_contiguous: bool
    default_stride: int
    repeated: bool

    @property
    def distinct(self) -> int:
        """Number of registers without the repeated ones."""
        lines = 64 if self.bits == 64 else 32
        count = self.rows * self.columns * self.bits // (32 * lines)
        return max(count, 1)

    @property
    def count(self) -> int:
        """Number of registers of the instruction: always eight for f16 operands, some of which are copies."""
        return 8 if self.repeated else self.distinct

    def registers(self) -> Iterator[tuple[FragmentElement, ...]]:
        """Yield the positions of the elements in each register."""
        order = list(self._order())
        for index in range(self.count):
            yield order[index % len(order)]

    def _order(self) -> Iterator[tuple[FragmentElement, ...]]:
        height = min(self.rows, 16)
        halves = height // 8
        if self.role == "accumulator":
            for row in range(0, self.rows, height):
                for column in range(0, self.columns, 8):
                    for half in range(halves):
                        pair = [FragmentElement(row + 8 * half, column + i) for i in range(2)]
                        yield from [tuple(pair)] if self.bits == 16 else [(pair[0],), (pair[1],)]
            return
        if self.role == "right":
            height, halves = 8, 1
        for row in range(0, self.rows, height):
            for step in range(0, self.columns, 4 * self.run):
                for half in range(halves):
                    yield tuple(FragmentElement(row + 8 * half, step + i) for i in range(self.run))


def fragment_of(instruction: Instruction) -> Fragment | None:
    """Return the fragment of a ``wmma.load`` or ``wmma.store``, None if the instruction cannot be run."""
    kind, operand, *words = [word for word in instruction.modifiers if word not in ("sync", "aligned")]
    words = [word for word in words if word.split("::")[0] not in ("global", "shared")]
    if len(words) != 3 or (kind, operand) not in (("load", "a"), ("load", "b"), ("load", "c"), ("store", "d")):
        return None
    layout, shape, type_ = words
    size = sizes(shape)
    if size is None or layout not in ("row", "col"):
        return None
    m, n, k = size
    swapped = m < n
    if operand in "cd":
        if type_ not in _ACCUMULATED or not any(shape in known for known in _SHAPES.values()):
            return None
        rows, columns = (n, m) if swapped else (m, n)
        stride = n if layout == "row" else m
        bits = _ACCUMULATED[type_]
        return Fragment("accumulator", rows, columns, bits, 2, (layout == "row") != swapped, stride, repeated=False)
    if shape not in _SHAPES.get(type_, ()):
        return None
    role = "left" if (operand == "a") != swapped else "right"
    contiguous = layout == ("row" if operand == "a" else "col")
    # Elements of less than a byte exist only row-major in A and column-major in B.
    if ELEMENT_BITS[type_] < 8 and not contiguous:
        return None
    rows = m if operand == "a" else n
    stride = k if contiguous else rows
    run = max(32 // ELEMENT_BITS[type_], 1)
    return Fragment(role, rows, k, ELEMENT_BITS[type_], run, contiguous, stride, repeated=type_ == "f16")


def tiles_of(instruction: Instruction) -> list[tuple[tuple[str, ...], tuple[Vector, ...]]] | None:
    """Return modifiers and operands of the ``mma`` tiles of a ``wmma.mma``, None if it cannot be run."""
    words = [word for word in instruction.modifiers[1:] if word not in ("sync", "aligned", "rn")]
    bitwise: list[str] = []
    if words[1:2] == ["popc"]:
        bitwise, words = words[:2], words[2:]
    if len(words) < 5:
        return None
    shape, rest = words[2], words[3:]
    saturating = ["satfinite"] if rest[0] == "satfinite" else []
    types = rest[len(saturating) :]
    # With f16 operands only the types of D and C are written.
    if len(types) == 2:
        types = [types[0], "f16", "f16", types[1]]
    size = sizes(shape)
    if len(types) != 4 or size is None or shape not in _SHAPES.get(types[1], ()):
        return None
    m, n, k = size
    swapped = m < n
    d, a, b, c = types
    rows, columns = (n, m) if swapped else (m, n)
    height = min(rows, 16)
    results, first, second, addends = (elements(operand) for operand in instruction.operands)
    left, right = (second, first) if swapped else (first, second)
    left_type, right_type = (b, a) if swapped else (a, b)
    modifiers = (f"m{height}n8k{k}", "row", "col", *saturating, d, left_type, right_type, c, *bitwise)
    per_register = max(32 // ELEMENT_BITS[a], 1)
    steps = k // (4 * per_register)
    found: list[tuple[tuple[str, ...], tuple[Vector, ...]]] = []
    for index in range(rows // height * (columns // 8)):
        row, column = divmod(index, columns // 8)
        operands = (
            _slice(results, index, height // 8 * (1 if d == "f16" else 2)),
            _slice(left, row, height // 8 * steps),
            _slice(right, column, steps),
            _slice(addends, index, height // 8 * (1 if c == "f16" else 2)),
        )
        found.append((modifiers, operands))
    return found


def _slice(operands: Sequence[Operand], index: int, count: int) -> Vector:
    return Vector(tuple(operands[index * count : (index + 1) * count]))
