"""Include directives of a file, resolution of user headers on disk, and the transitive closure of includes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.source.headers.hip import hip_header
from gpuemu_lsp.engine.source.headers.known_headers import is_device_header, is_standard, is_torch_header
from gpuemu_lsp.engine.source.model import Include
from gpuemu_lsp.engine.source.preprocessor.lexer import Directive, SourceText, decode

_TARGET = re.compile(r"\s*#\s*include(?:_next)?\s*([<\"])([^>\"\n]*)[>\"]")
_MAX_FILES = 300
_MAX_BYTES = 4 << 20


def includes(text: SourceText, path: str, include_dirs: Sequence[str] = ()) -> tuple[Include, ...]:
    """Return the include directives of a file, user headers resolved.

    A quoted header is searched for in the file's own directory and then in ``include_dirs``, an angled one the other
    way round: build systems usually pass the sources' directories with ``-I`` too.
    """
    found = []
    for directive in text.directives:
        if directive.kind not in ("include", "include_next"):
            continue
        target = include_target(text, directive)
        if target is None:
            continue
        name, quoted = target
        header = resolve(name, quoted, path, include_dirs)
        hidden = header is None and not is_device_header(name) and not is_standard(name)
        found.append(Include(name, quoted, text.range(directive.start, directive.end), header, hidden))
    return tuple(found)


def hidden_includes(text: SourceText, path: str, include_dirs: Sequence[str]) -> tuple[Include, ...]:
    """Return the includes that the device view omits although device code may need them."""
    return tuple(include for include in includes(text, path, include_dirs) if include.hidden)


def include_target(text: SourceText, directive: Directive) -> tuple[str, bool] | None:
    """Return the target of an include directive and whether it is quoted; None for ``#include MACRO``."""
    match = _TARGET.match(text.raw, directive.start, directive.end)
    return (decode(match[2]), match[1] == '"') if match else None


def resolve_line(text: SourceText, path: str, directive: Directive, include_dirs: Sequence[str]) -> str | None:
    """Return the user header that an include directive resolves to; None if it is not on disk."""
    target = include_target(text, directive)
    return resolve(*target, path, include_dirs) if target else None


def resolve(target: str, quoted: bool, path: str, include_dirs: Sequence[str]) -> str | None:
    """Return the absolute path of a user header, or of ours in place of one of HIP's; None if it is not on disk."""
    if not target or "\0" in target:
        return None
    if (ours := hip_header(target)) is not None:
        return ours
    here = str(Path(path).parent)
    folders = (here, *include_dirs) if quoted else (*include_dirs, here)
    if is_device_header(target) or is_standard(target) or is_torch_header(target):
        # include_dirs may contain a CUDA toolkit, the system's headers or PyTorch's: they are not the user's.
        folders = (here,) if quoted else ()
    for folder in folders:
        candidate = os.path.normpath(Path(folder) / target)
        if Path(candidate).is_file():
            return Path(candidate).as_posix()
    return None


def include_closure(path: str, include_dirs: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the user headers that a file on disk includes, directly or not, breadth first."""
    text = load(path)
    return tuple(closure(text, path, include_dirs, {})) if text is not None else ()


def closure(
    text: SourceText, path: str, include_dirs: Sequence[str], overlay: Mapping[str, str]
) -> dict[str, SourceText]:
    """Return the text of every user header that a text includes, directly or not, by absolute path.

    ``overlay`` has texts that replace files on disk. At most 300 headers are followed.
    """
    found: dict[str, SourceText] = {}
    waiting = list(_resolved(text, path, include_dirs))
    while waiting and len(found) < _MAX_FILES:
        header = waiting.pop(0)
        if header in found or header == path:
            continue
        content = SourceText(overlay[header]) if header in overlay else load(header)
        if content is None:
            continue
        found[header] = content
        waiting += _resolved(content, header, include_dirs)
    return found


def load(path: str) -> SourceText | None:
    """Read a file from disk; None if it cannot be read, is not a regular file or exceeds 4 MiB."""
    try:
        status = Path(path).stat()
        usual = stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_BYTES
        return _load(path, status.st_mtime_ns, status.st_size) if usual else None
    except (OSError, ValueError):
        return None


# A changed file has another time or size and so another key; old entries are evicted.
@lru_cache(maxsize=256)
def _load(path: str, modified: int, size: int) -> SourceText:
    return SourceText(file_bytes(path).decode("utf-8-sig", "replace"))


def _resolved(text: SourceText, path: str, include_dirs: Sequence[str]) -> Iterator[str]:
    for include in includes(text, path, include_dirs):
        if include.resolved is not None:
            yield include.resolved
