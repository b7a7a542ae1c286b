"""``tex`` and ``tld4``, ``suld`` and ``sust``, ``txq`` and ``suq`` (PTX ISA sections 9.7.10 and 9.7.11).

Operands go to the launch's scratch space, and the device library reads textures and finds the addresses of surface
accesses, which then are ordinary loads and stores. Objects are the address of a record
(:mod:`gpuemu_lsp.engine.texture`); textures by name (``.texref``) are not run.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RACE_SHIFT, SPACE_SHIFT, SPACES, STORE_FLAG
from gpuemu_lsp.engine.emulator.abi.field_access import load_lanes, load_pointer, store_lanes
from gpuemu_lsp.engine.emulator.abi.structs import REGISTER_BYTES, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.abi.texture_forms import Boundary, Geometry, LevelOperand, SurfaceForm, TextureForm
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.race_calls import race_flags
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.devicelib.textures import LEVEL_ROW
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.opcodes import type_bytes, vector_length
from gpuemu_lsp.engine.emulator.ir.operands import elements, register_name
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Address, Instruction, Operand, Register, Vector
from gpuemu_lsp.engine.texture import RECORD

_GEOMETRIES: Final = {
    "1d": Geometry.D1,
    "2d": Geometry.D2,
    "3d": Geometry.D3,
    "a1d": Geometry.A1,
    "a2d": Geometry.A2,
    "cube": Geometry.CUBE,
    "acube": Geometry.ACUBE,
}
_BOUNDARIES: Final = {"trap": Boundary.TRAP, "clamp": Boundary.CLAMP, "zero": Boundary.ZERO}
_CHANNELS: Final = {"r": 0, "g": 1, "b": 2, "a": 3}
_RESULTS: Final = frozenset({"f32", "s32", "u32"})
_QUERIES: Final = {
    "width": "width",
    "height": "height",
    "depth": "depth",
    "array_size": "depth",
    "num_mipmap_levels": "levels",
    "normalized_coords": "normalised",
}


class TextureFault(IntEnum):
    """Operations of the callback; above those of bulk copies. The form is behind them."""

    NO_TEXTURE = 64
    BEYOND = 65
    SURFACE = 66


FORM_SHIFT: Final = 8
"""Position of the form in the callback's operation."""


def texture_form(instruction: Instruction) -> TextureForm | None:
    """Return the form of a ``tex`` or ``tld4``, None if it cannot be run or is another instruction."""
    words = list(instruction.modifiers)
    if instruction.opcode not in ("tex", "tld4"):
        return None
    level, gathers = LevelOperand.NONE, None
    if instruction.opcode == "tld4":
        gathers = _CHANNELS.get(words.pop(0)) if words else None
        if gathers is None:
            return None
    elif words[:1] in (["level"], ["grad"]):
        level = LevelOperand.LEVEL if words.pop(0) == "level" else LevelOperand.DERIVATIVES
    elif words[:1] == ["base"]:
        words.pop(0)
    if len(words) != 4 or words[0] not in _GEOMETRIES or words[1] != "v4" or words[2] not in _RESULTS:
        return None
    if words[3] not in ("f32", "s32"):
        return None
    return TextureForm(_GEOMETRIES[words[0]], words[3] == "s32", level, gathers)


def surface_form(instruction: Instruction) -> SurfaceForm | None:
    """Return the form of a ``suld`` or ``sust``, None if it cannot be run or is another instruction."""
    words = instruction.modifiers
    if instruction.opcode not in ("suld", "sust") or words[:1] != ("b",) or len(words) < 4:
        return None
    if words[1] not in _GEOMETRIES or words[-1] not in _BOUNDARIES or words[-2] not in ("b8", "b16", "b32", "b64"):
        return None
    return SurfaceForm(_GEOMETRIES[words[1]], _BOUNDARIES[words[-1]], type_bytes(words[-2]), vector_length(instruction))


def _operand_object(instruction: Instruction) -> tuple[Operand, tuple[Operand, ...]] | None:
    """Return the object and the coordinates of an instruction, None if they have another form."""
    place = 0 if instruction.opcode == "sust" else 1
    if len(instruction.operands) <= place:
        return None
    operand = instruction.operands[place]
    if isinstance(operand, Address):
        return (operand.base, ()) if isinstance(operand.base, Register) else None
    pair = elements(operand)
    if len(pair) != 2 or not isinstance(pair[0], Register) or not isinstance(pair[1], Vector):
        return None
    return pair[0], pair[1].elements


def _query(instruction: Instruction) -> str | None:
    """Return the field of the record that a query asks for."""
    if instruction.opcode not in ("txq", "suq") or instruction.modifiers[-1:] != ("b32",):
        return None
    return _QUERIES.get(instruction.modifiers[0]) if len(instruction.modifiers) == 2 else None


def supported(instruction: Instruction) -> bool:
    """Return whether this is an instruction of textures or surfaces that can be run."""
    if texture_form(instruction) is None and surface_form(instruction) is None and _query(instruction) is None:
        return False
    return _operand_object(instruction) is not None


def emit_texture(e: Emitter, instruction: Instruction) -> None:
    """Write one of these instructions."""
    texture, surface = texture_form(instruction), surface_form(instruction)
    found = _operand_object(instruction)
    assert found is not None
    if texture is not None:
        _read_texture(e, instruction, texture, *found)
    elif surface is not None:
        _access_surface(e, instruction, surface, *found)
    else:
        _ask(e, instruction, found[0])


def _launch(e: Emitter) -> Value:
    return load_pointer(e.builder, e.context, Warp.LAUNCH)


def _pass_operands(e: Emitter, handle: Operand, rows: dict[int, Operand]) -> None:
    """Write the objects of the lanes, and operands of 32 bits by row, to the scratch space."""
    launch = _launch(e)
    for part in range(e.parts):
        first = part * e.lanes
        store_lanes(
            e.builder, e.vector_operand(handle, "b64", part), launch, LaunchRecord.TEXTURE_HANDLES.element(first)
        )
        for row, operand in rows.items():
            place = LaunchRecord.TEXTURE_OPERANDS.element(row * WARP_SIZE + first)
            store_lanes(e.builder, e.vector_operand(operand, "b32", part), launch, place)


def _report(e: Emitter, lanes: Value, operation: int) -> None:
    """Call the device runtime for the lanes at fault, if there are any."""
    b = e.builder
    fault, after = e.append_block("fault"), e.append_block()
    b.cbranch(b.icmp_unsigned("!=", lanes, i32(0)), fault, after)
    b.position_at_end(fault)
    callback = load_pointer(b, _launch(e), LaunchRecord.CALLBACK)
    t.call_pointer(b, t.VOID, callback, [e.context, i32(e.site), lanes, i32(operation)])
    b.branch(after)
    b.position_at_end(after)


def _read_texture(
    e: Emitter, instruction: Instruction, form: TextureForm, handle: Operand, coordinates: tuple[Operand, ...]
) -> None:
    b = e.builder
    rows = dict(enumerate(coordinates[:LEVEL_ROW]))
    for number, operand in enumerate(instruction.operands[2:4]):
        rows |= {LEVEL_ROW * (number + 1) + row: one for row, one in enumerate(elements(operand)[:LEVEL_ROW])}
    lanes = e.active_mask()
    _pass_operands(e, handle, rows)
    arguments = [e.context, i32(e.site), lanes, i32(form.bits)]
    faults = t.call_address(b, DEVICE_LIBRARY.address("texture"), I64, arguments)
    _report(e, b.trunc(faults, I32), TextureFault.NO_TEXTURE | form.bits << FORM_SHIFT)
    _report(e, b.trunc(b.lshr(faults, i64(32)), I32), TextureFault.BEYOND | form.bits << FORM_SHIFT)
    launch = _launch(e)
    for channel, target in enumerate(elements(instruction.operands[0])):
        name = register_name(target)
        for part in e.result_parts(name):
            place = LaunchRecord.TEXTURE_RESULTS.element(channel * WARP_SIZE + part * e.lanes)
            e.write(name, part, load_lanes(b, launch, place, e.lanes), "b32")


def _access_surface(
    e: Emitter, instruction: Instruction, form: SurfaceForm, handle: Operand, coordinates: tuple[Operand, ...]
) -> None:
    b = e.builder
    store = instruction.opcode == "sust"
    items = elements(instruction.operands[1 if store else 0])
    active = e.active_mask()
    _pass_operands(e, handle, dict(enumerate(coordinates[:LEVEL_ROW])))
    for row, item in enumerate(items):
        for part in range(e.parts):
            place = Warp.VALUES + row * REGISTER_BYTES + part * e.lanes * form.size
            # What lanes outside of the surface read is zero.
            vector = ir.VectorType(ir.IntType(form.size * 8), e.lanes)
            value = e.vector_operand(item, f"b{form.size * 8}", part) if store else ir.Constant(vector, None)
            t.store(b, value, e.context, place, align=1)
    found = t.call_address(b, DEVICE_LIBRARY.address("surface_addresses"), I64, [e.context, active, i32(form.bits)])
    _report(e, b.trunc(b.lshr(found, i64(32)), I32), TextureFault.SURFACE | form.bits << FORM_SHIFT)
    flags = SPACES["global"] << SPACE_SHIFT | (STORE_FLAG if store else 0)
    flags |= race_flags(e, instruction) << RACE_SHIFT
    arguments = [e.context, i32(e.site), b.trunc(found, I32), i32(form.size), i32(form.count), i32(0), i32(flags)]
    t.call_address(b, DEVICE_LIBRARY.address("store" if store else "load"), t.VOID, arguments)
    if store:
        return
    for row, target in enumerate(items):
        name = register_name(target)
        for part in e.result_parts(name):
            place = Warp.VALUES + row * REGISTER_BYTES + part * e.lanes * form.size
            value = t.load(b, e.context, place, ir.VectorType(ir.IntType(form.size * 8), e.lanes), align=1)
            e.write(name, part, value, f"b{form.size * 8}")


def _ask(e: Emitter, instruction: Instruction, handle: Operand) -> None:
    """Write a query: a field of the record, by way of the lanes' addresses in the scratch space."""
    b = e.builder
    field = _query(instruction)
    assert field is not None and RECORD.fields is not None
    offset = int(RECORD.fields[field][1])
    for part in range(e.parts):
        address = b.add(e.vector_operand(handle, "b64", part), t.splat(b, i64(offset), e.lanes))
        store_lanes(b, address, e.context, Warp.ADDRESSES.element(part * e.lanes))
    arguments = [e.context, i32(e.site), e.active_mask(), i32(4), i32(1), i32(0), i32(SPACES["global"] << SPACE_SHIFT)]
    t.call_address(b, DEVICE_LIBRARY.address("load"), t.VOID, arguments)
    name = register_name(instruction.operands[0])
    for part in e.result_parts(name):
        value = t.load(b, e.context, Warp.VALUES + part * e.lanes * 4, ir.VectorType(I32, e.lanes), align=1)
        e.write(name, part, value, "b32")
