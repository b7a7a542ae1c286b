"""Instructions, calls and inlined functions of one kernel, from its PTX."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.ptx.model import Instruction, Location, Module, Symbol
from gpuemu_lsp.engine.ptx.traversal import instructions_of, reachable


@dataclass(frozen=True, slots=True)
class KernelPtx:
    """The instructions of a kernel and of every function it may call; ``files`` are the ``.file`` names by index."""

    files: dict[int, str]
    instructions: tuple[Instruction, ...]
    inlined: tuple[tuple[str, Location], ...]
    """Mangled name and call site of each inlined function, once per site."""

    def calls(self) -> Iterator[tuple[str, Instruction]]:
        """Yield (mangled name, instruction) of each direct call."""
        for instruction in self.instructions:
            if instruction.opcode == "call" and isinstance(instruction.operands[1], Symbol):
                yield instruction.operands[1].name, instruction


def collect_kernel_ptx(module: Module, entry: str) -> KernelPtx:
    """Collect the instructions of a kernel and the call sites of functions inlined into them.

    Raises
    ------
    KeyError
        If the module has no such kernel.
    """
    instructions = tuple(item for function in reachable(module, entry) for item in instructions_of(function))
    inlined: dict[tuple[str, int, int, int], Location] = {}
    seen: set[int] = set()
    for instruction in instructions:
        # Instructions share Location objects, so each inlining chain is walked once.
        location = instruction.location
        while location is not None and id(location) not in seen:
            seen.add(id(location))
            site = location.inlined_at
            if site is not None and location.function is not None:
                inlined.setdefault((location.function, site.file, site.line, site.column), site)
            location = site
    return KernelPtx(dict(module.files), instructions, tuple((key[0], site) for key, site in inlined.items()))


def is_named(pattern: str, symbol: str) -> bool:
    """Return whether a pattern names a symbol: mangled, unqualified, or with its innermost namespaces."""
    if pattern == symbol:
        return True
    wanted, found = pattern.split("::"), demangled_name(symbol).split("::")
    return found[-len(wanted) :] == wanted
