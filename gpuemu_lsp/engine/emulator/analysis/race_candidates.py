"""Which accesses of a program can race at all, and how closely memory must be watched for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.address_conflicts import conflicting_accesses
from gpuemu_lsp.engine.emulator.analysis.barrier_intervals import barrier_intervals, is_full_barrier
from gpuemu_lsp.engine.emulator.analysis.provenance import UNKNOWN, origins, roots
from gpuemu_lsp.engine.emulator.analysis.thread_affine import PerThreadValues
from gpuemu_lsp.engine.emulator.analysis.value_flow import ValueFlow
from gpuemu_lsp.engine.emulator.ir.accesses import MemoryAccess, memory_accesses, on_mbarrier
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, type_bytes
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync, Program
from gpuemu_lsp.engine.ptx.model import Instruction

_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
_WHOLE_WORDS = frozenset({"cp", "mbarrier"})


@dataclass(frozen=True, slots=True)
class RaceCandidates:
    """What the race checker looks at in one program.

    ``sites`` are the accesses to watch, by site number (of asynchronous copies the write), ``sources`` the copies whose
    read is to be watched; ``strong`` those of the accesses that never race with each other: atomics, volatile stores
    and flags, operations on ``mbarrier`` objects, and the read that begins a compare-and-swap loop. A cell describes
    ``1 << shift`` bytes. ``irregular`` says that threads are ordered by more than barriers and whole warps.
    ``trusting`` says that accesses were left out because barriers stand between them and all they could race with.
    """

    sites: frozenset[int] = frozenset()
    copy_sources: frozenset[int] = frozenset()
    strong: frozenset[int] = frozenset()
    cell_shift: int = 2
    needs_vector_clocks: bool = False
    assumes_full_barriers: bool = False


NO_RACE_CANDIDATES = RaceCandidates()


def find_race_candidates(
    program: Program, block: tuple[int, int, int] | None, *, aliased: bool, trusting: bool = True
) -> RaceCandidates:
    """Decide what to watch in a block of these dimensions, or of any.

    ``aliased`` says that several parameters may point to the same memory.

    What nobody writes cannot race: an address is traced to the parameters and variables it comes from. Nor can what is
    only ever updated atomically; nor, if all threads of a block always meet at one and the same barrier (``trusting``),
    accesses to shared memory that are never on the same side of one, or by threads that keep to places of their own.
    """
    accesses = list(memory_accesses(program))
    strong = _strong(program, {access.site: access.instruction for access in accesses if not access.is_copy_source})
    irregular = _irregular(program)
    # Where threads are ordered by more than barriers, strong accesses are what orders them.
    always = strong if irregular else frozenset()
    everywhere = list(_by_memory(accesses, program, aliased=aliased))
    in_shared = [access for access in accesses if access.space != "global"]
    candidates = _racing([*everywhere, in_shared], strong, always)
    chosen = candidates
    if trusting and not program.recursive:
        chosen = _racing(everywhere, strong, always)
        threads = PerThreadValues(program, block) if block is not None else None
        for group in _by_interval(in_shared, program):
            racing = _racing([group], strong, always)
            if threads is not None and not racing <= chosen:
                kept = {access.key for access in group if access.site in always}
                racing &= conflicting_accesses(group, threads) | kept
            chosen |= racing
    watched = {one.site: one.instruction for one in accesses if not one.is_copy_source and one.key in chosen}
    sources = frozenset(one.site for one in accesses if one.is_copy_source and one.key in chosen)
    sizes = (type_bytes(access_type(i)) for i in watched.values() if i.opcode not in _WHOLE_WORDS)
    smallest = min(sizes, default=4)
    shift = {1: 0, 2: 1}.get(smallest, 2)
    sites = frozenset(watched)
    return RaceCandidates(sites, sources, strong & sites, shift, bool(watched) and irregular, chosen != candidates)


def _racing(
    groups: Iterable[Sequence[MemoryAccess]], strong: Set[int], always: Set[int]
) -> frozenset[tuple[int, bool]]:
    """Return what can race with something of the same group: with itself, too, in another thread."""
    found: set[tuple[int, bool]] = set()
    for group in groups:
        plain = [access for access in group if access.site not in strong]
        writes = any(access.is_write for access in group)
        plain_writes = any(access.is_write for access in plain)
        for access in group:
            others = writes if access.site not in strong else plain if access.is_write else plain_writes
            if others or access.site in always:
                found.add(access.key)
    return frozenset(found)


def _by_memory(accesses: Sequence[MemoryAccess], program: Program, *, aliased: bool) -> Iterator[list[MemoryAccess]]:
    """Give groups of accesses to global memory that may touch the same buffer or variable."""
    known = {} if aliased or program.recursive else origins(program)
    rooted = [(one, roots(one.address, known) or {UNKNOWN}) for one in accesses if one.space != "shared"]
    if aliased or program.recursive:
        yield [access for access, _ in rooted]
        return
    for root in frozenset[str]().union(*(found for _, found in rooted)):
        yield [access for access, found in rooted if root in found or UNKNOWN in found]


def _by_interval(accesses: Sequence[MemoryAccess], program: Program) -> Iterator[list[MemoryAccess]]:
    """Give groups of accesses to shared memory that may happen between the same two barriers."""
    # What is copied asynchronously arrives with a later instruction of the same kind.
    copying = {number for number, block in enumerate(program.blocks) if any(one.opcode == "cp" for one in block.code)}
    for blocks in barrier_intervals(program):
        delivers = bool(copying & blocks)
        yield [
            access for access in accesses if access.block in blocks or (delivers and access.instruction.opcode == "cp")
        ]


def _instructions(program: Program) -> Iterator[tuple[int, Instruction]]:
    site = 0
    for block in program.blocks:
        for instruction in block.code:
            yield site, instruction
            site += 1
        site += 1


def _strong(program: Program, watched: dict[int, Instruction]) -> frozenset[int]:
    """Return the accesses that never race with each other."""
    flow = ValueFlow([instruction for _, instruction in _instructions(program)])
    atomics = [i for i in watched.values() if i.opcode in ("atom", "red")]
    volatile = [i for i in watched.values() if i.opcode == "ld" and "volatile" in i.modifiers]
    flags = [i for i in volatile if flow.decides(i, program.registers)]
    result = set()
    for site, instruction in watched.items():
        modifiers = set(instruction.modifiers)
        if instruction.opcode in ("atom", "red") or (on_mbarrier(instruction) and not modifiers & {"init", "inval"}):
            result.add(site)
        elif "volatile" in modifiers and instruction.opcode == "ld":
            # Volatile data is no flag: a warp that counts on running in step must still meet, and a fence must stand
            # between the data and the flag. A flag may be read again for what it says.
            if instruction in flags or flow.reads_again(instruction, flags):
                result.add(site)
        elif modifiers & _STRONG or (
            instruction.opcode == "ld" and flow.prepares(instruction, atomics, program.registers)
        ):
            result.add(site)
    return frozenset(result)


def _irregular(program: Program) -> bool:
    """Whether fences, named barriers or parts of a block order threads."""
    if any(
        isinstance(block.terminator, BarrierSync) and not is_full_barrier(block.terminator) for block in program.blocks
    ):
        return True
    return any(
        instruction.opcode in ("membar", "fence", "mbarrier")
        or set(instruction.modifiers) & {"acquire", "release", "acq_rel"}
        for _, instruction in _instructions(program)
    )
