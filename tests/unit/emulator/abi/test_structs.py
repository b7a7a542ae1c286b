"""Layout of the records that generated code and Python share, and typed access to their fields."""

from __future__ import annotations

import ctypes

import pytest
from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi import field_access
from gpuemu_lsp.engine.emulator.abi.fields import Field, FieldType, Struct
from gpuemu_lsp.engine.emulator.abi.race_records import ShadowLine
from gpuemu_lsp.engine.emulator.abi.records import Record
from gpuemu_lsp.engine.emulator.abi.structs import (
    REGISTER_BYTES,
    BlockRecord,
    CopyEntry,
    CopyQueue,
    EventRecord,
    LaunchRecord,
    SiteCounters,
    TracedAccess,
    Warp,
)
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, I64, POINTER, VOID, Value, i32, i64, new_function

_CTYPES = {
    FieldType.I32: ctypes.c_int32,
    FieldType.U32: ctypes.c_uint32,
    FieldType.I64: ctypes.c_int64,
    FieldType.ADDRESS: ctypes.c_uint64,
    FieldType.BYTE: ctypes.c_uint8,
}

_STRUCTS = (
    Warp, BlockRecord, LaunchRecord, CopyEntry, CopyQueue, EventRecord, SiteCounters, TracedAccess, ShadowLine,
)  # fmt: skip

_CACHE_LINE_MULTIPLES = (Warp, BlockRecord, LaunchRecord, CopyEntry, CopyQueue, EventRecord)


@pytest.mark.parametrize("struct", _STRUCTS, ids=lambda struct: struct.__name__)
def test_offsets_are_those_of_a_c_structure(struct: type[Struct]) -> None:
    members: list[tuple[str, type]] = []
    end = 0
    for name, field in struct.FIELDS.items():
        # ctypes knows natural alignment only: stronger alignment is padding in front of the field.
        if field.align > field.element_size and end % field.align:
            members.append((f"padding{end}", ctypes.c_uint8 * (-end % field.align)))
        members.append((name, _CTYPES[field.type] * field.count))
        end = field + field.size
    c = type("C", (ctypes.Structure,), {"_fields_": members})
    assert {name: getattr(c, name).offset for name in struct.FIELDS} == struct.FIELDS
    assert struct.SIZE >= ctypes.sizeof(c) > struct.SIZE - 64


@pytest.mark.parametrize("struct", _STRUCTS, ids=lambda struct: struct.__name__)
def test_fields_are_aligned_and_do_not_overlap(struct: type[Struct]) -> None:
    end = 0
    for field in struct.FIELDS.values():
        assert field >= end
        assert field % field.element_size == 0
        end = field + field.size
    assert end <= struct.SIZE


def test_sizes() -> None:
    assert all(struct.SIZE % 64 == 0 for struct in _CACHE_LINE_MULTIPLES)
    assert {struct.__name__: struct.SIZE for struct in _STRUCTS} == {
        "Warp": 7616,
        "BlockRecord": 384,
        "LaunchRecord": 3008,
        "CopyEntry": 960,
        "CopyQueue": 128 + 64 * 960,
        "EventRecord": 64,
        "SiteCounters": 32,
        "TracedAccess": 264,
        "ShadowLine": 16,
    }


def test_saved_registers_follow_the_context() -> None:
    assert Warp.SAVED_REGISTERS == Warp.SIZE
    assert Warp.VALUES.size == 4 * REGISTER_BYTES


def test_an_element_of_an_array_keeps_the_type() -> None:
    third = Warp.TID_X.element(3)
    assert (third, third.type, third.count) == (Warp.TID_X + 12, FieldType.I32, 29)


class _Mixed(Struct, align=64):
    SMALL = Field(0, FieldType.I32)
    MASK = Field(0, FieldType.U32)
    WIDE = Field(0, FieldType.I64)
    ROW = Field(0, FieldType.I32, 3)
    LINK = Field(0, FieldType.ADDRESS)
    BYTES = Field(0, FieldType.BYTE, 5)


def test_python_reads_what_it_wrote_with_the_declared_type() -> None:
    table = Record(2 * _Mixed.SIZE)
    record = table.at(_Mixed.SIZE)
    for field, value, read in (
        (_Mixed.SMALL, -1, -1),
        (_Mixed.MASK, -1, 0xFFFFFFFF),
        (_Mixed.WIDE, -(1 << 63), -(1 << 63)),
        (_Mixed.LINK, 1 << 40, 1 << 40),
    ):
        record.set(field, value)
        assert record.get(field) == read
    record.row(_Mixed.ROW)[:] = (7, 8, 9)
    assert record.get(_Mixed.ROW.element(2)) == 9
    assert not table.bytes[: _Mixed.SIZE].any()
    assert table.address % 64 == 0


def _builder() -> tuple[ir.IRBuilder, Value]:
    function, builder = new_function(ir.Module(), "f", VOID, [POINTER])
    return builder, function.args[0]


def test_generated_code_loads_the_declared_type() -> None:
    b, record = _builder()
    assert field_access.load_field(b, record, _Mixed.MASK).type == I32
    assert field_access.load_field(b, record, _Mixed.LINK).type == I64
    assert field_access.load_pointer(b, record, _Mixed.LINK).type == POINTER
    assert field_access.load_lanes(b, record, _Mixed.ROW, 3).type == ir.VectorType(I32, 3)


def test_generated_code_cannot_mistake_a_type() -> None:
    b, record = _builder()
    with pytest.raises(TypeError, match="not an address"):
        field_access.load_pointer(b, record, _Mixed.WIDE)
    with pytest.raises(TypeError, match="BYTE"):
        field_access.load_field(b, record, _Mixed.BYTES)
    with pytest.raises(TypeError, match="4 elements"):
        field_access.load_lanes(b, record, _Mixed.ROW, 4)
    with pytest.raises(TypeError, match="i64"):
        field_access.store_field(b, i64(0), record, _Mixed.SMALL)
    with pytest.raises(TypeError, match="i32"):
        field_access.store_field(b, i32(0), record, _Mixed.WIDE)
    with pytest.raises(TypeError, match="i64"):
        field_access.store_lanes(b, ir.Constant(ir.VectorType(I64, 2), [0, 0]), record, _Mixed.ROW)
