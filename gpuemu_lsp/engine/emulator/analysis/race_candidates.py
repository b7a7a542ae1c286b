"""Race candidates: the accesses that the race detector must instrument, and at which granularity.

Instrumentation costs more than the access itself, so accesses that provably cannot race are left out:

- nothing in the group writes: an access is traced to the parameters and variables its address derives from
  (:mod:`.provenance`), and a buffer that is only read cannot race;
- all of the group are atomic, or otherwise strong, and none has ``.cta`` scope where other blocks may access;
- shared memory: a full barrier lies between the access and every one it conflicts with (:mod:`.barrier_intervals`);
- shared memory: the addresses follow from the thread index, and no two threads share one (:mod:`.address_conflicts`).

The first two hold for every schedule. The third assumes that all threads wait at the same barrier instruction each
time, which the launch checks; it is repeated without the assumption if that fails.

Two accesses conflict if they are by different threads, to overlapping addresses, and at least one writes; they race if
no happens-before path orders them, unless both are morally strong (PTX ISA section 8).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.address_conflicts import conflicting_accesses
from gpuemu_lsp.engine.emulator.analysis.atomic_reads import PlainRead, plain_reads
from gpuemu_lsp.engine.emulator.analysis.barrier_intervals import barrier_intervals, is_full_barrier
from gpuemu_lsp.engine.emulator.analysis.provenance import UNKNOWN, origins, roots
from gpuemu_lsp.engine.emulator.analysis.thread_affine import PerThreadValues
from gpuemu_lsp.engine.emulator.analysis.value_flow import ValueFlow
from gpuemu_lsp.engine.emulator.analysis.volatile_locks import volatile_locks
from gpuemu_lsp.engine.emulator.ir.accesses import MemoryAccess, has_block_scope, memory_accesses, on_mbarrier
from gpuemu_lsp.engine.emulator.ir.opcodes import access_type, type_bytes
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync, Program
from gpuemu_lsp.engine.ptx.model import Instruction

_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
"""Modifiers of strong operations (PTX ISA section 8.4); a volatile operation is like ``.relaxed.sys``."""
_WHOLE_WORDS = frozenset({"cp", "mbarrier"})
"""Opcodes that access multiples of 4 bytes, but do not say so in a type."""


@dataclass(frozen=True, slots=True)
class RaceCandidates:
    """Sites that the race detector instruments in one program.

    ``sites``: accesses to instrument (of an asynchronous copy, its write). ``copy_sources``: asynchronous copies whose
    read is instrumented. ``strong``: those of ``sites`` that never race with each other: atomics, volatile stores and
    flags, operations on ``mbarrier`` objects, and the read with which a compare-and-swap loop begins. A shadow cell
    stands for ``1 << cell_shift`` bytes. ``needs_vector_clocks``: threads synchronise by more than barriers of the
    whole block or warp. ``assumes_full_barriers``: accesses were left out because of the barriers between them.
    """

    sites: frozenset[int] = frozenset()
    copy_sources: frozenset[int] = frozenset()
    strong: frozenset[int] = frozenset()
    cell_shift: int = 2
    needs_vector_clocks: bool = False
    assumes_full_barriers: bool = False


NO_RACE_CANDIDATES = RaceCandidates()


def find_race_candidates(
    program: Program,
    block: tuple[int, int, int] | None,
    *,
    aliased: bool,
    assume_full_barriers: bool = True,
    shared: bool = True,
) -> RaceCandidates:
    """Return the accesses that can race in thread blocks with dimensions ``block``, or with any dimensions if None.

    ``aliased``: several parameters may point to the same memory. ``assume_full_barriers``: all threads of a block wait
    at the same barrier instruction each time. ``shared`` False leaves out accesses to shared memory.
    """
    accesses = [access for access in memory_accesses(program) if shared or access.space != "shared"]
    strong = _strong(program, [access for access in accesses if not access.is_copy_source])
    vector_clocks = needs_vector_clocks(program)
    # Fences order threads through strong accesses (release and acquire patterns, PTX ISA section 8.8): these must be
    # seen even if they cannot race themselves.
    always = strong if vector_clocks else frozenset()
    everywhere = list(by_memory(accesses, program, aliased=aliased))
    # A generic address may point to shared memory, too.
    in_shared = [access for access in accesses if access.space != "global"] if shared else []
    # Strong accesses whose scope is the block race with those of other blocks.
    strong_everywhere = strong - {access.site for access in accesses if _is_narrow(access)}
    candidates = _racing(everywhere, strong_everywhere, always)
    candidates |= _racing([in_shared], strong, always, written=program.has_bulk_copies)
    chosen = candidates
    # A barrier of the block does not order the blocks of a cluster, which may access the same shared memory.
    # Nor does it order what bulk copies write and products read, at times of their own.
    simple = not program.spans_blocks and not program.has_async_proxy
    if assume_full_barriers and not program.recursive and simple:
        chosen = _racing(everywhere, strong_everywhere, always)
        threads = PerThreadValues(program, block) if block is not None else None
        for group in _by_interval(in_shared, program):
            racing = _racing([group], strong, always)
            # Enumerating addresses is worthwhile only if it can remove something.
            if threads is not None and not racing <= chosen:
                kept = {access.key for access in group if access.site in always}
                racing &= conflicting_accesses(group, threads) | kept
            chosen |= racing
    watched = {one.site: one.instruction for one in accesses if not one.is_copy_source and one.key in chosen}
    sources = frozenset(one.site for one in accesses if one.is_copy_source and one.key in chosen)
    # The smallest access decides the cell size: neighbouring bytes of two threads must not share a cell.
    sizes = (type_bytes(access_type(i)) for i in watched.values() if i.opcode not in _WHOLE_WORDS)
    smallest = min(sizes, default=4)
    shift = {1: 0, 2: 1}.get(smallest, 2)
    sites = frozenset(watched)
    return RaceCandidates(sites, sources, strong & sites, shift, bool(watched) and vector_clocks, chosen != candidates)


def _racing(
    groups: Iterable[Sequence[MemoryAccess]], strong: Set[int], always: Set[int], *, written: bool = False
) -> frozenset[tuple[int, bool]]:
    """Return the keys of accesses that conflict with one of the same group, itself in another thread included.

    ``written``: bulk copies write the memory, too.
    """
    found: set[tuple[int, bool]] = set()
    for group in groups:
        plain = [access for access in group if access.site not in strong]
        writes = written or any(access.is_write for access in group)
        plain_writes = written or any(access.is_write for access in plain)
        for access in group:
            # Strong accesses race only with plain ones; a plain read only with writes, strong or not.
            others = writes if access.site not in strong else plain if access.is_write else plain_writes
            if others or access.site in always:
                found.add(access.key)
    return frozenset(found)


def _is_narrow(access: MemoryAccess) -> bool:
    return access.space != "shared" and has_block_scope(access.instruction)


def by_memory(accesses: Sequence[MemoryAccess], program: Program, *, aliased: bool) -> Iterator[list[MemoryAccess]]:
    """Yield groups of accesses to global memory that may be to the same buffer or variable."""
    known = {} if aliased or program.recursive else origins(program)
    rooted = [(one, roots(one.address, known) or {UNKNOWN}) for one in accesses if one.space != "shared"]
    if aliased or program.recursive:
        yield [access for access, _ in rooted]
        return
    for root in frozenset[str]().union(*(found for _, found in rooted)):
        yield [access for access, found in rooted if root in found or UNKNOWN in found]


def _by_interval(accesses: Sequence[MemoryAccess], program: Program) -> Iterator[list[MemoryAccess]]:
    """Yield groups of accesses to shared memory that may happen in the same barrier interval."""
    # An asynchronous copy completes at a later cp instruction, a wait: it belongs to every interval that contains one.
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


def _strong(program: Program, accesses: Sequence[MemoryAccess]) -> frozenset[int]:
    """Return the sites of strong accesses, which never race with each other."""
    watched = {access.site: access.instruction for access in accesses}
    flow = ValueFlow([instruction for _, instruction in _instructions(program)])
    plain = plain_reads(program, accesses)
    # Strong by their modifiers, but two threads may take the lock at once: they race as weak accesses do.
    locks = volatile_locks(program, accesses)
    volatile = [i for i in watched.values() if i.opcode == "ld" and "volatile" in i.modifiers]
    flags = [i for i in volatile if flow.feeds_comparison(i, program.registers)]
    result = set()
    for site, instruction in watched.items():
        if site in locks:
            continue
        modifiers = set(instruction.modifiers)
        if instruction.opcode in ("atom", "red") or (on_mbarrier(instruction) and not modifiers & {"init", "inval"}):
            result.add(site)
        elif "volatile" in modifiers and instruction.opcode == "ld":
            # Volatile data is not a flag: warp-synchronous code needs __syncwarp since Volta, and data needs a fence
            # before its flag. A load is a flag if its value is compared, or if it has the address of such a load.
            if instruction in flags or flow.same_address_as_any(instruction, flags):
                result.add(site)
        elif modifiers & _STRONG or plain.get(site) is PlainRead.COMPARED_AGAIN:
            result.add(site)
    return frozenset(result)


def needs_vector_clocks(program: Program) -> bool:
    """Whether fences, acquire or release operations, mbarriers, or named or partial barriers order threads."""
    if any(
        isinstance(block.terminator, BarrierSync) and not is_full_barrier(block.terminator) for block in program.blocks
    ):
        return True
    if program.has_async_proxy:
        return True
    return any(
        instruction.opcode in ("membar", "fence", "mbarrier")
        or set(instruction.modifiers) & {"acquire", "release", "acq_rel"}
        for _, instruction in _instructions(program)
    )
