"""Facts of a program that decide how a race is reported, computed when first asked for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from gpuemu_lsp.engine.emulator.analysis.atomic_reads import EqualWrites, PlainRead, plain_reads
from gpuemu_lsp.engine.emulator.analysis.volatile_locks import volatile_locks
from gpuemu_lsp.engine.emulator.ir.accesses import MemoryAccess, has_block_scope, memory_accesses
from gpuemu_lsp.engine.emulator.ir.program import Program


class RaceFacts:
    """Facts of one program. A launch may have hundreds of races, and each analysis reads the whole program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._by_read: dict[int, bool] = {}

    @cached_property
    def _accesses(self) -> list[MemoryAccess]:
        return list(memory_accesses(self._program))

    @cached_property
    def _plain_reads(self) -> Mapping[int, PlainRead]:
        return plain_reads(self._program, self._accesses)

    @cached_property
    def _equal_writes(self) -> EqualWrites:
        return EqualWrites(self._program, self._accesses)

    @cached_property
    def volatile_locks(self) -> frozenset[int]:
        """Sites of the accesses of test-and-set locks on volatile variables."""
        return frozenset(volatile_locks(self._program, self._accesses))

    @cached_property
    def has_block_fences(self) -> bool:
        """Whether any fence has the scope of a block."""
        return any(
            one.opcode in ("membar", "fence") and has_block_scope(one)
            for block in self._program.blocks
            for one in block.code
        )

    def is_pre_check_of_atomics(self, read_site: int) -> bool:
        """Whether a plain read only decides if an atomic operation is needed."""
        return self._plain_reads.get(read_site) is PlainRead.PRE_CHECK

    def is_pre_check_of_equal_writes(self, read_site: int) -> bool:
        """Whether a plain read only decides if writes of one value are needed."""
        if read_site not in self._by_read:
            self._by_read[read_site] = self._equal_writes.are_guarded_by(read_site)
        return self._by_read[read_site]
