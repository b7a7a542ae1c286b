"""The files that include another: the launches of its kernels stand there, and what it needs to compile.

Kernels are often templates in a ``.cuh`` and their launches in the one ``.cu`` that includes it. Read alone, such a
header does not say which instance is meant, nor how it is launched. A ``.cu`` may be included like a header, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.engine.source.constants import file_constants
from gpuemu_lsp.engine.source.includes import include_closure, load
from gpuemu_lsp.engine.source.launches import launches
from gpuemu_lsp.engine.source.lexer import decode
from gpuemu_lsp.engine.source.model import Launch
from gpuemu_lsp.engine.source.nearby import content, launched_names, nearby
from gpuemu_lsp.engine.source.view import device_views

_HEADERS = frozenset({".cuh", ".h", ".hpp", ".hh", ".inl", ".inc"})


def launches_elsewhere(path: str, names: Iterable[str], include_dirs: Sequence[str] = ()) -> tuple[Launch, ...]:
    """Return the launches of a header's kernels in the files near it that include it, directly or not.

    Parameters
    ----------
    path
        Absolute path of the header, or of a source that others include.
    names
        Its kernels.
    include_dirs
        Folders to look for headers in.
    """
    wanted = frozenset(names)
    if not wanted:
        return ()
    spelled = {name.encode() for name in wanted}
    found: list[Launch] = []
    for candidate in nearby(path):
        if candidate == path or spelled.isdisjoint(launched_names(candidate)):
            continue
        text = load(candidate)
        if text is None or path not in include_closure(candidate, include_dirs):
            continue
        views = device_views(candidate, decode(text.raw), include_dirs)
        constants = file_constants(views.units, views.macros)
        found += [
            replace(launch, path=candidate)
            for launch in launches(views.units[0], constants, views.macros)
            if launch.kernel in wanted
        ]
    return tuple(found)


def includers(path: str, include_dirs: Sequence[str] = ()) -> Iterator[str]:
    """Yield the files near a header that include it, then those that include these: compiled sources before headers.

    Parameters
    ----------
    path
        Absolute path of the header, or of a source that others include.
    include_dirs
        Folders to look for headers in.
    """
    around = list(nearby(path))
    seen, waiting = {path}, [path]
    while waiting:
        target = waiting.pop(0)
        including = re.compile(rb"#[ \t]*include\b[^\n]*" + re.escape(Path(target).name.encode()))
        named = [candidate for candidate in around if candidate not in seen and _says(candidate, including)]
        for candidate in sorted(named, key=lambda candidate: Path(candidate).suffix in _HEADERS):
            if target in include_closure(candidate, include_dirs):
                seen.add(candidate)
                waiting.append(candidate)
                yield candidate


def _says(path: str, what: re.Pattern[bytes]) -> bool:
    text = content(path)
    return text is not None and what.search(text) is not None
