"""Forms of ``tcgen05``, the instructions of tensor memory (PTX ISA section 9.7.16), and their lowering.

Tensor memory has 128 lanes of 512 columns, 32 bits each. No address in it is one of a thread's memory: an operand
``[%r1+4]`` becomes the register with the address. ``tcgen05.alloc`` becomes one with a result and a store of it, which
has all checks of stores to shared memory. What is left is executed by :mod:`.launch.tensor_memory`, from the form that
:func:`tensor_form` returns; an instruction without one cannot be run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Final, TypeVar

from gpuemu_lsp.engine.emulator.ir.opcodes import TENSOR_MEMORY
from gpuemu_lsp.engine.emulator.ir.operands import elements
from gpuemu_lsp.engine.emulator.matrix.warpgroup import InstructionWriter
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Operand, Register, Symbol, Vector

LANES: Final = 128
"""Lanes of tensor memory."""
COLUMNS: Final = 512
"""Columns of tensor memory, of 32 bits."""

A_IN_TENSOR_MEMORY: Final = "a::tensor"
"""Modifier of a lowered ``tcgen05.mma`` whose operand A is in tensor memory."""


_T = TypeVar("_T")


class TensorOperation(Enum):
    """What an instruction does, by its first modifier."""

    ALLOCATE = "alloc"
    FREE = "dealloc"
    RELINQUISH = "relinquish_alloc_permit"
    LOAD = "ld"
    STORE = "st"
    WAIT_LOADS = "wait::ld"
    WAIT_STORES = "wait::st"
    MULTIPLY = "mma"
    COPY = "cp"
    COMMIT = "commit"
    FENCE_BEFORE = "fence::before_thread_sync"
    FENCE_AFTER = "fence::after_thread_sync"


_OPERATIONS: Final = {one.value: one for one in TensorOperation}


@dataclass(frozen=True, slots=True)
class TensorForm:
    """An instruction by its modifiers.

    ``group`` is the number of blocks that take part (``.cta_group``). ``shape`` is that of a load, store or copy; a
    load or store repeats it ``count`` times, and ``packed`` says that registers have the low halves of two columns.
    ``kind`` is that of a product, whose A may be ``in_tensor_memory``; ``weights`` are stationary (``.ws``), and its
    operands have ``scales`` scale factors in each row. A copy is to several ``warps``. A commit is ``multicast`` to
    several blocks, and ``in_cluster`` says that its address is one of ``.shared::cluster``.
    """

    operation: TensorOperation
    group: int = 1
    shape: str = ""
    count: int = 0
    packed: bool = False
    kind: str = ""
    in_tensor_memory: bool = False
    weights: bool = False
    scales: int = 0
    warps: str = ""
    multicast: bool = False
    in_cluster: bool = False

    @property
    def registers(self) -> int:
        """Registers of a thread that a load or store has."""
        return self.count * _SHAPES[self.shape]


@dataclass(frozen=True, slots=True)
class TensorOperands:
    """The operands of a lowered instruction: results, values with one per lane, and registers of a vector."""

    results: tuple[Operand, ...]
    values: tuple[Operand, ...]
    registers: tuple[Operand, ...]


def tensor_operands(instruction: Instruction) -> TensorOperands:
    """Return the operands of a lowered instruction."""
    operands = instruction.operands
    has_result = instruction.modifiers[0] in ("ld", "alloc")
    sources = operands[1:] if has_result else operands
    registers = [one for source in sources if isinstance(source, Vector) for one in source.elements]
    values = tuple(one for one in sources if not isinstance(one, Vector))
    return TensorOperands(elements(operands[0]) if has_result else (), values, tuple(registers))


# ---- forms -----------------------------------------------------------------------------------------------------------

_SHAPES: Final = {"32x32b": 1, "16x32bx2": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}
"""Registers of a thread that each shape has at ``.x1``."""
_MOST_REGISTERS: Final = 128
_KINDS: Final = frozenset({"f16", "tf32", "f8f6f4", "i8"})
_SCALES: Final = {
    ("mxf8f6f4", ""): 1,
    ("mxf8f6f4", "scale_vec::1X"): 1,
    ("mxf8f6f4", "block32"): 1,
    ("mxf4", ""): 2,
    ("mxf4", "scale_vec::2X"): 2,
    ("mxf4", "block32"): 2,
    ("mxf4nvf4", "scale_vec::2X"): 2,
    ("mxf4nvf4", "block32"): 2,
    ("mxf4nvf4", "scale_vec::4X"): 4,
    ("mxf4nvf4", "block16"): 4,
}
"""Scale factors of a row, by the kind of a product and its vector size (table 54)."""
_BARRIER: Final = "mbarrier::arrive::one"
_COPIES: Final = frozenset(
    {
        ("128x256b", ""),
        ("128x128b", ""),
        ("32x128b", "warpx4"),
        ("64x128b", "warpx2::02_13"),
        ("64x128b", "warpx2::01_23"),
    }
)
"""Shapes of copies, and the warps to whose lanes they go."""


def tensor_form(instruction: Instruction) -> TensorForm | None:
    """Return the form of a lowered instruction, None if it cannot be run."""
    if instruction.opcode != TENSOR_MEMORY:
        return None
    form = _form(instruction.modifiers)
    if form is None:
        return None
    return form if _fits(form, tensor_operands(instruction)) else None


@lru_cache(maxsize=512)
def _form(modifiers: tuple[str, ...]) -> TensorForm | None:
    operation = _OPERATIONS.get(modifiers[0])
    words = list(modifiers[1:])
    group = _taken(words, {"cta_group::1": 1, "cta_group::2": 2}) or 1
    if operation in (TensorOperation.LOAD, TensorOperation.STORE):
        return _access(operation, words)
    if operation is TensorOperation.MULTIPLY:
        return _product(group, words)
    if operation is TensorOperation.COPY:
        shape, warps = words[0], "".join(words[1:])
        return TensorForm(operation, group, shape, warps=warps) if (shape, warps) in _COPIES else None
    if operation is TensorOperation.COMMIT:
        in_cluster = _taken(words, {"shared::cluster": True}) or False
        multicast = _taken(words, {"multicast::cluster": True}) or False
        if words != [_BARRIER, "b64"]:
            return None
        return TensorForm(operation, group, multicast=multicast, in_cluster=in_cluster)
    if operation is None or words not in ([], ["b32"]):
        return None
    return TensorForm(operation, group)


def _access(operation: TensorOperation, words: list[str]) -> TensorForm | None:
    shape = _taken(words, {name: name for name in _SHAPES})
    count = _taken(words, {f"x{1 << power}": 1 << power for power in range(8)})
    packed = _taken(words, {"pack::16b": True, "unpack::16b": True}) or False
    if shape is None or count is None or words != ["b32"] or count * _SHAPES[shape] > _MOST_REGISTERS:
        return None
    return TensorForm(operation, shape=shape, count=count, packed=packed)


def _product(group: int, words: list[str]) -> TensorForm | None:
    weights = _taken(words, {"ws": True}) or False
    from_tensor = _taken(words, {A_IN_TENSOR_MEMORY: True}) or False
    kind = next((word[len("kind::") :] for word in words if word.startswith("kind::")), "")
    # A collector keeps an operand for the next product, whose memory must not change: nothing is kept here.
    rest = [word for word in words if not word.startswith(("kind::", "collector::"))]
    scales = 0
    if "block_scale" in rest:
        rest.remove("block_scale")
        scales = _SCALES.get((kind, "".join(rest)), 0)
        if not scales or weights:
            return None
    elif rest or kind not in _KINDS:
        return None
    if weights and (group != 1 or from_tensor):
        return None
    return TensorForm(
        TensorOperation.MULTIPLY, group, kind=kind, in_tensor_memory=from_tensor, weights=weights, scales=scales
    )


def _taken(words: list[str], meanings: Mapping[str, _T]) -> _T | None:
    """Return what the first of some modifiers means that has a meaning here, and remove it."""
    for word in words:
        if word in meanings:
            words.remove(word)
            return meanings[word]
    return None


_VALUES: Final = {
    TensorOperation.ALLOCATE: (1,),
    TensorOperation.FREE: (2,),
    TensorOperation.COPY: (2,),
    TensorOperation.COMMIT: (1,),
}
"""Numbers of operands that an instruction has besides vectors."""


def _fits(form: TensorForm, operands: TensorOperands) -> bool:
    values, registers = len(operands.values), len(operands.registers)
    if form.operation is TensorOperation.LOAD:
        return values == _places(form) and len(operands.results) == form.registers and not registers
    if form.operation is TensorOperation.STORE:
        return values == _places(form) and registers == form.registers
    if form.operation is TensorOperation.MULTIPLY:
        return values in ((7,) if form.scales else (5, 6)) and registers in (0, 4 * form.group)
    if form.multicast:
        return values == 2 and not registers
    return values in _VALUES.get(form.operation, (0,)) and not registers


def _places(form: TensorForm) -> int:
    """Return the number of operands that say where a load or store is: an address, and the distance of two halves."""
    return 2 if form.shape == "16x32bx2" else 1


# ---- lowering --------------------------------------------------------------------------------------------------------


def lower_tensor(out: InstructionWriter, instruction: Instruction) -> bool:
    """Append what an instruction of the whole warp (``.sync.aligned``) is lowered to; return if it can be run."""
    words = tuple(word for word in instruction.modifiers if word not in ("sync", "aligned"))
    instruction = replace(instruction, modifiers=words)
    if words[0] == "alloc":
        target, *rest = instruction.operands
        if not isinstance(target, Address):
            return False
        result = out.fresh("b32")
        out.put(".".join((TENSOR_MEMORY, *(word for word in words if not word.startswith("shared")))), result, *rest)
        shared = isinstance(target.base, Symbol) or any(word.startswith("shared") for word in words)
        out.put("st.shared.b32" if shared else "st.b32", target, result)
        return tensor_form(out.code[-2]) is not None
    for lowered in with_registers(instruction, out.registers):
        out.put(f"{lowered.opcode}.{'.'.join(lowered.modifiers)}", *lowered.operands)
    return tensor_form(out.code[-1]) is not None


def with_registers(instruction: Instruction, registers: dict[str, str]) -> Sequence[Instruction]:
    """Return an instruction with registers in place of addresses in tensor memory, behind those that compute them.

    The address of the ``mbarrier`` object of a commit becomes a register, too. New registers are added to
    ``registers``.
    """
    before: list[Instruction] = []
    operands: list[Operand] = []
    modifiers = instruction.modifiers
    for index, operand in enumerate(instruction.operands):
        if not isinstance(operand, Address):
            operands.append(operand)
            continue
        if modifiers[0] == "mma" and index == 1:
            modifiers = (*modifiers, A_IN_TENSOR_MEMORY)
        base = operand.base
        if operand.offset == 0 and not isinstance(base, Symbol):
            operands.append(base)
            continue
        wide = isinstance(base, Register) and registers.get(base.name, "")[-2:] == "64"
        type_ = "b64" if wide else "b32"
        result = Register(f"%v{len(registers)}")
        registers[result.name] = type_
        if isinstance(base, Symbol):
            address = Symbol(base.name, base.offset + operand.offset)
            before.append(replace(instruction, opcode="mov", modifiers=(type_,), operands=(result, address)))
        else:
            offset = Immediate(operand.offset, "int")
            add = replace(instruction, opcode="add", modifiers=(f"s{type_[1:]}",), operands=(result, base, offset))
            before.append(add)
        operands.append(result)
    return (*before, replace(instruction, modifiers=modifiers, operands=tuple(operands)))
