"""Leaving the warp function: suspension with saved registers, and the hand-over of a warp to another version.

A warp function cannot block: at a barrier, or when its quantum is used up, it saves the registers that are live there
in the warp's context and returns a ``Status``. The block scheduler runs other warps and calls it again; ``Warp.RESUME``
says where it continues (:mod:`.dispatch`). The versions of a program keep each register at the same
offset, so that a warp may also continue in another version: one that assumes less about shapes and convergence.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, store_field
from gpuemu_lsp.engine.emulator.abi.states import Resume, Status
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.ir.lattice import VectorShape
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, I64, Value, i32

_TURN = 128
"""Backward jumps of one group of divergent lanes in the scalar-PC version before the next group has its turn."""

_TURN_BITS = 7
assert _TURN == 1 << _TURN_BITS


class WarpExits:
    """The exits of a warp function, each a stub: a block shared by all branches to it, and written last."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.unit = e.unit
        self.scalar_pc = e.unit.scalar_pc
        self.budget_slot = e.preamble.alloca(I32)
        self.turns_slot = e.preamble.alloca(I32)
        self.resumable: set[int] = set()
        self._stubs: dict[tuple[str, int], ir.Block] = {}
        self._unwritten: list[tuple[ir.Block, Callable[[], None]]] = []

    # ---- stubs -------------------------------------------------------------------------------------------------------

    def stub(self, kind: str, number: int, body: Callable[[], None]) -> ir.Block:
        """Return the stub ``kind`` for block ``number``; ``body`` writes it, the first time it is requested."""
        block = self._stubs.get((kind, number))
        if block is None:
            block = self._stubs[kind, number] = self.e.append_block(f"{kind}{number}")
            self._unwritten.append((block, body))
        return block

    def write_stubs(self) -> None:
        """Write the stubs requested so far, and those that they request."""
        while self._unwritten:
            block, body = self._unwritten.pop()
            self.e.builder.position_at_end(block)
            # A stub has many predecessors: no mask value of any of them dominates it, only the slots are valid.
            self.e.invalidate_masks()
            body()

    # ---- returning ---------------------------------------------------------------------------------------------------

    def leave(self, status: int) -> None:
        """Return ``status`` to the block scheduler."""
        b = self.e.builder
        if self.unit.graph.back_edges:
            self.count_steps()
        b.ret(i32(status))

    def start_quantum(self, entry: ir.IRBuilder) -> None:
        """Initialise the budgets of backward jumps and of turns, in the entry block."""
        entry.store(self._quantum(), self.budget_slot)
        entry.store(self._turns(entry), self.turns_slot)

    def _turns(self, b: ir.IRBuilder) -> Value:
        """Return the turns after which the scalar-PC version yields to other warps: as many as a quantum has."""
        turns = b.lshr(self.e.launch(LaunchRecord.QUANTUM), i32(_TURN_BITS))
        return b.select(b.icmp_unsigned("==", turns, i32(0)), i32(1), turns)

    def _quantum(self) -> Value:
        """Return the backward jumps until other warps, or other lanes of this one, have their turn."""
        return i32(_TURN) if self.scalar_pc else self.e.launch(LaunchRecord.QUANTUM)

    def count_steps(self) -> None:
        """Add the backward jumps since the last count to the warp's steps, and start a new quantum."""
        e, b = self.e, self.e.builder
        # Counted here and not at every jump, which only decrements a register.
        used = b.sub(self._quantum(), b.load(self.budget_slot, typ=I32))
        steps = load_field(b, e.context, Warp.STEPS)
        store_field(b, b.add(steps, b.zext(used, I64)), e.context, Warp.STEPS)
        b.store(self._quantum(), self.budget_slot)

    def suspend(self, number: int, status: int) -> ir.Block:
        """Return the stub that suspends the warp, converged, until it resumes at block ``number``."""

        def body() -> None:
            e, b = self.e, self.e.builder
            lanes = b.load(e.block_mask_slot, typ=I32)
            # Converged: the lanes that execute are all that live, and program counters need not be saved.
            store_field(b, lanes, e.context, Warp.ACTIVE_MASK)
            store_field(b, lanes, e.context, Warp.LIVE_MASK)
            store_field(b, i32(Resume.FIRST_BLOCK + number), e.context, Warp.RESUME)
            for name in self.unit.liveness.registers(self.unit.liveness.live_in[number]):
                self._save(name)
            self.leave(status)

        self.resumable.add(number)
        return self.stub(f"suspend{status}.", number, body)

    def save_all_and_leave(self, status: int) -> ir.Block:
        """Return the stub that saves all registers and returns; each lane resumes at its program counter."""

        def body() -> None:
            e, b = self.e, self.e.builder
            store_field(b, i32(Resume.SAVED), e.context, Warp.RESUME)
            # All, not those live at one block: divergent lanes are at different blocks.
            for name in e.registers_with_slots():
                self._save(name)
            self.leave(status)

        return self.stub("save", status, body)

    def misspeculated(self) -> ir.Block:
        """Return the stub that hands the warp to the fallback: lanes diverge at a branch speculated to be uniform."""
        return self.stub("misspeculated", 0, lambda: self.hand_over(Resume.SAVED, Status.MISSPECULATED))

    def hand_over(self, resume: int, status: int) -> None:
        """Save all registers in the shapes that the next version expects, and return."""
        e, b = self.e, self.e.builder
        store_field(b, i32(resume), e.context, Warp.RESUME)
        # All of them: the other version may continue at any block, where others are live.
        for name in e.registers_with_slots():
            self._save_as(name, self.unit.handover_shapes[name])
        self.leave(status)

    # ---- saved registers ---------------------------------------------------------------------------------------------

    def _save(self, name: str) -> None:
        e = self.e
        # A register that stays in the context is saved already.
        if name not in self.unit.in_memory:
            for index in range(e.slot_count(name)):
                e.store_saved(name, index, e.load_slot(name, index))

    def _save_as(self, name: str, shape: VectorShape) -> None:
        """Save a register in ``shape``, which is its own or a more general one."""
        e, own = self.e, self.unit.divergence.shapes[name]
        if shape == own:
            self._save(name)
            return
        # All loads before the first store: a register that stays in the context is widened in place.
        values = []
        for part in range(e.parts):
            value = e.base_of_part(e.load_slot(name, part if own.per_part else 0), own, part)
            values.append(e.affine_vector(value, own.step) if shape.varying else value)
        for part, value in enumerate(values):
            e.store_saved(name, part, value)

    def load_saved(self, name: str, shape: VectorShape) -> None:
        """Load a register that was saved in ``shape`` into its slots, which may be more general."""
        e, b = self.e, self.e.builder
        own = self.unit.divergence.shapes[name]
        if name in self.unit.in_memory and own == shape:
            return
        scalar = e.register_type(name)
        type_ = ir.VectorType(scalar, e.lanes) if shape.varying else scalar
        values = []
        for index in range(e.slot_count(name)):
            source = index if shape.varying or shape.per_part else 0
            value = e.load_saved(name, source, type_)
            # The warp comes from a version in which the register is affine: base and step become a vector.
            if own.varying and not shape.varying:
                if shape.step and not shape.per_part and index:
                    offset = (shape.step * index * e.lanes) & ((1 << scalar.width) - 1)
                    value = b.add(value, ir.Constant(scalar, offset))
                value = e.affine_vector(value, shape.step)
            values.append(value)
        for index, value in enumerate(values):
            e.store_slot(name, index, value)
