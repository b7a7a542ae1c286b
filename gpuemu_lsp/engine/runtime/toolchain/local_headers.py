"""Headers of a source's own project, in place of their inclusion."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.regular_file import file_text

_INCLUDE = re.compile(r'\s*#\s*include\s*(["<])([^">]+)[">]')
_ONCE = re.compile(r"\s*#\s*pragma\s+once\b")
_OWN = str(Path(__file__).resolve().parents[1])
_VENDORS = (_OWN, "/torch/include", "/nvidia/", "/usr/include/", "/usr/lib/", f"{sys.base_prefix}/include")


def is_local(path: Path) -> bool:
    """Return whether a header belongs to a project, not to PyTorch, CUDA, Python or the system."""
    text = str(path.resolve())
    return not any(part in text for part in _VENDORS)


def expanded_source(source: Path, folders: Sequence[Path]) -> tuple[str, tuple[Path, ...]]:
    """Return a source with the headers of its project in place, with their lines, and the paths of these headers.

    ``folders`` are searched for headers. A header is put in place once.

    Raises
    ------
    OSError
        If the source cannot be read.
    """
    seen: dict[Path, None] = {source.resolve(): None}
    text = _expanded(source.resolve(), [folder for folder in folders if is_local(folder)], seen)
    return text, tuple(seen)[1:]


def _expanded(path: Path, folders: Sequence[Path], seen: dict[Path, None]) -> str:
    lines = [f'#line 1 "{path}"']
    for number, line in enumerate(file_text(path, errors="replace").splitlines(), 1):
        include = _INCLUDE.match(line)
        header = _found(include[2], path.parent if include[1] == '"' else None, folders) if include else None
        if header is None:
            lines.append("" if _ONCE.match(line) else line)
        elif header in seen:
            lines.append("")
        else:
            seen[header] = None
            lines += [_expanded(header, folders, seen).removesuffix("\n"), f'#line {number + 1} "{path}"']
    return "\n".join(lines) + "\n"


def _found(name: str, own_folder: Path | None, folders: Sequence[Path]) -> Path | None:
    for folder in (*([own_folder] if own_folder is not None else []), *folders):
        header = folder / name
        if header.is_file():
            return header.resolve() if is_local(header) else None
    return None
