"""From a kernel in an artifact to its name in the source."""

from __future__ import annotations

from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.ptx.traversal import instructions_of
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile


def plain_name(entry: str) -> str:
    """Return ``softmax`` for ``_ZN2nn7softmaxIfEEvPT_``."""
    return demangled_name(entry).rpartition("::")[2]


def find_kernel(module: Module | None, entry: str, source: SourceFile) -> KernelDecl | None:
    """Return the kernel's declaration: of those with its name, the one its instructions come from."""
    named = [kernel for kernel in source.kernels if demangled_name(entry) in (kernel.name, kernel.qualified_name)]
    named = named or [kernel for kernel in source.kernels if kernel.name == plain_name(entry)]
    lines = _own_lines(module, entry, source.path) if module is not None and len(named) > 1 else set()
    for kernel in named:
        if any(kernel.range.start.line <= line <= kernel.range.end.line for line in lines):
            return kernel
    return named[0] if named else None


def _own_lines(module: Module, entry: str, path: str) -> set[int]:
    """Return the 0-based lines of a file that a kernel's code stands on or was inlined into."""
    found = set()
    for instruction in instructions_of(module.functions[entry]):
        location = instruction.location
        while location is not None and location.inlined_at is not None:
            location = location.inlined_at
        if location is not None and module.files.get(location.file) == path:
            found.add(location.line - 1)
    return found
