"""Which kernel function of a text an entry of gpuemu.toml is about."""

from __future__ import annotations

from functools import lru_cache

from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.model import KernelDecl


@lru_cache(maxsize=16)
def declarations(path: str, text: str) -> tuple[KernelDecl, ...]:
    """Return the kernels of a text."""
    return read(path, text).kernels


def declaration_of(spec: KernelSpec, text: str) -> KernelDecl | None:
    """Return the kernel an entry means, None when the text does not have it."""
    found = declarations(spec.source, text)
    return next((decl for decl in found if means(spec, decl, alone=len(found) == 1)), None)


def means(spec: KernelSpec, decl: KernelDecl, alone: bool) -> bool:
    """Say whether an entry is about a kernel; without ``entry`` it is the file's only one, or the one of its name."""
    if spec.entry is None and alone:
        return True
    wanted = (spec.entry or spec.name).split("<")[0].strip()
    return wanted in (decl.name, decl.qualified_name)
