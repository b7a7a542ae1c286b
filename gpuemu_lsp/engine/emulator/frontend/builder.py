"""A program while it is written: open blocks, what its functions declare, and the place where writing goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from gpuemu_lsp.engine.emulator.ir.program import Terminator
from gpuemu_lsp.engine.ptx.model import Function, Instruction, Module, Symbol, Variable


@dataclass(slots=True)
class OpenBlock:
    """A block under construction."""

    code: list[Instruction] = field(default_factory=list)
    terminator: Terminator | None = None


class ProgramBuilder:
    """What has been written of a program so far; ``shared_bodies`` says where recursive functions start."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.blocks: list[OpenBlock] = []
        self.registers: dict[str, str] = {}
        self.shared: dict[str, Variable] = {}
        self.local: dict[str, Variable] = {}
        self.frames = 0
        self.shared_bodies: dict[str, int] = {}
        self._recursive: dict[str, bool] = {}

    def new_block(self) -> int:
        """Return the number of a new, empty block."""
        self.blocks.append(OpenBlock())
        return len(self.blocks) - 1

    def is_recursive(self, name: str) -> bool:
        """Whether a function can come to call itself."""
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
    """The end of a block, where writing goes on. Behind what ends a block nothing is reached, and nothing written."""

    def __init__(self, draft: ProgramBuilder, block: int) -> None:
        self._draft = draft
        self._at = block

    @property
    def block(self) -> OpenBlock:
        """The current block."""
        return self._draft.blocks[self._at]

    def put(self, instruction: Instruction) -> None:
        """Append an instruction to the current block."""
        if self.block.terminator is None:
            self.block.code.append(instruction)

    def close(self, end: Terminator) -> None:
        """End the current block."""
        if self.block.terminator is None:
            self.block.terminator = end

    def move(self, block: int) -> None:
        """Go on in another block."""
        self._at = block

    def close_with(self, end: Callable[[int], Terminator]) -> None:
        """End the current block with ``end(next)`` and go on in ``next``, a new one."""
        following = self._draft.new_block()
        self.close(end(following))
        self.move(following)


def _callees(function: Function | None) -> Iterable[str]:
    for item in (function.body or ()) if function is not None else ():
        if isinstance(item, Instruction) and item.opcode == "call" and isinstance(item.operands[1], Symbol):
            yield item.operands[1].name
