"""Which accesses of a program can race at all, and how closely memory must be watched for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.flow import Flow
from gpuemu_lsp.engine.emulator.opcodes import access_type, memory_space, type_bytes
from gpuemu_lsp.engine.emulator.operands import flat, read, split, written
from gpuemu_lsp.engine.emulator.program import Barrier, Program
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Instruction, Operand, Register, Symbol

_STRONG = frozenset({"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"})
_WHOLE_WORDS = frozenset({"cp", "mbarrier"})
UNKNOWN = "?"
"""The root of an address that was itself loaded from memory."""


@dataclass(frozen=True, slots=True)
class Tracking:
    """What the race checker looks at in one program.

    ``sites`` are the accesses to watch, by site number (of asynchronous copies the write), ``sources`` the copies whose
    read is to be watched; ``strong`` those of the accesses that never race with each other: atomics, volatile stores
    and flags, operations on ``mbarrier`` objects, and the read that begins a compare-and-swap loop. A cell describes
    ``1 << shift`` bytes. ``irregular`` says that threads are ordered by more than barriers and whole warps.
    """

    sites: frozenset[int] = frozenset()
    sources: frozenset[int] = frozenset()
    strong: frozenset[int] = frozenset()
    shift: int = 2
    irregular: bool = False


NOTHING = Tracking()


def track(program: Program, *, aliased: bool) -> Tracking:
    """Decide what to watch. ``aliased`` says that several parameters may point to the same memory.

    Reads of what the kernel never writes cannot race: an address is traced to the parameters and variables it comes
    from, and a global access is watched only where something stores through one of these.
    """
    accesses = [(site, i, access) for site, i in _instructions(program) for access in _accesses(i)]
    known = {} if aliased or program.recursive else origins(program)
    targets: set[str] = set()
    for _, _, access in accesses:
        if access.stores:
            targets |= roots(access.address, known) or {UNKNOWN}
    everything = aliased or program.recursive or UNKNOWN in targets

    def matters(access: _Access) -> bool:
        found = roots(access.address, known)
        return access.space == "shared" or everything or not found or UNKNOWN in found or bool(found & targets)

    chosen = [(site, i, access) for site, i, access in accesses if matters(access)]
    watched = {site: i for site, i, access in chosen if access.stores or i.opcode != "cp"}
    sources = frozenset(site for site, i, access in chosen if i.opcode == "cp" and not access.stores)
    strong = _strong(program, watched)
    sizes = (type_bytes(access_type(i)) for i in watched.values() if i.opcode not in _WHOLE_WORDS)
    smallest = min(sizes, default=4)
    shift = {1: 0, 2: 1}.get(smallest, 2)
    return Tracking(frozenset(watched), sources, strong, shift, bool(watched) and _irregular(program))


def _instructions(program: Program) -> Iterator[tuple[int, Instruction]]:
    site = 0
    for block in program.blocks:
        for instruction in block.code:
            yield site, instruction
            site += 1
        site += 1


@dataclass(frozen=True, slots=True)
class _Access:
    """A place an instruction touches that threads share and somebody may write."""

    space: str
    address: Address
    stores: bool


def _accesses(instruction: Instruction) -> list[_Access]:
    addresses = [operand for operand in instruction.operands if isinstance(operand, Address)]
    if instruction.opcode == "cp" and len(addresses) >= 2:
        return [_Access("shared", addresses[0], True), _Access("global", addresses[1], False)]
    if _on_mbarrier(instruction):
        return [_Access("shared", address, True) for address in addresses[:1]]
    space = memory_space(instruction)
    if instruction.opcode not in ("ld", "st", "atom", "red", "ldu") or space not in ("global", "shared", "generic"):
        return []
    return [_Access(space, address, instruction.opcode not in ("ld", "ldu")) for address in addresses]


def _on_mbarrier(instruction: Instruction) -> bool:
    return "mbarrier" in (instruction.opcode, *instruction.modifiers[:2])


def _address(instruction: Instruction) -> Address | None:
    return next((operand for operand in instruction.operands if isinstance(operand, Address)), None)


def _strong(program: Program, watched: dict[int, Instruction]) -> frozenset[int]:
    """Return the accesses that never race with each other."""
    flow = Flow([instruction for _, instruction in _instructions(program)])
    atomics = [i for i in watched.values() if i.opcode in ("atom", "red")]
    volatile = [i for i in watched.values() if i.opcode == "ld" and "volatile" in i.modifiers]
    flags = [i for i in volatile if flow.decides(i, program.registers)]
    result = set()
    for site, instruction in watched.items():
        modifiers = set(instruction.modifiers)
        if instruction.opcode in ("atom", "red") or (_on_mbarrier(instruction) and not modifiers & {"init", "inval"}):
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
    for block in program.blocks:
        end = block.end
        if isinstance(end, Barrier):
            operands = end.instruction.operands
            plain = "red" in end.instruction.modifiers or len(operands) < 2
            name = operands[0] if operands else Immediate(0, "int")
            if not plain or not isinstance(name, Immediate) or name.bits or "arrive" in end.instruction.modifiers:
                return True
    return any(
        instruction.opcode in ("membar", "fence", "mbarrier")
        or set(instruction.modifiers) & {"acquire", "release", "acq_rel"}
        for _, instruction in _instructions(program)
    )


def roots(address: Address | None, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the parameters and variables an address may lie in, by the :func:`origins` of its base."""
    if address is None:
        return frozenset({UNKNOWN})
    found = _roots_of(address.base, known)
    named = found - {UNKNOWN}
    # A pointer parameter plus an index that was loaded: the pointer says where.
    return named or found


def _roots_of(operand: Operand, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
    if isinstance(operand, Register):
        return known.get(operand.name, frozenset())
    return frozenset({operand.name}) if isinstance(operand, Symbol) else frozenset()


def origins(program: Program) -> dict[str, frozenset[str]]:
    """Return, for each register, the parameters and variables its value may be an address into."""
    flows: list[tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]] = []
    for _, instruction in _instructions(program):
        targets = written(instruction)
        if not targets:
            continue
        if instruction.opcode in ("ld", "ldu", "atom"):
            flows.append((targets, (), _loaded(instruction, program)))
            continue
        _, sources = split(instruction)
        symbols = frozenset(operand.name for operand in flat(sources) if isinstance(operand, Symbol))
        flows.append((targets, read(instruction), symbols))
    found: dict[str, frozenset[str]] = {}
    changed = True
    while changed:
        changed = False
        for targets, sources_read, own in flows:
            more = own.union(*(found.get(name, frozenset()) for name in sources_read))
            for target in targets:
                before = found.get(target, frozenset())
                if not more <= before:
                    found[target] = before | more
                    changed = True
    return found


def _loaded(instruction: Instruction, program: Program) -> frozenset[str]:
    """Return where a loaded value may point to: only 64 bits can hold an address."""
    if type_bytes(access_type(instruction)) < 8:
        return frozenset()
    address = _address(instruction)
    if memory_space(instruction) == "param" and address is not None and isinstance(address.base, Symbol):
        name = address.base.name
        # A structure passed by value may hold several pointers.
        return frozenset({f"{name}+{address.base.offset + address.offset}"}) if name in program.params else frozenset()
    return frozenset({UNKNOWN})
