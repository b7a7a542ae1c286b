"""The control-flow graph of a kernel of a PTX text, made once for all analyses that ask for it."""

from __future__ import annotations

from functools import lru_cache

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph, build_cfg
from gpuemu_lsp.engine.emulator.frontend.flatten import flatten
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.parser import parse


@lru_cache(maxsize=8)  # the kernels of a file are asked about in turn, each by several analyses
def kernel_graph(ptx: str, entry: str) -> tuple[Program, ControlFlowGraph]:
    """Return a kernel with its blocks in execution order, and their graph.

    Raises
    ------
    PtxError
        If the text is not PTX.
    KeyError
        If it has no such kernel.
    """
    return build_cfg(flatten(parse(ptx), entry))
