"""The CUDA built-in variables that a kernel may read: they restrict which launches it supports.

A kernel that never reads ``blockDim`` is written for one block size, and one that never reads ``threadIdx`` for one
thread per block.
"""

from __future__ import annotations

import re

from gpuemu_lsp.engine.plan.cexpr import Scope, translate
from gpuemu_lsp.engine.plan.context import KernelContext, lines_of
from gpuemu_lsp.engine.project.expressions import constant, parse

_BLOCK_SIZE = re.compile(r"\bblockDim\b|\bcooperative_groups\b|%ntid\b")
_THREAD_INDEX = re.compile(r"\bthreadIdx\b|\bcooperative_groups\b|%tid\b|%laneid\b")
_BLOCK_INDEX = re.compile(r"\bblockIdx\b|\bgridDim\b|\bcooperative_groups\b|%ctaid\b")
_Y_OR_Z = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*[yz]\b")
_BLOCK_STRIDE = re.compile(r"\bblockIdx\s*\.\s*x\s*\*\s*(\w+)\s*\+\s*threadIdx\s*\.\s*x\b(?!\s*[*/%])")
_MAX_THREADS = 1024


def may_use_block_size(context: KernelContext) -> bool:
    """Whether the kernel may read the number of threads of its block."""
    return _may_mention(_BLOCK_SIZE, context)


def may_use_thread_index(context: KernelContext) -> bool:
    """Whether the kernel may read its thread index; if not, it is written for one thread per block."""
    return _may_mention(_THREAD_INDEX, context)


def may_use_block_index(context: KernelContext) -> bool:
    """Whether the kernel may read its block index; if not, several blocks would all do the same work."""
    return _may_mention(_BLOCK_INDEX, context)


def uses_y_or_z(context: KernelContext) -> bool:
    """Whether the kernel uses more than one axis of the launch."""
    return bool(_Y_OR_Z.search(context.text))


def literal_block_size(context: KernelContext) -> int | None:
    """Return the block size that the code has as a constant: ``blockIdx.x * 128 + threadIdx.x``."""
    scope = Scope(definitions=context.source.constants)
    found = {translate(stride, scope) for stride in _BLOCK_STRIDE.findall(context.text)}
    value = constant(parse(text)) if len(found) == 1 and (text := found.pop()) is not None else None
    return value if value is not None and 1 <= value <= _MAX_THREADS else None


def _may_mention(pattern: re.Pattern[str], context: KernelContext) -> bool:
    """Search the kernel and all functions it may call; macros of a header may expand to anything."""
    source = context.source
    if any(include.resolved is not None or include.hidden for include in source.includes):
        return True
    lines = list(lines_of(source.text))
    for other in source.kernels:
        if other.range != context.declaration.range:
            first, last = other.range.start.line, other.range.end.line
            lines[first : last + 1] = [""] * (last + 1 - first)
    return bool(pattern.search("\n".join(lines)))
