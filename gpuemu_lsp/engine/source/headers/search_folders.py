"""Include directories of an unregistered file, guessed from usual project layouts.

A build system passes them with ``-I``. Without one, a header such as ``helper_math.h`` is searched for in the
``include``, ``inc`` and ``common`` folders from the file's own directory up to the root of its project.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuemu_lsp.engine.source.headers.includes import closure, includes
from gpuemu_lsp.engine.source.headers.known_headers import is_device_header, is_standard
from gpuemu_lsp.engine.source.preprocessor.lexer import SourceText, source_text

TOP = frozenset({".git", ".hg", "gpuemu.toml", "pyproject.toml"})
"""Entries that mark the root directory of a project."""
_USUAL = ("include", "inc", "includes", "common", "Common", "src")
_MAX_LEVELS = 6


def usual_include_dirs(path: str, text: str) -> tuple[str, ...]:
    """Return the directories with the missing headers of the file at ``path``, in the order they have to be added."""
    candidates = list(_usual(Path(path).parent))
    main = source_text(text)
    found: list[str] = []
    # A header that is found includes further ones, so what is missing is computed again after each directory.
    while candidates:
        missing = _missing(main, path, found)
        better = next((folder for folder in candidates if any((folder / name).is_file() for name in missing)), None)
        if better is None:
            break
        found.append(better.as_posix())
        candidates.remove(better)
    return tuple(found)


def _usual(folder: Path) -> Iterator[Path]:
    for _ in range(_MAX_LEVELS):
        yield from (folder / name for name in _USUAL if (folder / name).is_dir())
        if folder.parent == folder or any((folder / mark).exists() for mark in TOP):
            return
        folder = folder.parent


def _missing(main: SourceText, path: str, include_dirs: list[str]) -> set[str]:
    files = {path: main, **closure(main, path, include_dirs, {})}
    return {
        include.target
        for name, text in files.items()
        for include in includes(text, name, include_dirs)
        if include.resolved is None and not is_standard(include.target) and not is_device_header(include.target)
    }
