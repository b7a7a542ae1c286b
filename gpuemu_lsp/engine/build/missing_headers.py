"""Folders for headers that the build files do not explain, and what would bring the others."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

from gpuemu_lsp.engine.build.files import folders_above, names_in
from gpuemu_lsp.engine.build.model import MissingInclude, Origin, Setting, SettingKind
from gpuemu_lsp.engine.build.python_packages import header_folders, package_of, site_packages
from gpuemu_lsp.engine.compile.preamble import is_cuda_header, stub_headers
from gpuemu_lsp.engine.compile.toolchain import ToolchainError
from gpuemu_lsp.engine.source import usual_include_dirs
from gpuemu_lsp.engine.source.headers.includes import closure, includes, resolve_line
from gpuemu_lsp.engine.source.headers.known_headers import is_device_header, is_standard, is_torch_header
from gpuemu_lsp.engine.source.preprocessor.conditions import defines, inactive_regions
from gpuemu_lsp.engine.source.preprocessor.lexer import source_text

_LAYOUT = "usual folders of a project"
_PYTHON = "the project's Python"
_SEARCH = "contains the header"
_SYSTEM = (Path("/usr/include"), Path("/usr/include/x86_64-linux-gnu"))
"""Headers of the operating system, which serve host code."""
_SKIPPED = frozenset({"node_modules", "site-packages", "__pycache__"})
_MAX_FOLDERS = 3000
_MAX_LEVELS_UP = 4
_PROJECT_FILES = frozenset(
    {".git", ".hg", ".svn", "gpuemu.toml", "CMakeLists.txt", "Makefile", "makefile", "GNUmakefile", "meson.build"}
    | {"setup.py", "pyproject.toml", "compile_commands.json", "compile_flags.txt", ".clangd"}
)
_PROJECT_TEXTS = ("README", "LICENSE", "LICENCE", "COPYING")
"""Names that the root of a project has, and beginnings of such names."""


def found_folders(
    path: str, text: str, known: Sequence[str], python: str | None, options: Sequence[str] = ()
) -> tuple[tuple[Setting, ...], tuple[MissingInclude, ...]]:
    """Return folders with headers of a file that are not in the ``known`` ones, and the headers that are in none.

    Folders of the project are first, then those of its Python's packages, then any other folder of the project that is
    the only one with a header of this name. ``options`` decide which includes are active.
    """
    found: list[Setting] = []
    wanted = missing(path, text, known)
    if wanted:
        origin = Origin(str(Path(path).parent), what=_LAYOUT)
        for folder in usual_include_dirs(path, text):
            if folder not in known:
                found.append(Setting(SettingKind.INCLUDE_DIR, folder, origin))
        if found:
            wanted = missing(path, text, [*known, *(setting.value for setting in found)])
    for search in (_in_packages, _in_project):
        tried: set[str] = set()
        # A header that is found includes others, so what is missing is computed again.
        while targets := [target for target in wanted if target not in tried and target not in stub_headers()]:
            tried.add(targets[0])
            setting = search(targets[0], path, python)
            if setting is not None:
                found.append(setting)
                wanted = missing(path, text, [*known, *(setting.value for setting in found)])
    if wanted := tuple(target for target in wanted if target not in stub_headers()):
        folders = [*known, *(setting.value for setting in found)]
        wanted = tuple(target for target in wanted if target in _active(path, text, folders, options))
    return tuple(found), tuple(MissingInclude(target, package_of(target)) for target in wanted)


def _active(path: str, text: str, folders: Sequence[str], options: Sequence[str]) -> frozenset[str]:
    """Return the targets of includes that no ``#if`` excludes: not those for HIP, for example."""
    main = source_text(text)
    headers = closure(main, path, folders, {})
    dead = inactive_regions(path, main, headers, defines(options), partial(resolve_line, include_dirs=folders))
    return frozenset(
        include.target
        for name, content in {path: main, **headers}.items()
        for include in includes(content.without(dead.get(name, ())), name, folders)
    )


def missing(path: str, text: str, folders: Sequence[str]) -> tuple[str, ...]:
    """Return the targets of includes that resolve to no file, nor to a header that the compiler has."""
    main = source_text(text)
    files = {path: main, **closure(main, path, folders, {})}
    targets = dict.fromkeys(
        include.target
        for name, content in files.items()
        for include in includes(content, name, folders)
        if include.resolved is None and not _is_known(include.target, folders)
    )
    return tuple(targets)


def _is_known(target: str, folders: Sequence[str]) -> bool:
    if is_standard(target) or is_torch_header(target) or any((folder / target).is_file() for folder in _SYSTEM):
        return True
    if not is_device_header(target):
        return False
    try:
        if is_cuda_header(target):
            return True
    except ToolchainError:
        return True
    return target in stub_headers() or any((Path(folder) / target).is_file() for folder in folders)


def _in_packages(target: str, path: str, python: str | None) -> Setting | None:
    for packages in site_packages(path, python):
        for folder in header_folders(packages):
            if (Path(folder) / target).is_file():
                return Setting(SettingKind.INCLUDE_DIR, folder, Origin(packages, what=_PYTHON))
    return None


def _in_project(target: str, path: str, _python: str | None) -> Setting | None:
    """Return the only folder of the project below which a header is."""
    if ".." in target.split("/") or is_device_header(target):
        return None
    folders = set()
    for root in _roots(path):
        folders = {
            here.removesuffix(tail).rstrip("/")
            for tail in ["/" + "/".join(target.split("/")[:-1])]
            for here in _containing(root, target.split("/")[-1])
            if here.endswith(tail.rstrip("/"))
        }
        if folders:
            break
    if len(folders) != 1:
        return None
    return Setting(SettingKind.INCLUDE_DIR, folders.pop(), Origin(path, what=f"{_SEARCH} {target}"))


def _roots(path: str) -> Sequence[str]:
    """Return the folder of a file and those above it, nearest first, up to the last that shows to be a project's.

    At most four; without a sign of a project above, only the folder of the file: its neighbours may be anything.
    """
    folders = [one for one in islice(folders_above(path), _MAX_LEVELS_UP) if len(Path(one).parts) > 2]
    last = max((level for level, folder in enumerate(folders) if _is_project(names_in(folder))), default=0)
    return folders[: last + 1]


def _is_project(names: frozenset[str]) -> bool:
    return bool(_PROJECT_FILES & names) or any(name.startswith(_PROJECT_TEXTS) for name in names)


def _containing(root: str, name: str) -> Iterator[str]:
    """Yield the folders below a root that contain a file, a bounded number of them."""
    left = _MAX_FOLDERS
    for here, folders, files in os.walk(root):
        left -= 1
        if left < 0:
            return
        folders[:] = sorted(inner for inner in folders if not inner.startswith(".") and inner not in _SKIPPED)
        if name in files:
            yield Path(here).as_posix()
