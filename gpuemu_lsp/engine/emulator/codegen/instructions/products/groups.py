"""The functions that multiply the share of one warp in a ``wgmma.mma_async``: one per type and layout of operands.

What the share is, and where the elements of operands lie, is described in :mod:`~gpuemu_lsp.engine.emulator.matrix`.
Registers are in a buffer, a row of 32 lanes each: four of A, then those of the accumulator, which are replaced. The
loads have all checks of bounds and initialisation, but take no part in the race detector: the asynchronous proxy reads
for the whole group, and the thread that issued the instruction is not a measure of what orders it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import SPACE_SHIFT, SPACES
from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_pointer
from gpuemu_lsp.engine.emulator.abi.memory import READABLE, SHADOW_OFFSET
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.instructions.products.fragments import (
    link_function,
    offsets,
    product_function,
)
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, I32, I64, POINTER, ExternalFunction, Value, i32, i64
from gpuemu_lsp.engine.emulator.matrix.product import MatrixProduct

ROW: Final = 4 * WARP_SIZE
"""Bytes of a register in all lanes."""

A_REGISTERS: Final = 4

_LANES: Final = ir.VectorType(I32, WARP_SIZE)


@dataclass(frozen=True, slots=True)
class GroupForm:
    """A product of a warp group: that of eight columns, and how its operands are stored.

    ``transposed`` says of A and of B whether they are MN-major; without ``shared_a`` A is in registers.
    """

    tile: MatrixProduct
    shared_a: bool
    transposed: tuple[bool, bool]

    @property
    def name(self) -> str:
        """A name that is unique among forms."""
        p = self.tile
        layout = "".join(str(int(one)) for one in (self.shared_a, *self.transposed, p.saturating))
        return f"gpuemu_wgmma_k{p.k}_{p.d}_{p.a}_{p.b}_{layout}"


@cache
def group_function(form: GroupForm) -> ExternalFunction:
    """Return ``(buffer, ctx, site, a, b, sign, tiles, checked)``, which multiplies.

    ``a`` and ``b`` are descriptors; there are ``tiles`` of eight columns. ``sign`` has the bits that are inverted in
    registers of A; without ``checked`` only bounds are tested. Code that calls it can be loaded from now on.
    """
    # Its own callees must be known first.
    product_function(form.tile)
    DEVICE_LIBRARY.link()
    return link_function(form.name, lambda: _module(form))


def _module(form: GroupForm) -> ir.Module:
    module = ir.Module(form.name)
    gathers = {bits: _add_gather(module, bits) for bits in (16, 32)}
    function, b = t.new_function(module, form.name, t.VOID, [POINTER, POINTER, I32, I64, I64, I32, I32, I32])
    _Writer(b, form, gathers, function.args).write()
    b.ret_void()
    return module


def _add_gather(module: ir.Module, bits: int) -> Value:
    """Add ``gather16`` or ``gather32``: ``(ctx, site, offsets, target, checked)``, loads of 32 lanes in shared memory.

    Results are four bytes apart. Bytes that may not be read give 0, and are reported.
    """
    function, b = t.new_function(module, f"gather{bits}", t.VOID, [POINTER, I32, POINTER, POINTER, I32])
    function.linkage = "internal"
    ctx, site, places, target, checked = function.args
    launch, block = load_pointer(b, ctx, Warp.LAUNCH), load_pointer(b, ctx, Warp.BLOCK)
    window, limit = load_field(b, block, BlockRecord.SHARED), load_field(b, launch, LaunchRecord.SHARED_SIZE)
    integer = ir.IntType(bits)
    readable = ir.Constant(integer, int.from_bytes(bytes([READABLE]) * (bits // 8), "little"))
    size = i32(bits // 8)
    found = b.alloca(integer)
    with _loop(b, i64(WARP_SIZE)) as lane:
        offset = b.zext(t.load(b, places, b.shl(lane, i64(2)), I32), I64)
        address = b.add(window, offset)
        fits = b.icmp_unsigned("<", offset, limit)
        # The shadow of what is outside of shared memory may not exist: its own first bytes are tested then.
        shadow = b.add(b.select(fits, address, window), i64(SHADOW_OFFSET))
        state = b.and_(t.load(b, shadow, 0, integer, align=1), readable)
        plain = b.or_(b.icmp_unsigned("==", state, readable), b.icmp_unsigned("==", checked, i32(0)))
        b.store(ir.Constant(integer, 0), found)
        with b.if_else(b.and_(fits, plain), likely=True) as (fast, slow):
            with fast:
                b.store(t.load(b, address, 0, integer, align=1), found)
            with slow:
                flags = i32(SPACES["shared"] << SPACE_SHIFT)
                arguments = [ctx, site, b.trunc(lane, I32), address, size, size, flags]
                allowed = t.call_address(b, DEVICE_LIBRARY.address("check_access"), I1, arguments)
                with b.if_then(allowed):
                    b.store(t.load(b, address, 0, integer, align=1), found)
        t.store(b, b.load(found, typ=integer), target, b.shl(lane, i64(2)), align=1)
    b.ret_void()
    return function


class _Operand:
    """A matrix descriptor, decoded, and the part of the addresses that a lane adds."""

    def __init__(self, b: ir.IRBuilder, descriptor: Value, transposed: bool) -> None:
        self._b, self.transposed = b, transposed
        low, high = b.trunc(descriptor, I32), b.trunc(b.lshr(descriptor, i64(32)), I32)
        start, stride = self._bytes(low), self._bytes(high)
        leading = self._bytes(b.lshr(low, i32(16)))
        # 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes: as a number of address bits 0, 3, 2, 1.
        mode = b.lshr(high, i32(30))
        swizzled = b.icmp_unsigned("!=", mode, i32(0))
        self._bits = b.select(swizzled, b.sub(i32(4), mode), i32(0))
        self._width = b.shl(i32(16), self._bits)
        # Base offset: where the pattern starts elsewhere than at a multiple of its size, in units of 128 bytes.
        self._base = b.shl(b.and_(b.lshr(high, i32(17)), i32(7)), i32(7))
        lane = t.iota(I32, WARP_SIZE)
        row, place = b.lshr(lane, self._splat(i32(2))), b.and_(lane, self._splat(i32(3)))
        if transposed:
            self._across, self._along = b.select(swizzled, leading, stride), b.select(swizzled, stride, leading)
            # Lane 4 r + p has the k of 2 p and 2 p + 1, and the row r of the group.
            begin = b.add(self._splat(start), b.shl(row, self._splat(i32(1))))
            self._start = b.add(begin, b.mul(b.shl(place, self._splat(i32(1))), self._splat(self._width)))
        else:
            self._across, self._along = stride, b.select(swizzled, i32(16), leading)
            begin = b.add(self._splat(start), b.shl(place, self._splat(i32(2))))
            self._start = b.add(begin, b.mul(row, self._splat(self._width)))

    def _splat(self, value: Value) -> Value:
        return t.splat(self._b, value, WARP_SIZE)

    def _bytes(self, field: Value) -> Value:
        # 14 bits in units of 16 bytes.
        return self._b.shl(self._b.and_(field, i32(0x3FFF)), i32(4))

    def places(self, group: Value, half: int) -> list[Value]:
        """Return the offsets of a register's elements in shared memory, for all lanes: of both halves if transposed.

        ``group`` is the number of the eight rows (columns of B), ``half`` that of the half of k.
        """
        b = self._b
        along = b.mul(self._along, i32(half))
        if not self.transposed:
            distance = b.add(b.mul(group, self._across), along)
            return [self._moved(b.add(self._start, self._splat(distance)))]
        # The row of the pattern holds 8 << bits elements, of which a group has eight.
        repeat = b.lshr(group, self._bits)
        inner = b.sub(group, b.shl(repeat, self._bits))
        distance = b.add(b.add(b.mul(repeat, self._across), along), b.mul(inner, i32(16)))
        first = b.add(self._start, self._splat(distance))
        return [self._moved(first), self._moved(b.add(first, self._splat(self._width)))]

    def _moved(self, address: Value) -> Value:
        b = self._b
        pattern = b.lshr(b.sub(address, self._splat(self._base)), self._splat(i32(3)))
        return b.xor(address, b.and_(pattern, self._splat(b.sub(self._width, i32(16)))))


class _Writer:
    """Writes the body of a function."""

    def __init__(self, b: ir.IRBuilder, form: GroupForm, gathers: dict[int, Value], arguments: list[Value]) -> None:
        self._b, self._form, self._gathers = b, form, gathers
        self._buffer, self._ctx, self._site, self._a, self._right, self._sign, self._tiles, self._checked = arguments
        self._places = t.aligned_alloca(b, _LANES)
        self._fragments = t.aligned_alloca(b, ir.ArrayType(I8, (4 + 2 + 4 + 4) * ROW))

    def write(self) -> None:
        """Write the whole function."""
        b, tile = self._b, self._form.tile
        at_a, at_b, at_c, at_d = offsets(tile)
        self._write_left(t.at(b, self._fragments, at_a))
        right = _Operand(b, self._right, self._form.transposed[1])
        size = tile.registers[2] * ROW
        product = product_function(tile)
        with _loop(b, b.zext(self._tiles, I64)) as index:
            for half in range(2):
                self._gather(right, b.trunc(index, I32), half, t.at(b, self._fragments, at_b + half * ROW))
            sums = t.at(b, self._buffer, b.add(i64(A_REGISTERS * ROW), b.mul(index, i64(size))))
            self._copy(sums, t.at(b, self._fragments, at_c), size)
            t.call_address(b, product, t.VOID, [self._fragments])
            self._copy(t.at(b, self._fragments, at_d), sums, size)

    def _write_left(self, target: Value) -> None:
        """Write the four registers of A, from shared memory or from the buffer."""
        b = self._b
        if self._form.shared_a:
            left = _Operand(b, self._a, self._form.transposed[0])
            # The group's first warp has rows 0 to 15, that is the groups of eight rows 0 and 1, and so on.
            warp = b.and_(load_field(b, self._ctx, Warp.WARP_ID), i32(3))
            for register in range(A_REGISTERS):
                group = b.add(b.shl(warp, i32(1)), i32(register % 2))
                self._gather(left, group, register // 2, t.at(b, target, register * ROW))
        else:
            self._copy(self._buffer, target, A_REGISTERS * ROW)
        for register in range(A_REGISTERS):
            value = t.load(b, target, register * ROW, _LANES, align=4)
            t.store(b, b.xor(value, t.splat(b, self._sign, WARP_SIZE)), target, register * ROW, align=4)

    def _gather(self, operand: _Operand, group: Value, half: int, target: Value) -> None:
        b = self._b
        for index, places in enumerate(operand.places(group, half)):
            b.store(places, self._places)
            arguments = [self._ctx, self._site, self._places, t.at(b, target, 2 * index), self._checked]
            b.call(self._gathers[16 if operand.transposed else 32], arguments)

    def _copy(self, source: Value, target: Value, size: int) -> None:
        arguments = [target, source, i64(size), ir.Constant(I1, 0)]
        t.intrinsic(self._b, "llvm.memcpy.p0.p0.i64", t.VOID, arguments)


@contextmanager
def _loop(b: ir.IRBuilder, count: Value) -> Iterator[Value]:
    """Emit a loop over 0, 1, ... below ``count``, which is at least 1."""
    before = b.block
    body, end = b.append_basic_block("loop"), b.append_basic_block("end")
    b.branch(body)
    b.position_at_end(body)
    index = b.phi(I64)
    index.add_incoming(i64(0), before)
    yield index
    following = b.add(index, i64(1))
    index.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, count), body, end)
    b.position_at_end(end)
