"""The control-flow graph of a kernel of a PTX text, made once for all analyses that ask for it."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph, build_cfg
from gpuemu_lsp.engine.emulator.frontend.flatten import flatten
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.ptx.parser import parse


class MalformedKernelError(Exception):
    """PTX from which no control-flow graph can be made."""


def kernel_graph(ptx: str, entry: str) -> tuple[Program, ControlFlowGraph]:
    """Return a kernel with its blocks in execution order, and their graph.

    Raises
    ------
    MalformedKernelError
        If the text is not PTX, has no such kernel, or one that is too large or malformed.
    """
    try:
        return graph_of(parse(ptx), entry)
    # PTX that no compiler emits can be wrong in ways that show only as the front end fails on them.
    except Exception as error:
        raise MalformedKernelError(f"{type(error).__name__} {error}") from error


def graph_of(module: Module, entry: str) -> tuple[Program, ControlFlowGraph]:
    """Return what :func:`kernel_graph` does of a parsed module; any error of the front end is passed on."""
    for latest, name, graph in _latest:
        if latest is module and name == entry:
            return graph
    graph = build_cfg(flatten(module, entry))
    # Another thread may translate another kernel.
    _latest[:] = [*_latest[1 - _MOST_KEPT :], (module, entry, graph)]
    return graph


_MOST_KEPT = 8
"""Kernels of a file are asked about in turn, each for its facts, for its code and for its dependences."""
_latest: list[tuple[Module, str, tuple[Program, ControlFlowGraph]]] = []
