"""Gathers and scatters: on every width of vectors, for full and partial masks, against NumPy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from llvmlite import ir

from gpuemu_lsp.engine.emulator.jit import compile as jit
from gpuemu_lsp.engine.emulator.llvm import gathers
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t

_MEMORY = 64


def _compiled(lanes: int, bits: int, index_bits: int) -> jit.LoadedCode:
    """Return ``gather`` and ``scatter`` as functions of (values, memory, indices in bytes, mask)."""
    module = ir.Module()
    values, index = ir.VectorType(ir.IntType(bits), lanes), ir.VectorType(ir.IntType(index_bits), lanes)
    for name in ("gather", "scatter"):
        function, b = t.new_function(module, name, t.VOID, [t.POINTER, t.POINTER, t.POINTER, ir.IntType(lanes)])
        row, memory, offsets, mask = function.args
        at = b.load(offsets, typ=index, align=1)
        chosen = b.bitcast(mask, ir.VectorType(t.I1, lanes))
        if name == "gather":
            t.store(b, gathers.gather(b, values, memory, at, chosen), row, 0, align=1)
        else:
            gathers.scatter(b, b.load(row, typ=values, align=1), memory, at, chosen)
        b.ret_void()
    return jit.load_object(jit.compile_object(module, 0), ("gather", "scatter"))


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("index_bits", [32, 64])
@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_lanes_of_the_mask_are_accessed_in_order(lanes, bits, index_bits):
    code = _compiled(lanes, bits, index_bits)
    draw = np.random.default_rng(lanes + bits + index_bits)
    word = np.dtype(f"uint{bits}")
    for mask in (0, 1, 1 << (lanes - 1), *draw.integers(1 << lanes, size=4), (1 << lanes) - 1):
        active = (int(mask) >> np.arange(lanes)) & 1 == 1
        memory = draw.integers(1 << 32, size=_MEMORY, dtype=np.uint64).astype(word)
        elements = draw.integers(8, size=lanes)  # the same element for several lanes
        # Lanes outside of the mask may hold any index.
        offsets = np.where(active, elements * word.itemsize, -(2**30)).astype(f"int{index_bits}")
        row = np.full(lanes, 7, word)
        arguments = (
            *(one.ctypes.data_as(ctypes.c_void_p) for one in (row, memory, offsets)),
            ctypes.c_uint16(int(mask)),
        )
        types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint16)
        jit.function(code.addresses["gather"], *types, result=None)(*arguments)
        assert (row == np.where(active, memory[elements], 0)).all()
        row[:] = draw.integers(1 << 32, size=lanes, dtype=np.uint64)
        expected = memory.copy()
        for lane in np.flatnonzero(active):
            expected[elements[lane]] = row[lane]
        jit.function(code.addresses["scatter"], *types, result=None)(*arguments)
        assert (memory == expected).all()
