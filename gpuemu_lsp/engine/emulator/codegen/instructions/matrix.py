"""Matrix instructions: products of fragments (``mma``), and permutations of elements between lanes."""

from __future__ import annotations

from dataclasses import replace

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_element, store_lanes
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.member_mask import MaskMisuse, report_lanes
from gpuemu_lsp.engine.emulator.codegen.instructions.products.fragments import offsets, product_function
from gpuemu_lsp.engine.emulator.codegen.instructions.products.groups import A_REGISTERS, ROW, GroupForm, group_function
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.opcodes import GROUP_PRODUCT
from gpuemu_lsp.engine.emulator.ir.operands import elements
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, I32, Value, i32, i64
from gpuemu_lsp.engine.emulator.matrix.permutation import PERMUTATIONS, HalfRegister, halves
from gpuemu_lsp.engine.emulator.matrix.product import product_of
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Operand, Register, Vector

_BUFFER_BYTES = 8 * 32 * (8 + 4 + 4 + 4)
"""Size of the registers of the largest product, f64 m16n8k16."""


def supported(instruction: Instruction) -> bool:
    """Return whether this is a product or a permutation, to which the front end lowers matrix instructions."""
    # wmma, wgmma, ldmatrix and stmatrix have become loads, stores, products and permutations.
    if instruction.opcode in PERMUTATIONS or instruction.opcode == GROUP_PRODUCT:
        return True
    return instruction.opcode == "mma" and product_of(instruction) is not None


def link_products(program: Program) -> None:
    """Make the functions that a program's products call known to code that is loaded from now on."""
    for product in {product_of(one) for block in program.blocks for one in block.code if one.opcode == "mma"}:
        if product is not None:
            product_function(product)
    for one in (one for block in program.blocks for one in block.code if one.opcode == GROUP_PRODUCT):
        group_function(_group_form(one))


def emit_matrix(e: Emitter, instruction: Instruction) -> None:
    """Write one of these instructions."""
    _check_all_lanes(e)
    if instruction.opcode == "mma":
        _multiply(e, instruction)
    elif instruction.opcode == GROUP_PRODUCT:
        _multiply_group(e, instruction)
    else:
        _permute(e, instruction)


def _check_all_lanes(e: Emitter) -> None:
    """Report an incomplete warp: the behaviour is then undefined (``.aligned``, PTX ISA section 9.7.14.5)."""
    if not e.partial:
        return
    # Reported and executed: inactive lanes contribute what their registers hold.
    b = e.builder
    absent = b.not_(e.block_mask())
    bad = b.icmp_unsigned("!=", absent, i32(0))
    report_lanes(e, bad, e.block_mask(), MaskMisuse.INCOMPLETE_WARP)


def _multiply(e: Emitter, instruction: Instruction) -> None:
    product = product_of(instruction)
    assert product is not None
    b = e.builder
    # One buffer for all products of the function, in its stack frame. The layout is that of the registers, a row of 32
    # lanes each: fragments need no permutation before the call.
    buffer = e.hoisted("fragments", lambda pre: t.aligned_alloca(pre, ir.ArrayType(I8, _BUFFER_BYTES)))
    bits = "b64" if product.wide else "b32"
    size = 8 if product.wide else 4
    starts = offsets(product)
    targets, *sources = instruction.operands
    for start, operand in zip(starts, sources, strict=False):
        for index, register in enumerate(elements(operand)):
            for part in range(e.parts):
                position = start + (index * WARP_SIZE + part * e.lanes) * size
                t.store(b, e.vector_operand(register, bits, part), buffer, position, align=4)
    # A call: the function is thousands of instructions, and unrolled loops contain many products of one type.
    t.call_address(b, product_function(product), t.VOID, [buffer])
    row = ir.VectorType(ir.IntType(8 * size), e.lanes)
    for index, register in enumerate(elements(targets)):
        name = _name(register)
        for part in e.result_parts(name):
            position = starts[3] + (index * WARP_SIZE + part * e.lanes) * size
            e.write(name, part, t.load(b, buffer, position, row, align=4), bits)


def _group_form(instruction: Instruction) -> GroupForm:
    """Return the form of the product that ``matrix.warpgroup`` has written."""
    _, _, a, of_a, of_b, *words = instruction.modifiers
    d, left, *_ = instruction.operands
    registers = elements(left) if isinstance(left, Vector) else (Register("_"),) * A_REGISTERS
    size = 2 if words[-1] == "f16" else 4
    sums = Vector(elements(d)[:size])
    operands = (sums, Vector(registers), Vector((Register("_"),) * 2), sums)
    tile = product_of(replace(instruction, opcode="mma", modifiers=tuple(words), operands=operands))
    assert tile is not None
    return GroupForm(tile, a == "shared", (of_a == "mn", of_b == "mn"))


def _multiply_group(e: Emitter, instruction: Instruction) -> None:
    b, form = e.builder, _group_form(instruction)
    d, left, right, scale, sign, c = instruction.operands
    sums = elements(d)
    # One buffer for all products of the function, large enough for the largest, in its stack frame.
    buffer = e.hoisted("products", lambda pre: t.aligned_alloca(pre, ir.ArrayType(I8, (A_REGISTERS + 128) * ROW)))

    def put(row: int, part: int, value: Value) -> None:
        t.store(b, value, buffer, row * ROW + 4 * part * e.lanes, align=4)

    zero = t.splat(b, i32(0), e.lanes)
    for part in range(e.parts):
        for index, register in enumerate(elements(left) if not form.shared_a else ()):
            put(index, part, e.vector_operand(register, "b32", part))
        kept = e.vector_operand(scale, "pred", part) if not isinstance(scale, Immediate) else None
        for index, register in enumerate(elements(c)):
            value = e.vector_operand(register, "b32", part)
            put(A_REGISTERS + index, part, value if kept is None else b.select(kept, value, zero))
    # The same in all lanes, and checked to be: that of the first.
    descriptors = [_first(e, one) if not isinstance(one, Vector) else i64(0) for one in (left, right)]
    assert isinstance(sign, Immediate)
    tiles = i32(len(sums) // form.tile.registers[2])
    arguments = [buffer, e.context, i32(e.site), *descriptors, i32(sign.bits), tiles, i32(int(e.unit.checked))]
    t.call_address(b, group_function(form), t.VOID, arguments)
    row = ir.VectorType(I32, e.lanes)
    for index, register in enumerate(sums):
        name = _name(register)
        for part in e.result_parts(name):
            position = (A_REGISTERS + index) * ROW + 4 * part * e.lanes
            e.write(name, part, t.load(b, buffer, position, row, align=4), "b32")


def _first(e: Emitter, operand: Operand) -> Value:
    """Return a descriptor of the lowest active lane."""
    b = e.builder
    if e.shape(operand).uniform:
        return e.scalar_operand(operand, "b64", 0)
    for part in range(e.parts):
        store_lanes(b, e.vector_operand(operand, "b64", part), e.context, Warp.ADDRESSES.element(part * e.lanes))
    lane = t.intrinsic(b, "llvm.cttz.i32", I32, [e.active_mask(), ir.Constant(I1, 0)])
    return load_element(b, e.context, Warp.ADDRESSES, b.and_(lane, i32(31)))


def _permute(e: Emitter, instruction: Instruction) -> None:
    """Select the halves of each result by shuffles, whose pattern depends on the instruction alone."""
    target, source = instruction.operands
    sources = [[e.vector_operand(register, "b32", part) for part in range(e.parts)] for register in elements(source)]
    transposed = "trans" in instruction.modifiers
    results: list[tuple[str, int, Value]] = []
    for index, register in enumerate(elements(target)):
        name = _name(register)
        for part in e.result_parts(name):
            lanes = range(part * e.lanes, (part + 1) * e.lanes)
            picks = [halves(instruction.opcode, transposed, index, lane) for lane in lanes]
            results.append((name, part, _picked(e, picks, sources)))
    # Written last: a target may be a source of the next result.
    for name, part, value in results:
        e.write(name, part, value, "b32")


def _picked(e: Emitter, picks: list[tuple[HalfRegister, HalfRegister]], sources: list[list[Value]]) -> Value:
    b = e.builder
    # Both halves of one word, in order: no shifts.
    if all(a.register == c.register and a.lane == c.lane and c.upper and not a.upper for a, c in picks):
        return _words(e, [low for low, _ in picks], sources)
    low, high = (_words(e, [pick[i] for pick in picks], sources) for i in range(2))
    vector = ir.VectorType(I32, e.lanes)
    low_shift, high_shift = (ir.Constant(vector, [16 * pick[i].upper for pick in picks]) for i in range(2))
    mask = t.splat(b, i32(0xFFFF), e.lanes)
    lower = b.and_(b.lshr(low, low_shift), mask)
    upper = b.shl(b.lshr(high, high_shift), t.splat(b, i32(16), e.lanes))
    return b.or_(lower, upper)


def _words(e: Emitter, picks: list[HalfRegister], sources: list[list[Value]]) -> Value:
    """Return the words that hold these halves; lanes that belong to no matrix get any word."""
    b = e.builder
    places = [(pick.register % len(sources), *divmod(pick.lane, e.lanes)) for pick in picks]
    result = None
    # One shuffle of two vectors for each further source: x86 selects from two registers by one instruction.
    for vector in dict.fromkeys((register, part) for register, part, _ in places):
        value = sources[vector[0]][vector[1]]
        first = value if result is None else result
        order = [
            (lane if result is None else e.lanes + lane) if (register, part) == vector else position
            for position, (register, part, lane) in enumerate(places)
        ]
        result = b.shuffle_vector(first, value, ir.Constant(ir.VectorType(I32, e.lanes), order))
    assert result is not None
    return result


def _name(operand: Operand) -> str:
    return operand.name if isinstance(operand, Register) else "_"
