"""The device view: the same text, every line and byte column where it was, with everything the device cannot use blank.

NVRTC compiles device code alone, with no host compiler and no C library, so ``main``, host helpers, launches and the
headers of host libraries have to go. What device code needs stays as written. User headers get views as well, and all
files are judged together: a helper in a header stays because a kernel in another file calls it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from gpuemu_lsp.engine.source.device_view.directives import DirectiveSelection, select_directives
from gpuemu_lsp.engine.source.device_view.reachability import ReachableCode, reachable_code
from gpuemu_lsp.engine.source.headers import known_headers
from gpuemu_lsp.engine.source.headers.includes import closure, resolve_line
from gpuemu_lsp.engine.source.preprocessor.conditions import defines, inactive_regions
from gpuemu_lsp.engine.source.preprocessor.lexer import SourceText, blank
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.parsed_file import ParsedFile, parse_file

_OURS = re.compile(r"\b__CUDACC_RTC__\b")
_UNREADABLE = re.compile("[\ud800-\udfff\0\ufeff]")
_ONLY_WITH_CODE = frozenset({"error", "warning", "pragma"})


@dataclass(frozen=True, slots=True)
class DeviceViews:
    """A file (the first file) and its user headers taken apart, its device view, and theirs by absolute path."""

    files: tuple[ParsedFile, ...]
    macros: MacroTable
    view: str
    headers: Mapping[str, str]


def device_views(
    path: str,
    text: str,
    include_dirs: Sequence[str] = (),
    overlay: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> DeviceViews:
    """Make the device view of a file together with its user headers.

    Parameters
    ----------
    path, text
        The file; the text need not be what is on disk.
    include_dirs
        Folders to look for headers in, as the compiler will.
    overlay
        Texts of headers that are newer than the disk's, by absolute path.
    options
        The compiler's; only ``-D`` and ``-U`` matter here.
    """
    main = SourceText(text)
    # A header that knows NVRTC looks after itself, and what it includes with it.
    others = {
        header: content
        for header, content in closure(main, path, include_dirs, overlay or {}).items()
        if not _OURS.search(content.code + content.clean)
    }
    dead = inactive_regions(path, main, others, defines(options), partial(resolve_line, include_dirs=include_dirs))
    main = main.without(dead[path])
    others = {header: content.without(dead.get(header, ())) for header, content in others.items()}
    macros = MacroTable((main, *others.values()))
    files = [
        parse_file(path, main, macros),
        *(parse_file(header, content, macros) for header, content in others.items()),
    ]
    kept = reachable_code(files, macros)
    verdicts = {file.path: select_directives(file, kept.words, macros, include_dirs) for file in files}
    replacements = _replacements(kept, verdicts)
    views = {file.path: _view(file, kept, verdicts[file.path].shown, replacements[file.path]) for file in files}
    return DeviceViews(tuple(files), macros, views.pop(path), views)


def _replacements(kept: ReachableCode, verdicts: Mapping[str, DirectiveSelection]) -> dict[str, dict[int, str]]:
    """Give blanked includes of libraries to headers of CUDA's that device code needs and nothing else includes.

    ``cublas_v2.h`` brings ``cuda_fp16.h`` along. Where the line has room, its include is replaced rather than blanked.
    """
    shown = frozenset[str]().union(*(verdict.includes for verdict in verdicts.values()))
    wanted = deque(f"#include<{header}>" for header in known_headers.implied(kept.words, shown))
    found: dict[str, dict[int, str]] = {path: {} for path in verdicts}
    for path, verdict in verdicts.items():
        for directive in verdict.libraries:
            if wanted and len(wanted[0]) <= directive.end - directive.start:
                found[path][directive.start] = wanted.popleft()
    return found


def _view(file: ParsedFile, kept: ReachableCode, shown: Sequence[bool], replacements: Mapping[int, str]) -> str:
    raw = blank(file.text.raw, _spans(file, kept, shown))
    for start, line in replacements.items():
        raw = raw[:start] + line + raw[start + len(line) :]
    view = raw.encode("latin-1").decode("utf-8", "surrogatepass")
    # Neither half a UTF-16 pair nor a NUL gets through to the compiler; a byte order mark it would stumble over.
    return _UNREADABLE.sub(lambda match: " " * len(match[0].encode("utf-8", "surrogatepass")), view)


def _spans(file: ParsedFile, kept: ReachableCode, shown: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield what to blank, ascending: dropped items round their directives, and directives for the host."""
    waiting = deque(zip(file.text.directives, shown, strict=True))
    for start, end in kept.dropped[file.path]:
        while waiting and waiting[0][0].start < start:
            directive, stays = waiting.popleft()
            if not stays:
                yield directive.start, directive.end
        while waiting and waiting[0][0].start < end:
            directive, stays = waiting.popleft()
            # Conditions stay balanced wherever an item begins or ends; definitions may serve later code.
            if stays and directive.kind not in _ONLY_WITH_CODE:
                yield start, directive.start
                start = directive.end
        yield start, end
    for directive, stays in waiting:
        if not stays:
            yield directive.start, directive.end
