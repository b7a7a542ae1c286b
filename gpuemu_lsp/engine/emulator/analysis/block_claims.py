"""What blocks of a launch may share: the accesses that must be claimed where host threads execute blocks side by side.

The essay is in :mod:`~gpuemu_lsp.engine.emulator.launch.threads`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpuemu_lsp.engine.emulator.abi.access_flags import Window
from gpuemu_lsp.engine.emulator.analysis.provenance import UNKNOWN, origins, roots
from gpuemu_lsp.engine.emulator.analysis.race_candidates import by_memory, needs_vector_clocks
from gpuemu_lsp.engine.emulator.ir.accesses import MemoryAccess, memory_accesses
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, memory_space, type_bytes
from gpuemu_lsp.engine.emulator.ir.operands import flattened, registers_read, terminator_reads
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Address, Instruction, Register


@dataclass(frozen=True, slots=True)
class BlockClaims:
    """Accesses to memory that a launch writes.

    ``sites`` claim what they access. ``commuting`` are atomic operations of which no order shows: they make no claim.
    A cell of memory that one block may have for itself has ``1 << cell_shift`` bytes. ``parameters`` say for the
    pointers to these which memory it is; none do if all accesses may be to the same.
    """

    sites: frozenset[int] = frozenset()
    commuting: frozenset[int] = frozenset()
    cell_shift: int = 2
    parameters: tuple[tuple[str, Window], ...] = ()

    def window(self, site: int) -> Window:
        """Return the memory that an access may touch; what it finds elsewhere would depend on the order of blocks."""
        if site in self.sites:
            return Window.CLAIMED if self.parameters else Window.ARENA
        if site in self.commuting:
            return Window.COMMUTING
        return Window.UNCLAIMED if self.parameters else Window.ARENA


NO_CLAIMS: Final = BlockClaims()

_CLAIMED: Final = frozenset({"ld", "st", "atom", "red"})
_WITHOUT_ACCESS: Final = frozenset({"prefetch", "prefetchu"})
_UNORDERED: Final = frozenset({"call", "tex", "tld4", "txq", "suld", "sust", "suq", "mbarrier"})
"""Opcodes of which the order between blocks may show in what the host keeps for a launch."""

_CHANGING: Final = ("%clock", "%globaltimer", "%pm", "%envreg")
"""Special registers with a value that depends on what was executed before, by the beginning of their name."""

_COMMUTING: Final = frozenset({"add", "min", "max", "and", "or", "xor"})
_INTEGERS: Final = frozenset({"b32", "b64", "u32", "u64", "s32", "s64"})


def find_block_claims(program: Program, *, aliased: bool) -> BlockClaims | None:
    """Return the accesses to claim; None if blocks must be executed in order whatever they access.

    ``aliased``: several parameters may point to the same memory.
    """
    if program.recursive or program.has_async_proxy or program.spans_blocks or needs_vector_clocks(program):
        return None
    if not all(_may_be_unordered(one) for block in program.blocks for one in block.code):
        return None
    used = _used_registers(program)
    claimed, commuting = set[MemoryAccess](), set[MemoryAccess]()
    for group in by_memory(list(memory_accesses(program)), program, aliased=aliased):
        if any(access.is_write for access in group):
            (commuting if _commute(group, used) else claimed).update(group)
    commuting -= claimed
    if any(access.is_copy_source for access in claimed):
        return None
    parameters = () if aliased else _parameters(program, claimed, commuting)
    if parameters is None:
        return None
    smallest = min((type_bytes(access_type(access.instruction)) for access in claimed), default=4)
    return BlockClaims(
        frozenset(access.site for access in claimed),
        frozenset(access.site for access in commuting),
        {1: 0, 2: 1}.get(smallest, 2),
        parameters,
    )


def _parameters(
    program: Program, claimed: Iterable[MemoryAccess], commuting: Iterable[MemoryAccess]
) -> tuple[tuple[str, Window], ...] | None:
    """Return the parameters that point to memory of each kind; None if something else does."""
    pointers = {f"{name}+0": name for name in program.params}
    windows: dict[str, Window] = {}
    known_roots = origins(program)
    for accesses, window in ((commuting, Window.COMMUTING), (claimed, Window.CLAIMED)):
        for access in accesses:
            for root in roots(access.address, known_roots) or {UNKNOWN}:
                if root not in pointers or windows.setdefault(pointers[root], window) is not window:
                    return None
    return tuple(sorted(windows.items()))


def _may_be_unordered(instruction: Instruction) -> bool:
    """Whether it follows from claims that the order of blocks does not show in an instruction."""
    if instruction.opcode in _UNORDERED or (instruction.opcode == "cvta" and "to" not in instruction.modifiers):
        return False
    if any(isinstance(one, Register) and one.name.startswith(_CHANGING) for one in instruction.operands):
        return False
    if not any(isinstance(one, Address) for one in flattened(instruction.operands)):
        return True
    space = memory_space(instruction)
    if space == "generic":
        return instruction.opcode in _WITHOUT_ACCESS
    copies = instruction.opcode == "cp" and "bulk" not in instruction.modifiers
    return space != "global" or copies or instruction.opcode in _CLAIMED | _WITHOUT_ACCESS


def _commute(group: Sequence[MemoryAccess], used: frozenset[str]) -> bool:
    """Whether all accesses are one atomic operation on integers, whose result nothing reads."""
    forms = {_commuting_form(access.instruction, used) for access in group}
    return len(forms) == 1 and None not in forms


def _commuting_form(instruction: Instruction, used: frozenset[str]) -> tuple[str, str] | None:
    """Return the operation of an atomic access, equal for those that commute with it; None if it commutes with none."""
    if instruction.opcode not in ("atom", "red") or instruction.modifiers[-1] not in _INTEGERS:
        return None
    target = instruction.operands[0]
    if instruction.opcode == "atom" and isinstance(target, Register) and target.name in used:
        return None
    operations = _COMMUTING & set(instruction.modifiers)
    type_ = instruction.modifiers[-1]
    # Sums and bit patterns are the same of signed and unsigned numbers.
    kind = type_ if operations & {"min", "max"} else type_[1:]
    return (next(iter(operations)), kind) if operations else None


def _used_registers(program: Program) -> frozenset[str]:
    def names() -> Iterable[str]:
        for block in program.blocks:
            yield from terminator_reads(block)
            for instruction in block.code:
                yield from registers_read(instruction)

    return frozenset(names())
