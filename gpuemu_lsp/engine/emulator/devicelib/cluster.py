"""Addresses in the shared memory of a cluster (PTX ISA section 5.1.6), as a function of the device library.

An address of ``.shared::cluster`` has 32 bits. Below :data:`OFFSET_BITS` it is an offset in a block's shared memory;
above, 0 for the own block, so that an address of ``.shared::cta`` is one of ``.shared::cluster``, or 1 and the rank of
the block.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_element, load_field, load_pointer
from gpuemu_lsp.engine.emulator.abi.structs import (
    CLUSTER_WINDOWS,
    MAX_CLUSTER_BLOCKS,
    REGISTER_BYTES,
    BlockRecord,
    LaunchRecord,
    Warp,
)
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, I64, POINTER, Value, i32, i64

NAMES: Final = ("cluster_address",)

OFFSET_BITS: Final = 24
"""Bits of an offset in shared memory, in an address of ``.shared::cluster``."""


class ClusterOperation(IntEnum):
    """What ``cluster_address`` computes of an address, which is generic or of ``.shared::cluster``."""

    GENERIC = 0  # the generic address of one of .shared::cluster
    MAP_SHARED = 1  # the same place in another block
    MAP_GENERIC = 2
    RANK_SHARED = 3  # rank of the block
    RANK_GENERIC = 4
    INSIDE = 5  # whether a generic address is in the cluster's shared memory
    SHARED = 6  # the address of .shared::cluster of a generic one
    LEADER = 7  # the same place in the first block of the pair


def add_cluster_address(module: ir.Module) -> None:
    """Add ``cluster_address(ctx, lanes, operation)``: addresses lie in ``Warp.ADDRESSES``, ranks in ``Warp.VALUES``.

    The third row of ``Warp.VALUES`` gets the results.
    """
    function, b = t.new_function(module, "cluster_address", t.VOID, [POINTER, I32, I32])
    ctx, lanes, operation = function.args
    block, launch = load_pointer(b, ctx, Warp.BLOCK), load_pointer(b, ctx, Warp.LAUNCH)
    own = load_field(b, block, BlockRecord.CLUSTER_RANK)
    limit = i64((1 << OFFSET_BITS) - 1)
    found = b.alloca(I32)

    def window(index: Value) -> Value:
        last = i32(CLUSTER_WINDOWS - 1)
        index = b.select(b.icmp_unsigned("<", index, last), index, last)
        return t.load(b, block, b.add(i64(BlockRecord.WINDOWS), b.shl(b.zext(index, I64), i64(3))), I64)

    def encoded(offset: Value, index: Value) -> Value:
        return b.or_(b.and_(offset, limit), b.shl(b.zext(index, I64), i64(OFFSET_BITS)))

    with t.for_lanes(b, lanes) as lane:
        address = load_element(b, ctx, Warp.ADDRESSES, lane)
        wanted = b.trunc(load_element(b, ctx, Warp.VALUES, lane), I32)
        # A rank that is too large names no block: an access to its memory is refused.
        wanted = b.select(b.icmp_unsigned("<", wanted, i32(MAX_CLUSTER_BLOCKS)), wanted, i32(MAX_CLUSTER_BLOCKS))
        target = b.add(wanted, i32(1))
        short = b.and_(address, i64(0xFFFFFFFF))
        field = b.trunc(b.lshr(short, i64(OFFSET_BITS)), I32)
        b.store(i32(0), found)
        # Of a generic address: whose memory it is in.
        size = load_field(b, launch, LaunchRecord.SHARED_SIZE)
        for rank in range(MAX_CLUSTER_BLOCKS):
            inside = b.icmp_unsigned("<", b.sub(address, window(i32(rank + 1))), size)
            b.store(b.select(inside, i32(rank + 1), b.load(found, typ=I32)), found)
        at = b.load(found, typ=I32)
        offset = b.sub(address, window(at))
        rank = b.select(b.icmp_unsigned("==", field, i32(0)), own, b.sub(field, i32(1)))
        is_own = b.icmp_unsigned("==", at, b.add(own, i32(1)))
        results = {
            ClusterOperation.GENERIC: b.add(window(field), b.and_(short, limit)),
            ClusterOperation.MAP_SHARED: encoded(short, target),
            ClusterOperation.MAP_GENERIC: b.add(window(target), offset),
            ClusterOperation.RANK_SHARED: b.zext(rank, I64),
            ClusterOperation.RANK_GENERIC: b.zext(
                b.select(b.icmp_unsigned("==", at, i32(0)), own, b.sub(at, i32(1))), I64
            ),
            ClusterOperation.INSIDE: b.zext(b.icmp_unsigned("!=", at, i32(0)), I64),
            ClusterOperation.SHARED: encoded(offset, b.select(is_own, i32(0), at)),
            ClusterOperation.LEADER: encoded(short, b.add(b.and_(rank, i32(-2)), i32(1))),
        }
        result: Value = i64(0)
        for kind, value in results.items():
            result = b.select(b.icmp_unsigned("==", operation, i32(kind)), value, result)
        place = b.add(b.shl(b.zext(lane, I64), i64(3)), i64(Warp.VALUES + 2 * REGISTER_BYTES))
        t.store(b, result, ctx, place)
    b.ret_void()
