"""A program under construction: unfinished basic blocks, declarations, and the insertion point."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gpuemu_lsp.engine.emulator.ir.program import InlinedCall, Terminator
from gpuemu_lsp.engine.ptx.model import Function, Instruction, Module, Symbol, Variable


@dataclass(slots=True)
class OpenBlock:
    """A basic block under construction; ``terminator`` is None as long as it is open."""

    code: list[Instruction] = field(default_factory=list)
    terminator: Terminator | None = None


_MAX_SIZE = 400_000
"""Instructions of a program, with every call inlined: exponential in the depth of calls at worst."""


class ProgramSizeError(Exception):
    """The program is too large to be translated."""


class ProgramBuilder:
    """Basic blocks and declarations of the functions inlined so far.

    ``call_sites`` counts the inlined bodies, each of which has a prefix of its own for its registers; ``calls`` has the
    calls among them. ``recursive_entries`` maps recursive functions to the entry blocks of their bodies, which all
    calls share.
    """

    def __init__(self, module: Module) -> None:
        self.module = module
        self.blocks: list[OpenBlock] = []
        self.registers: dict[str, str] = {}
        self.shared: dict[str, Variable] = {}
        self.local: dict[str, Variable] = {}
        self.call_sites = 0
        self.calls: dict[int, InlinedCall] = {}
        self.recursive_entries: dict[str, int] = {}
        self._recursive: dict[str, bool] = {}
        self._sizes: dict[str, int] = {}

    def require_size(self, function: Function) -> None:
        """Refuse a program that would become too large, before anything is inlined.

        Raises
        ------
        ProgramSizeError
            If ``function`` with all its calls inlined has more than :data:`_MAX_SIZE` instructions.
        """
        size = self._inlined_size(function)
        if size > _MAX_SIZE:
            raise ProgramSizeError(f"with its calls inlined it has {size:,} instructions, more than {_MAX_SIZE:,}")

    def _inlined_size(self, function: Function) -> int:
        if function.name not in self._sizes:
            self._sizes[function.name] = size = len(function.body or ())
            for name in _callees(function):
                callee = self.module.functions.get(name)
                # All calls of a recursive function share one body.
                if callee is not None and not self.is_recursive(name):
                    size += self._inlined_size(callee)
            self._sizes[function.name] = size
        return self._sizes[function.name]

    def new_block(self) -> int:
        """Add an open block, and return its number."""
        self.blocks.append(OpenBlock())
        return len(self.blocks) - 1

    def is_recursive(self, name: str) -> bool:
        """Whether a function can call itself, directly or not."""
        if name not in self._recursive:
            seen: set[str] = set()
            work = [name]
            while work:
                function = self.module.functions.get(work.pop())
                for callee in _callees(function):
                    if callee not in seen:
                        seen.add(callee)
                        work.append(callee)
            self._recursive[name] = name in seen
        return self._recursive[name]


class InsertionPoint:
    """The end of the block that instructions are appended to (LLVM's insertion point).

    A terminated block ignores further instructions and terminators: in PTX, code after ``ret`` or ``bra`` is
    unreachable up to the next label.
    """

    def __init__(self, builder: ProgramBuilder, block: int) -> None:
        self._builder = builder
        self._at = block

    @property
    def block(self) -> OpenBlock:
        """The current block."""
        return self._builder.blocks[self._at]

    def append(self, instruction: Instruction) -> None:
        """Append an instruction to the current block, unless it is terminated."""
        if self.block.terminator is None:
            self.block.code.append(instruction)

    def terminate(self, end: Terminator) -> None:
        """Set the terminator of the current block, unless it has one."""
        if self.block.terminator is None:
            self.block.terminator = end

    def move(self, block: int) -> None:
        """Move the insertion point to another block."""
        self._at = block

    def terminate_with(self, end: Callable[[int], Terminator]) -> None:
        """Terminate the current block with ``end(next)``, and continue in ``next``, a new block."""
        following = self._builder.new_block()
        self.terminate(end(following))
        self.move(following)


def _callees(function: Function | None) -> Iterable[str]:
    for item in (function.body or ()) if function is not None else ():
        if isinstance(item, Instruction) and item.opcode == "call" and isinstance(item.operands[1], Symbol):
            yield item.operands[1].name
