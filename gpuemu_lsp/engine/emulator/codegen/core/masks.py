"""Lane masks: the live lanes, the lanes that execute the current block, and the lanes of the current instruction.

A mask has two forms: 32 bits of an i32 for the whole warp, bit i for lane i, and one vector of i1 per part. The first
is what is stored, compared and passed to the device library; the second is the operand of ``select`` and of masked
loads and stores.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from llvmlite import ir

from gpuemu_lsp.engine.emulator.codegen.core.translation_unit import TranslationUnit
from gpuemu_lsp.engine.emulator.codegen.core.warp_function import WarpFunction
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import AVX512_LANES, I1, I32, Value, i32


class LaneMasks(WarpFunction):
    """The masks of a warp function.

    The *live mask* holds the lanes that have not exited, the *block mask* those of them that execute the current
    block, the *active mask* those of the latter for which the current instruction's guard is true.
    """

    def __init__(self, unit: TranslationUnit, module: ir.Module, name: str) -> None:
        super().__init__(unit, module, name)
        self.block_mask_slot = self.preamble.alloca(I32)
        self.live_mask_slot = self.preamble.alloca(I32)
        self._part_masks: dict[int, Value] = {}
        self._block_mask: Value | None = None
        self._guard: list[Value] | None = None

    def begin_block(self, number: int) -> None:
        """Make PTX basic block ``number`` the current one."""
        super().begin_block(number)
        self.invalidate_masks()

    @property
    def partial(self) -> bool:
        """Whether the current block may execute with less than 32 lanes."""
        return self.block_number in self.unit.divergence.partial

    @property
    def divergent(self) -> bool:
        """Whether live lanes may wait at other blocks while the current block executes."""
        return self.block_number in self.unit.divergence.divergent

    # ---- masks of the warp -------------------------------------------------------------------------------------------

    def invalidate_masks(self) -> None:
        """Forget the cached masks: the slots have changed, or the values do not dominate the code that follows."""
        self._part_masks.clear()
        self._block_mask = None

    def block_mask(self) -> Value:
        """Return the lanes that execute the current block as bits."""
        # A constant where all lanes are certain to be there lets every masking below fold away.
        if not self.partial:
            return i32(-1)
        if self._block_mask is None:
            self._block_mask = self.builder.load(self.block_mask_slot, typ=I32)
        return self._block_mask

    def live_mask(self) -> Value:
        """Return the lanes that have not exited as bits."""
        if not self.divergent:
            # No live lane waits elsewhere: those that execute the block are all.
            return self.block_mask()
        return self.builder.load(self.live_mask_slot, typ=I32)

    def active_mask(self) -> Value:
        """Return the lanes that execute the current instruction as bits."""
        if self._guard is None:
            return self.block_mask()
        return self.builder.and_(self.pack(self._guard), self.block_mask())

    def active(self, part: int) -> Value | None:
        """Return the active mask of one part as a vector of i1; None stands for all lanes."""
        if not self.partial:
            return None if self._guard is None else self._guard[part]
        mask = self._part_masks.get(part)
        if mask is None:
            mask = self._part_masks[part] = self.unpack(self.block_mask(), part)
        return mask if self._guard is None else self.builder.and_(mask, self._guard[part])

    def materialise_masks(self) -> None:
        """Compute the masks of all parts at the current position.

        They are cached for the rest of the block. Computed first inside a conditional block, they would not dominate
        their later uses.
        """
        for part in range(self.parts):
            self.active(part)

    # ---- guards ------------------------------------------------------------------------------------------------------

    @property
    def is_guarded(self) -> bool:
        """Whether the current instruction has a guard that is not uniform."""
        return self._guard is not None

    @contextmanager
    def guarded(self, guard: list[Value]) -> Iterator[None]:
        """Restrict the active mask to ``guard``, one vector of i1 per part, within the context."""
        self._guard = guard
        yield
        self._guard = None

    # ---- conversions -------------------------------------------------------------------------------------------------

    def unpack(self, bits: Value, part: int) -> Value:
        """Return one part of a 32-bit mask as a vector of i1."""
        b = self.builder
        if self.lanes == AVX512_LANES:
            # The reverse of pack is a move to a mask register (AVX-512).
            narrow = b.trunc(b.lshr(bits, i32(part * self.lanes)) if part else bits, ir.IntType(self.lanes))
            return b.bitcast(narrow, ir.VectorType(I1, self.lanes))
        # Without mask registers LLVM would move each bit by itself.
        own = ir.Constant(ir.VectorType(I32, self.lanes), [1 << part * self.lanes + lane for lane in range(self.lanes)])
        return b.icmp_unsigned("==", b.and_(t.splat(b, bits, self.lanes), own), own)

    def pack(self, parts: Sequence[Value]) -> Value:
        """Return vectors of i1, one per part, as 32 bits."""
        b = self.builder
        result = None
        for part, vector in enumerate(parts):
            wide = b.zext(b.bitcast(vector, ir.IntType(self.lanes)), I32)
            if part:
                wide = b.shl(wide, i32(part * self.lanes))
            result = wide if result is None else b.or_(result, wide)
        return result

    def any_lane(self, vectors: Sequence[Value]) -> Value:
        """Return whether any element of any of the vectors of i1 is set."""
        b = self.builder
        result = vectors[0]
        for vector in vectors[1:]:
            result = b.or_(result, vector)
        # A bitcast of i1 elements to an integer is one instruction: a move of a mask register (AVX-512) or movmsk.
        narrow = ir.IntType(self.lanes)
        return b.icmp_unsigned("!=", b.bitcast(result, narrow), ir.Constant(narrow, 0))
