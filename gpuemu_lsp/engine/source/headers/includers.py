"""The files that include another: the launches of its kernels stand there, and what it needs to compile.

Kernels are often templates in a ``.cuh`` and their launches in the one ``.cu`` that includes it. Read alone, such a
header does not say which instance is meant, nor how it is launched. A ``.cu`` may be included like a header, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuemu_lsp.engine.source.headers.includes import include_closure
from gpuemu_lsp.engine.source.headers.nearby_sources import content, sources_near

_HEADERS = frozenset({".cuh", ".h", ".hpp", ".hh", ".inl", ".inc"})


def includers(path: str, include_dirs: Sequence[str] = ()) -> Iterator[str]:
    """Yield the files near a header that include it, then those that include these: compiled sources before headers.

    Parameters
    ----------
    path
        Absolute path of the header, or of a source that others include.
    include_dirs
        Folders to look for headers in.
    """
    around = list(sources_near(path))
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
