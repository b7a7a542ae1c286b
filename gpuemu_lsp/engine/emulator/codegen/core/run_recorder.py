"""Code of recording versions: each execution of a basic block by a warp of one thread block becomes a table entry.

The results of its instructions are written to the payload, in the layout of
:mod:`~gpuemu_lsp.engine.emulator.codegen.core.recording_layout`. The entry is added when the code of the block has been
executed: a block is entered again where lanes wait for others at a collective, and is recorded once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer, store_field
from gpuemu_lsp.engine.emulator.abi.fields import Field
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, LaunchRecord, RecordedRun, RecordingRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.recording_layout import BlockLayout, Slot, SlotRole, recording_layout
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, I64, POINTER, Value, i32, i64


class RunRecorder:
    """Writes the code that records; does nothing in other versions."""

    def __init__(self, e: Emitter) -> None:
        self._e = e
        self._layouts: tuple[BlockLayout, ...] = recording_layout(e.unit).blocks if e.unit.recording else ()
        self._slots: dict[int, list[Slot]] = {}
        self._payload: Value = None

    def begin_block(self) -> None:
        """Find the place of the results of the current block."""
        if self._layouts:
            self._slots = defaultdict(list)
            for slot in self._layouts[self._e.block_number].slots:
                self._slots[slot.position].append(slot)
            number, e = self._e.block_number, self._e
            arguments = [e.context, i32(number), e.block_mask(), i32(e.unit.scalar_pc)]
            self._payload = e.builder.call(_begin_function(e.module), arguments)

    def note_sources(self) -> None:
        """Record what the current instruction is about to read."""
        self._note(lambda role: role is not SlotRole.RESULT)

    def note_results(self) -> None:
        """Record the results of the current instruction."""
        self._note(lambda role: role is SlotRole.RESULT)

    def end_block(self) -> None:
        """Add the entry of the current block."""
        if self._layouts:
            number, e = self._e.block_number, self._e
            size, ticks = self._layouts[number].size, len(e.unit.program.blocks[number].code) + 1
            arguments = [e.context, i32(number), e.block_mask(), i32(e.unit.scalar_pc), i64(size), i64(ticks)]
            e.builder.call(_end_function(e.module), arguments)

    def _note(self, wanted: Callable[[SlotRole], bool]) -> None:
        for slot in self._slots.get(self._e.position, ()):
            if wanted(slot.role):
                for index, part in enumerate(self._e.parts_of(slot.register)):
                    t.store(self._e.builder, part, self._payload, slot.offset + index * slot.stride, align=1)


def _begin_function(module: ir.Module) -> Value:
    """Return ``(context, basic block, lanes, scalar-PC) -> payload``: where the results of the next run are written.

    Memory is copied before the run that the record says. Runs that are not recorded get the spare bytes.
    """
    function, b = _function(module, "begin_run", POINTER, [POINTER, I32, I32, I32])
    if b is not None:
        record, recorded = _record(b, function.args[0])
        with b.if_then(b.not_(b.and_(recorded, _has_begun(b, record)))):
            b.ret(load_pointer(b, record, RecordingRecord.SPARE))
        runs = b.add(load_field(b, record, RecordingRecord.COUNT), load_field(b, record, RecordingRecord.LOST))
        with b.if_then(b.icmp_unsigned("==", runs, load_field(b, record, RecordingRecord.PICTURE_AT))):
            callback = load_pointer(b, record, RecordingRecord.PICTURE_CALLBACK)
            t.call_pointer(b, t.VOID, callback, list(function.args))
        with b.if_then(b.not_(_has_space(b, record))):
            b.ret(load_pointer(b, record, RecordingRecord.SPARE))
        payload = load_pointer(b, record, RecordingRecord.PAYLOAD)
        b.ret(t.at(b, payload, load_field(b, record, RecordingRecord.USED)))
    return function


def _end_function(module: ir.Module) -> Value:
    """Return ``(context, basic block, lanes, scalar-PC, bytes of its payload, ticks)``, which adds a run."""
    function, b = _function(module, "end_run", t.VOID, [POINTER, I32, I32, I32, I64, I64])
    if b is not None:
        context, number, lanes, scalar_pc, size, ticks = function.args
        record, recorded = _record(b, context)
        with b.if_then(b.not_(recorded)):
            b.ret_void()
        _note_events(b, record, load_field(b, load_pointer(b, context, Warp.LAUNCH), LaunchRecord.EVENT_COUNT))
        has_begun, has_space = _has_begun(b, record), _has_space(b, record)
        _add(b, record, RecordingRecord.POSITION, b.add(size, i64(RecordedRun.SIZE)))
        with b.if_then(b.not_(has_begun)):
            _add(b, record, RecordingRecord.SKIPPED, i64(1))
            _add(b, record, RecordingRecord.SKIPPED_TICKS, ticks)
            b.ret_void()
        with b.if_then(b.not_(has_space)):
            _add(b, record, RecordingRecord.LOST, i64(1))
            b.ret_void()
        count = load_field(b, record, RecordingRecord.COUNT)
        run = t.at(b, load_pointer(b, record, RecordingRecord.RUNS), b.mul(count, i64(RecordedRun.SIZE)))
        store_field(b, number, run, RecordedRun.BASIC_BLOCK)
        store_field(b, lanes, run, RecordedRun.LANES)
        store_field(b, load_field(b, context, Warp.WARP_ID), run, RecordedRun.WARP)
        store_field(b, scalar_pc, run, RecordedRun.SCALAR_PC)
        store_field(b, load_field(b, record, RecordingRecord.USED), run, RecordedRun.OFFSET)
        _add(b, record, RecordingRecord.COUNT, i64(1))
        _add(b, record, RecordingRecord.USED, size)
        b.ret_void()
    return function


def _note_events(b: ir.IRBuilder, record: Value, events: Value) -> None:
    """Note the position of the current run for the first of the events that there are now and were not before it."""
    before = load_field(b, record, RecordingRecord.EVENTS)
    with b.if_then(b.icmp_unsigned("!=", events, before)):
        positions = load_pointer(b, record, RecordingRecord.EVENT_POSITIONS)
        t.store(b, load_field(b, record, RecordingRecord.POSITION), positions, b.mul(before, i64(8)))
        store_field(b, events, record, RecordingRecord.EVENTS)


def _add(b: ir.IRBuilder, record: Value, field: Field, amount: Value) -> None:
    store_field(b, b.add(load_field(b, record, field), amount), record, field)


def _function(
    module: ir.Module, name: str, result: ir.Type, parameters: Sequence[ir.Type]
) -> tuple[Value, ir.IRBuilder | None]:
    """Return a function of the module, with a builder for its body if it has none yet."""
    existing = module.globals.get(name)
    if existing is not None:
        return existing, None
    function, b = t.new_function(module, name, result, parameters)
    function.linkage = "internal"
    # Called in every basic block: inlined, it would multiply the time to compile.
    function.attributes.add("noinline")
    return function, b


def _record(b: ir.IRBuilder, context: Value) -> tuple[Value, Value]:
    """Return the launch's :class:`RecordingRecord`, and whether the block of a warp is the one that is recorded."""
    record = load_pointer(b, load_pointer(b, context, Warp.LAUNCH), LaunchRecord.RECORDING)
    number = load_field(b, load_pointer(b, context, Warp.BLOCK), BlockRecord.LINEAR)
    return record, b.icmp_unsigned("==", number, load_field(b, record, RecordingRecord.BLOCK))


def _has_begun(b: ir.IRBuilder, record: Value) -> Value:
    position, begin = (load_field(b, record, one) for one in (RecordingRecord.POSITION, RecordingRecord.BEGIN))
    return b.icmp_unsigned(">=", position, begin)


def _has_space(b: ir.IRBuilder, record: Value) -> Value:
    # The payload of the largest block fits behind the limit: that a table is full is known before a run, not in it.
    table = b.mul(load_field(b, record, RecordingRecord.COUNT), i64(RecordedRun.SIZE))
    used = b.add(table, load_field(b, record, RecordingRecord.USED))
    return b.icmp_unsigned("<", used, load_field(b, record, RecordingRecord.LIMIT))
