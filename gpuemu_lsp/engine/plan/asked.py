"""What a kernel's text asks about its launch: a kernel that never asks for a number is written for one."""

from __future__ import annotations

import re

from gpuemu_lsp.engine.plan.cexpr import translate
from gpuemu_lsp.engine.project.expressions import constant, parse
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile

_BLOCK_SIZE = re.compile(r"\bblockDim\b|\bcooperative_groups\b|%ntid\b")
_THREAD = re.compile(r"\bthreadIdx\b|\bcooperative_groups\b|%tid\b|%laneid\b")
_BLOCK = re.compile(r"\bblockIdx\b|\bgridDim\b|\bcooperative_groups\b|%ctaid\b")
_Y_OR_Z = re.compile(r"\b(?:threadIdx|blockIdx|blockDim|gridDim)\s*\.\s*[yz]\b")
_STEP_OF_BLOCKS = re.compile(r"\bblockIdx\s*\.\s*x\s*\*\s*(\w+)\s*\+\s*threadIdx\s*\.\s*x\b(?!\s*[*/%])")
_MOST_THREADS = 1024


def asks_block_size(decl: KernelDecl, source: SourceFile) -> bool:
    """Say whether the kernel may ask how many threads its block has."""
    return _may_mention(_BLOCK_SIZE, decl, source)


def asks_thread(decl: KernelDecl, source: SourceFile) -> bool:
    """Say whether the kernel may ask which thread of its block it is; if not, it is written for one."""
    return _may_mention(_THREAD, decl, source)


def asks_block(decl: KernelDecl, source: SourceFile) -> bool:
    """Say whether the kernel may ask which block it is; if not, several would all do the same."""
    return _may_mention(_BLOCK, decl, source)


def looks_at_y_or_z(decl: KernelDecl, source: SourceFile) -> bool:
    """Say whether the kernel has more than one axis."""
    return bool(_Y_OR_Z.search(_body(decl, source)))


def written_block(decl: KernelDecl, source: SourceFile) -> int | None:
    """Return the threads of a block where the code counts blocks by a number: ``blockIdx.x * 128 + threadIdx.x``."""
    found = {translate(step, {}, source.constants) for step in _STEP_OF_BLOCKS.findall(_body(decl, source))}
    value = constant(parse(text)) if len(found) == 1 and (text := found.pop()) is not None else None
    return value if value is not None and 1 <= value <= _MOST_THREADS else None


def _may_mention(what: re.Pattern[str], decl: KernelDecl, source: SourceFile) -> bool:
    """Look at the kernel and all functions it may call; macros of a header may hide anything."""
    if any(include.resolved is not None or include.hidden for include in source.includes):
        return True
    lines = source.text.split("\n")
    for other in source.kernels:
        if other.range != decl.range:
            first, last = other.range.start.line, other.range.end.line
            lines[first : last + 1] = [""] * (last + 1 - first)
    return bool(what.search("\n".join(lines)))


def _body(decl: KernelDecl, source: SourceFile) -> str:
    return "\n".join(source.text.split("\n")[decl.range.start.line : decl.range.end.line + 1])
