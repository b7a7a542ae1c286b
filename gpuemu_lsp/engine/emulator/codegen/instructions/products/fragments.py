"""The functions that multiply the fragments of a warp: one per type and shape of ``mma``.

They are part of no kernel: each is compiled once per machine, optimised, and called by kernels of both tiers.

PTX does not specify the order and intermediate rounding of the sum of an element (section 9.7.14.5.14). Here products
are exact, they and the accumulator are added in f64, and the sum is rounded once to the accumulator's type (to nearest
even); f64 products are a chain of fused multiply-adds in the order of k; integers are exact. No GPU deviates from the
exact sum by more than truncation of every addend to the accumulator's precision explains, and neither do these results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import product as pairs

from llvmlite import ir

from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.jit import disk_cache
from gpuemu_lsp.engine.emulator.jit.compile import (
    LoadedCode,
    compile_object,
    define,
    load_object,
    target_description,
    vector_lanes,
)
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I8, I16, I32, I64, POINTER, ExternalFunction, Value, i64
from gpuemu_lsp.engine.emulator.matrix.product import ELEMENT_BITS, MatrixProduct
from gpuemu_lsp.engine.emulator.ops import convert, ieee
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder
from gpuemu_lsp.engine.emulator.ops.types import DOUBLE, FLOAT, HALF
from gpuemu_lsp.engine.ptx.model import Instruction, Register

_CHUNK = 16
"""Elements converted at a time."""
_COLUMNS = 8
"""Columns of B and of the result: n is 8 in every shape that the front end leaves."""


def offsets(product: MatrixProduct) -> tuple[int, int, int, int]:
    """Return the byte offsets of A, B, C and D in the buffer of registers."""
    a, b, c, _ = product.registers
    row = WARP_SIZE * (8 if product.wide else 4)
    return 0, a * row, (a + b) * row, (a + b + c) * row


@cache
def product_function(product: MatrixProduct) -> ExternalFunction:
    """Return ``(buffer)``, which multiplies the registers in a buffer, each a row of 32 lanes.

    Code that calls it can be loaded from now on.
    """
    p = product
    name = f"gpuemu_mma_m{p.m}n{p.n}k{p.k}_{p.d}_{p.a}_{p.b}_{p.c}_{p.bitwise}_{'sat' if p.saturating else ''}"
    return link_function(name, lambda: _product_module(product, name))


def link_function(name: str, write: Callable[[], ir.Module]) -> ExternalFunction:
    """Return a function that ``write`` writes as a module of its own, compiled once per machine."""
    # The key covers the sources of the translator, and the function is written by them.
    key = disk_cache.key_of((name, target_description()))
    disk = disk_cache.shared_cache()
    code = disk.load(key)
    if code is None:
        code = compile_object(write())
        disk.store(key, code)
    loaded = load_object(code, (name,))
    _loaded.append(loaded)
    function = ExternalFunction(loaded.addresses[name])
    function.name = name
    define(name, function)
    return function


_loaded: list[LoadedCode] = []
"""Owners of the functions' machine code, which lives as long as the process."""


def _product_module(product: MatrixProduct, name: str) -> ir.Module:
    module = ir.Module(name)
    function, b = t.new_function(module, name, t.VOID, [POINTER])
    _Writer(b, product, function.args[0]).write()
    b.ret_void()
    return module


class _Writer:
    """Writes the body of a product function."""

    def __init__(self, b: ir.IRBuilder, product: MatrixProduct, buffer: Value) -> None:
        self.b, self.p, self.buffer = b, product, buffer
        integer = product.a in ("s8", "u8", "s4", "u4", "b1")
        self.element = I32 if integer else DOUBLE
        self.step = self.element.width // 8 if integer else 8
        self.tile = 4 * product.per_register if product.a != "b1" else 4
        """Elements of k that one register covers in all lanes; single bits count as words of 32."""
        self.depth = product.k if product.a != "b1" else product.k // 32
        self.row = ir.VectorType(self.element, _COLUMNS)
        self.lines = min(8, 32 * vector_lanes() // (_COLUMNS * self.step))
        """Rows that are summed at a time, in at most eight vectors of the host: AVX2 has 16 registers."""

    def write(self) -> None:
        """Write the whole function."""
        b, p = self.b, self.p
        at_a, at_b, at_c, at_d = offsets(p)
        # Converted once, before the loops: an element of A takes part in 8 products, one of B in m.
        left, across = self._array(p.m * self.depth), self._array(_COLUMNS * self.depth)
        sums = [b.alloca(self.row) for _ in range(self.lines)]
        self._decode(p.a, t.at(b, self.buffer, at_a), left, p.m * self.depth)
        if ELEMENT_BITS[p.b] < 8:
            right = self._array(_COLUMNS * self.depth)
            self._decode(p.b, t.at(b, self.buffer, at_b), right, _COLUMNS * self.depth)
            self._transpose(right, across)
        else:
            self._decode(p.b, self._transposed(t.at(b, self.buffer, at_b)), across, _COLUMNS * self.depth)
        tiles = p.m // 8
        # A tile is 8 rows of A.
        for tile, first in pairs(range(tiles), range(0, 8, self.lines)):
            addends = [self._addend(at_c, tile, first + line) for line in range(self.lines)]
            for addend, total in zip(addends, sums, strict=True):
                b.store(addend if self.element is DOUBLE else ir.Constant(self.row, None), total)
            with self._loop(self.depth // self.tile) as step:
                base = b.add(b.mul(step, i64(tiles)), i64(tile))
                base = b.mul(b.add(b.mul(base, i64(8)), i64(first)), i64(self.tile))
                self._multiply(left, across, base, step, sums)
            for line, addend in enumerate(addends):
                self._result(at_d, tile, first + line, b.load(sums[line], typ=self.row), addend)

    # ---- steps -------------------------------------------------------------------------------------------------------

    def _array(self, count: int) -> Value:
        return t.aligned_alloca(self.b, ir.ArrayType(self.element, count))

    @contextmanager
    def _loop(self, count: int, step: int = 1) -> Iterator[Value]:
        """Emit a loop over 0, ``step``, ... below ``count``; loops keep the function short enough to compile."""
        b = self.b
        before = b.block
        body, end = b.append_basic_block("loop"), b.append_basic_block("end")
        b.branch(body)
        b.position_at_end(body)
        index = b.phi(I64)
        index.add_incoming(i64(0), before)
        yield index
        following = b.add(index, i64(step))
        index.add_incoming(following, b.block)
        b.cbranch(b.icmp_unsigned("<", following, i64(count)), body, end)
        b.position_at_end(end)

    def _element(self, array: Value, index: Value) -> Value:
        return self.b.gep(array, [index], source_etype=self.element)

    def _decode(self, type_: str, registers: Value, array: Value, count: int) -> None:
        """Convert the registers of A or B to f64 or i32, in the order in which they are stored."""
        b = self.b
        with self._loop(count, min(_CHUNK, count)) as index:
            chunk = min(_CHUNK, count)
            position = b.lshr(b.mul(index, i64(32 if type_ == "b1" else ELEMENT_BITS[type_])), i64(3))
            source = t.at(b, registers, position)
            # In the order of the registers: _multiply walks A in that order, and B has been transposed.
            b.store(self._numbers(type_, source, chunk), self._element(array, index), align=8)

    def _numbers(self, type_: str, source: Value, count: int) -> Value:
        b = self.b
        lanes = LaneBuilder(b, count, ops.host())
        if type_ == "f64":
            return b.load(source, typ=ir.VectorType(DOUBLE, count), align=8)
        if type_ == "b1":
            return b.load(source, typ=ir.VectorType(I32, count), align=4)
        if type_ in ("s8", "u8"):
            return lanes.resize(b.load(source, typ=ir.VectorType(I8, count), align=1), I32, type_ == "s8")
        if type_ in ("s4", "u4"):
            # All nibbles of a chunk in one integer, shifted to each element, then extended from the top.
            nibbles = t.splat(b, b.load(source, typ=ir.IntType(4 * count), align=1), count)
            shifted = b.lshr(nibbles, t.iota(ir.IntType(4 * count), count, 4))
            nibble = b.shl(lanes.resize(shifted, I32), lanes.integer(I32, 28))
            return (b.ashr if type_ == "s4" else b.lshr)(nibble, lanes.integer(I32, 28))
        if type_ == "tf32":
            # tf32 has 10 bits of mantissa; hardware ignores the lower 13 bits of the register.
            pattern = b.and_(b.load(source, typ=ir.VectorType(I32, count), align=4), lanes.integer(I32, 0xFFFFE000))
            return lanes.fpext(lanes.bits(pattern, FLOAT), DOUBLE)
        if type_ in ("e4m3", "e5m2"):
            # Every fp8 value is an f16 value: cvt decodes pairs.
            pairs = b.load(source, typ=ir.VectorType(I16, count // 2), align=1)
            decode = Instruction("cvt", ("rn", "f16x2", f"{type_}x2"), (Register("_"), Register("_")))
            halves = b.bitcast(ops.emit(b, decode, [pairs])[0], ir.VectorType(HALF, count))
        else:
            halves = b.load(source, typ=ir.VectorType(HALF if type_ == "f16" else I16, count), align=1)
        return lanes.fpext(ieee.widen(lanes, halves, "bf16" if type_ == "bf16" else "f16"), DOUBLE)

    def _transposed(self, registers: Value) -> Value:
        """Return the elements of B, stored column after column in each tile, in rows of eight.

        Before their conversion, while one or two vectors hold a tile: gathers of f64 took longer than all products.
        """
        b, count = self.b, _COLUMNS * self.tile
        element = ir.IntType(ELEMENT_BITS[self.p.b])
        rows = t.aligned_alloca(b, ir.ArrayType(element, _COLUMNS * self.depth))
        order = [column * self.tile + k for k in range(self.tile) for column in range(_COLUMNS)]
        with self._loop(self.depth // self.tile) as step:
            start = b.mul(step, i64(count))
            tile = b.load(b.gep(registers, [start], source_etype=element), typ=ir.VectorType(element, count), align=4)
            moved = b.shuffle_vector(tile, tile, ir.Constant(ir.VectorType(I32, count), order))
            b.store(moved, b.gep(rows, [start], source_etype=element), align=4)
        return rows

    def _transpose(self, right: Value, across: Value) -> None:
        """Transpose B, stored column after column in each tile, into rows of eight for vector multiplication."""
        b = self.b
        index = t.iota(I64, _COLUMNS, self.tile)
        name = f"llvm.masked.gather.{t.mangled(self.row)}.v{_COLUMNS}p0"
        all_columns = t.splat(b, ir.Constant(t.I1, 1), _COLUMNS)
        with self._loop(self.depth // self.tile) as step, self._loop(self.tile) as inner:
            start = b.add(b.mul(step, i64(_COLUMNS * self.tile)), inner)
            pointers = t.pointers(b, self._element(right, start), index, self.element)
            row = t.intrinsic(b, name, self.row, [pointers, t.i32(8), all_columns, ir.Constant(self.row, None)])
            k = b.add(b.mul(step, i64(self.tile)), inner)
            b.store(row, self._element(across, b.mul(k, i64(_COLUMNS))), align=8)

    def _multiply(self, left: Value, across: Value, base: Value, step: Value, sums: Sequence[Value]) -> None:
        """Add the products of some rows of one tile of A and the corresponding rows of B."""
        b = self.b
        # An outer product per k: one element of A against a row of B. Every element of the result accumulates in the
        # order of k, on which f64 results depend.
        with self._loop(self.tile) as inner:
            k = b.add(b.mul(step, i64(self.tile)), inner)
            row = b.load(self._element(across, b.mul(k, i64(_COLUMNS))), typ=self.row, align=8)
            for line, total in enumerate(sums):
                position = b.add(b.add(base, inner), i64(line * self.tile))
                value = t.splat(b, b.load(self._element(left, position), typ=self.element), _COLUMNS)
                b.store(self._fused(value, row, b.load(total, typ=self.row)), total)

    def _fused(self, value: Value, row: Value, total: Value) -> Value:
        b = self.b
        if self.element is DOUBLE:
            return t.unary_intrinsic(b, "fma", value, row, total)
        # Integers may wrap here: sums of s8 and u8 products fit, and .satfinite applies to the final sum only.
        if self.p.bitwise is None:
            return b.add(total, b.mul(value, row))
        both = (b.xor if self.p.bitwise == "xor" else b.and_)(value, row)
        return b.add(total, t.unary_intrinsic(b, "ctpop", both))

    # ---- accumulators ------------------------------------------------------------------------------------------------

    def _line_offset(self, offset: int, tile: int, line: int, second: int, type_: str) -> int:
        """Return the offset of the four lanes that hold one line of an accumulator's tile in a register's row."""
        size = 8 if self.p.wide else 4
        register = tile if type_ == "f16" else 2 * tile + second
        return offset + (register * WARP_SIZE + 4 * line) * size

    def _addend(self, offset: int, tile: int, line: int) -> Value:
        """Return a line of C: eight elements."""
        b, type_ = self.b, self.p.c
        lanes = LaneBuilder(b, _COLUMNS, ops.host())
        if type_ == "f16":
            # Two columns in one register: a line is contiguous.
            position = self._line_offset(offset, tile, line, 0, type_)
            return lanes.fpext(lanes.fpext(t.load(b, self.buffer, position, lanes.type(HALF), 4), FLOAT), DOUBLE)
        four = ir.VectorType({"f32": FLOAT, "f64": DOUBLE, "s32": I32}[type_], 4)
        pair = [t.load(b, self.buffer, self._line_offset(offset, tile, line, i, type_), four, 4) for i in range(2)]
        # Of the four lanes of a line, lane t holds columns 2 t and 2 t + 1, in two registers (figures of 9.7.14.5).
        order = [0, 4, 1, 5, 2, 6, 3, 7]
        line_values = b.shuffle_vector(*pair, ir.Constant(ir.VectorType(I32, _COLUMNS), order))
        return line_values if type_ == "s32" else lanes.fpext(line_values, DOUBLE)

    def _result(self, offset: int, tile: int, line: int, total: Value, addend: Value) -> None:
        """Round a line of D and store it."""
        b, type_ = self.b, self.p.d
        lanes = LaneBuilder(b, _COLUMNS, ops.host())
        # Rounded here, once; saturation (.satfinite) clamps to the range of s32 instead of wrapping.
        if type_ == "s32":
            line_values = t.unary_intrinsic(b, "sadd.sat", total, addend) if self.p.saturating else b.add(total, addend)
        else:
            line_values = convert.rounded_to(lanes, total, type_, "rn")
        if type_ == "f16":
            t.store(b, line_values, self.buffer, self._line_offset(offset, tile, line, 0, type_), align=4)
            return
        for second in range(2):
            order = ir.Constant(ir.VectorType(I32, 4), [second, second + 2, second + 4, second + 6])
            half = b.shuffle_vector(line_values, line_values, order)
            t.store(b, half, self.buffer, self._line_offset(offset, tile, line, second, type_), align=4)
