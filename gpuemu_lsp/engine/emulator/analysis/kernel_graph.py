"""The control-flow graph of a kernel of a PTX text, made once for all analyses that ask for it."""

from __future__ import annotations

from functools import lru_cache

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph, build_cfg
from gpuemu_lsp.engine.emulator.frontend.flatten import flatten
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.parser import parse


class MalformedKernelError(Exception):
    """PTX from which no control-flow graph can be made."""


@lru_cache(maxsize=8)  # the kernels of a file are asked about in turn, each by several analyses
def kernel_graph(ptx: str, entry: str) -> tuple[Program, ControlFlowGraph]:
    """Return a kernel with its blocks in execution order, and their graph.

    Raises
    ------
    MalformedKernelError
        If the text is not PTX, has no such kernel, or one that is too large or malformed.
    """
    try:
        return build_cfg(flatten(parse(ptx), entry))
    # PTX that no compiler emits can be wrong in ways that show only as the front end fails on them.
    except Exception as error:
        raise MalformedKernelError(f"{type(error).__name__} {error}") from error
