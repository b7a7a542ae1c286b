"""The device view: the same text, every line and byte column where it was, with everything the device cannot use blank.

NVRTC compiles device code alone, with no host compiler and no C library, so ``main``, host helpers, launches and the
headers of host libraries have to go. What device code needs stays as written. User headers get views as well, and all
files are judged together: a helper in a header stays because a kernel in another file calls it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.source import headers
from gpuemu_lsp.engine.source.includes import closure, include_target, resolve
from gpuemu_lsp.engine.source.lexer import Directive, Text, blank
from gpuemu_lsp.engine.source.macros import Macros
from gpuemu_lsp.engine.source.reach import Kept, Unit, settle, take_apart

_OURS = re.compile(r"\b__CUDACC_RTC__\b")
_PRAGMA = re.compile(r"\s*(?:once|unroll|nounroll|nv_|diag_|push_macro|pop_macro|pack|hd_warning_disable|nv_exec)")
_UNREADABLE = re.compile("[\ud800-\udfff\0\ufeff]")


@dataclass(frozen=True, slots=True)
class Views:
    """A file taken apart and its device view, with those of its user headers by absolute path."""

    main: Unit
    macros: Macros
    view: str
    headers: Mapping[str, str]


def device_views(
    path: str, text: str, include_dirs: Sequence[str] = (), overlay: Mapping[str, str] | None = None
) -> Views:
    """Make the device view of a file together with its user headers.

    Parameters
    ----------
    path, text
        The file; the text need not be what is on disk.
    include_dirs
        Folders to look for headers in, as the compiler will.
    overlay
        Texts of headers that are newer than the disk's, by absolute path.
    """
    main = Text(text)
    # A header that knows NVRTC looks after itself, and what it includes with it.
    others = {
        header: content
        for header, content in closure(main, path, include_dirs, overlay or {}).items()
        if not _OURS.search(content.code + content.clean)
    }
    macros = Macros((main, *others.values()))
    units = [
        take_apart(path, main, macros),
        *(take_apart(header, content, macros) for header, content in others.items()),
    ]
    kept = settle(units, macros)
    views = {unit.path: _view(unit, kept, include_dirs) for unit in units}
    return Views(units[0], macros, views.pop(path), views)


def _view(unit: Unit, kept: Kept, include_dirs: Sequence[str]) -> str:
    text = unit.text
    spans = list(_spans(unit, kept, include_dirs))
    raw = blank(text.raw, iter(spans))
    shown = raw.encode("latin-1").decode("utf-8", "surrogatepass")
    # Neither half a UTF-16 pair nor a NUL gets through to the compiler; a byte order mark it would stumble over.
    return _UNREADABLE.sub(lambda match: " " * len(match[0].encode("utf-8", "surrogatepass")), shown)


def _spans(unit: Unit, kept: Kept, include_dirs: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield what to blank, ascending: dropped items round their directives, and directives for the host."""
    directives = [
        (directive.start, directive.end, _is_shown(unit, directive, kept, include_dirs))
        for directive in unit.text.directives
    ]
    position = 0
    for start, end in kept.dropped[unit.path]:
        while position < len(directives) and directives[position][0] < start:
            if not directives[position][2]:
                yield directives[position][:2]
            position += 1
        while position < len(directives) and directives[position][0] < end:
            first, last, shown = directives[position]
            # Conditions stay balanced wherever an item begins or ends; definitions may serve later code.
            if shown and unit.text.directives[position].kind not in ("error", "warning", "pragma"):
                yield start, first
                start = last
            position += 1
        yield start, end
    for first, last, shown in directives[position:]:
        if not shown:
            yield first, last


def _is_shown(unit: Unit, directive: Directive, kept: Kept, include_dirs: Sequence[str]) -> bool:
    if directive.kind == "pragma":
        return bool(_PRAGMA.match(directive.body))
    if directive.kind not in ("include", "include_next", "import"):
        return True
    target = include_target(unit.text, directive)
    if target is None:
        return False
    name, quoted = target
    if resolve(name, quoted, unit.path, include_dirs) is not None:
        return True
    return headers.is_device_header(name) and headers.is_wanted(name, kept.words)
