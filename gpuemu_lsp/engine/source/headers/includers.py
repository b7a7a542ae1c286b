"""Files that include a header: compiled sources, and other headers, near it.

A header may not compile alone; it is then compiled as part of a file that includes it. A ``.cu`` can be included like
a header, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuemu_lsp.engine.source.headers.includes import include_closure
from gpuemu_lsp.engine.source.headers.kernel_files import HEADERS
from gpuemu_lsp.engine.source.headers.nearby_sources import content, sources_near


def includers(path: str, include_dirs: Sequence[str] = ()) -> Iterator[str]:
    """Yield the nearby files that include a header, then those that include these; sources before headers.

    Parameters
    ----------
    path
        Absolute path of the header, or of a source that others include.
    include_dirs
        Directories to search for headers.
    """
    around = list(sources_near(path))
    seen, waiting = {path}, [path]
    while waiting:
        target = waiting.pop(0)
        # A search for the header's file name excludes most files before their includes are resolved.
        including = re.compile(rb"#[ \t]*include\b[^\n]*" + re.escape(Path(target).name.encode()))
        named = [candidate for candidate in around if candidate not in seen and _contains(candidate, including)]
        for candidate in sorted(named, key=lambda candidate: Path(candidate).suffix in HEADERS):
            if target in include_closure(candidate, include_dirs):
                seen.add(candidate)
                waiting.append(candidate)
                yield candidate


def _contains(path: str, pattern: re.Pattern[bytes]) -> bool:
    text = content(path)
    return text is not None and pattern.search(text) is not None
