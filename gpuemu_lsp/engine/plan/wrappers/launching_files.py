"""Launches of a kernel in other files of its project, which import it. Files are read, never imported."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tree_sitter import Node

from gpuemu_lsp.engine.findings import Place
from gpuemu_lsp.engine.project.model import KernelSpec, Project
from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.source.python import module_scope
from gpuemu_lsp.engine.source.python.model import PythonSource
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.syntax import descendants, range_of, text_of
from gpuemu_lsp.engine.source.python.triton_kernels import is_jit, is_launched

_MAX_FILES = 2000
_MAX_ENTRIES = 20_000
"""Files and folders that are looked at: a script may be in a folder of data, or in a home folder."""
_MAX_BYTES = 1 << 20
_PROJECT_FILES = frozenset({"pyproject.toml", "setup.py", "setup.cfg", "gpuemu.toml", ".git"})
_SKIPPED = frozenset({"node_modules", "build", "dist", "__pycache__", "site-packages", "tests", "test"})


@dataclass(frozen=True, slots=True)
class ImportedKernel:
    """A kernel that a module imports and launches.

    ``local`` is its name there, ``name`` that of its definition ``node``, and ``scope`` the module that defines it.
    """

    local: str
    name: str
    node: Node
    scope: ModuleScope


def imported_kernels(scope: ModuleScope) -> tuple[ImportedKernel, ...]:
    """Return the kernels of other modules that a module launches."""
    found: dict[str, ImportedKernel] = {}
    for identifier in descendants(scope.root, "identifier"):
        name = text_of(identifier)
        if name in found or not is_launched(identifier) or not scope.imported_from(name):
            continue
        parts = scope.module_value(name)
        if parts is not None and len(parts) == 1 and parts[0][0].type == "function_definition" and is_jit(parts[0][0]):
            node, owner = parts[0]
            found[name] = ImportedKernel(name, text_of(node.child_by_field_name("name")), node, owner)
    return tuple(found.values())


def imported_specs(project: Project, source: PythonSource) -> list[KernelSpec]:
    """Return the specs of the kernels of other files that a file launches and gpuemu.toml does not have."""
    found = []
    for kernel in imported_kernels(module_scope(source.path, source.text)):
        path = kernel.scope.path
        if any(spec.source == path and (spec.entry or spec.name) == kernel.name for spec in project.kernels):
            continue
        place = Place(path, range_of(kernel.node.child_by_field_name("name") or kernel.node))
        spec = KernelSpec(kernel.name, path, None, entry=kernel.name, language="triton", places={"": place})
        found.append(spec)
    return found


def launching_files(path: str, kernels: Iterable[str]) -> Iterator[tuple[ModuleScope, ImportedKernel]]:
    """Yield the launches of kernels of a file in other files of its project, by file."""
    wanted = [one.encode() for one in kernels]
    for file in _files_of_project(Path(path)) if wanted else ():
        data = _read(file)
        if data is None or file.as_posix() == path or b"import" not in data or not any(one in data for one in wanted):
            continue
        scope = module_scope(file.as_posix(), data.decode(errors="replace"))
        for one in imported_kernels(scope):
            if one.scope.path == path and one.name.encode() in wanted:
                yield scope, one


def _files_of_project(path: Path) -> Iterator[Path]:
    """Yield the modules next to a file and below its package or project, a bounded number of them."""
    root = path.parent
    while (root / "__init__.py").is_file() and root.parent != root:
        root = root.parent
    if root == path.parent and any((root.parent / one).exists() for one in _PROJECT_FILES):
        root = root.parent
    elif root != path.parent:
        # Of a package only its own folder: next to it may be anything.
        root = root / path.relative_to(root).parts[0]
    count = entries = 0
    for folder, folders, files in os.walk(root):
        entries += len(folders) + len(files)
        if entries > _MAX_ENTRIES:
            return
        folders[:] = sorted(one for one in folders if not one.startswith(".") and one not in _SKIPPED)
        for file in sorted(files):
            if file.endswith(".py"):
                count += 1
                if count > _MAX_FILES:
                    return
                yield Path(folder, file)


def _read(path: Path) -> bytes | None:
    try:
        return file_bytes(path, _MAX_BYTES)
    except OSError:
        return None
