"""Device views of a file and its user headers. The package docstring explains the construction."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from gpuemu_lsp.engine.source.device_view.directives import DirectiveSelection, select_directives
from gpuemu_lsp.engine.source.device_view.file_scope import file_scope_names
from gpuemu_lsp.engine.source.device_view.reachability import (
    ReachableCode,
    ReferenceGraph,
    reachable_code,
    reference_graph,
)
from gpuemu_lsp.engine.source.headers import known_headers
from gpuemu_lsp.engine.source.headers.includes import closure, includes, resolve_line
from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.preprocessor.conditions import defines, inactive_regions
from gpuemu_lsp.engine.source.preprocessor.lexer import SourceText, blank, source_text
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable, macro_table
from gpuemu_lsp.engine.source.syntax.parsed_source import ParsedSource, parse_source

_OURS = re.compile(r"\b__CUDACC_RTC__\b")
_UNREADABLE = re.compile("[\ud800-\udfff\0\ufeff]")
_ONLY_WITH_CODE = frozenset({"error", "warning", "pragma"})


@dataclass(frozen=True, eq=False)
class DeviceViews:
    """Device views of a file and its user headers, which are made when they are first asked for.

    ``files`` are the parsed file and then its headers, ``rejected`` the byte offsets, by file, of what counts as host
    code. ``kernels`` are the names of the kernels that ``whole`` is reduced to; by default the views have all.
    """

    files: tuple[ParsedSource, ...]
    macros: MacroTable
    include_dirs: tuple[str, ...]
    rejected: Mapping[str, Set[int]] = field(default_factory=dict)
    kernels: frozenset[str] | None = None
    whole: DeviceViews | None = None

    @property
    def view(self) -> str:
        """The view of the file."""
        return self._texts[self.files[0].path]

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The views of the headers by absolute path."""
        return {file.path: self._texts[file.path] for file in self.files[1:]}

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of file scope that device code may use."""
        return file_scope_names(self.files, self._reachable, self.macros)

    @cached_property
    def _graph(self) -> ReferenceGraph:
        return self.whole._graph if self.whole is not None else reference_graph(self.files, self.macros, self.rejected)

    @cached_property
    def _reachable(self) -> ReachableCode:
        return reachable_code(self._graph, self.kernels)

    @cached_property
    def _texts(self) -> dict[str, str]:
        nothing: frozenset[int] = frozenset()
        words = self._reachable.words
        selections = {
            file.path: select_directives(
                file, words, self.macros, self.include_dirs, self.rejected.get(file.path, nothing)
            )
            for file in self.files
        }
        replacements = _replacements(self._reachable, selections)
        return {
            file.path: _view(file, self._reachable, selections[file.path].shown, replacements[file.path])
            for file in self.files
        }


def device_views(
    path: str,
    text: str,
    include_dirs: Sequence[str] = (),
    overlay: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> DeviceViews:
    """Return the device views of a file and its user headers.

    Parameters
    ----------
    path, text
        The file and its text, which may differ from the file on disk.
    include_dirs
        Directories to search for headers, the same as the compiler's.
    overlay
        Texts of headers by absolute path, used in place of the files on disk.
    options
        Compile options, of which ``-D`` and ``-U`` are used.
    """
    main = source_text(text)
    headers = closure(main, path, include_dirs, overlay or {})
    resolved = tuple(
        include.resolved
        for name, content in ((path, main), *headers.items())
        for include in includes(content, name, include_dirs)
    )
    contents = tuple((header, content.raw) for header, content in headers.items())
    key = path, text, tuple(include_dirs), tuple(options), contents, resolved
    return _known_views.get(key, lambda: _device_views(path, main, headers, include_dirs, options))


# A check reads a file once for each of its kernels, and for each stage of the check, with the files that launch them.
_known_views: Memo[DeviceViews] = Memo(16)


def _device_views(
    path: str, main: SourceText, headers: Mapping[str, SourceText], include_dirs: Sequence[str], options: Sequence[str]
) -> DeviceViews:
    # A header that tests __CUDACC_RTC__ supports NVRTC and is compiled as it is on disk.
    others = {header: content for header, content in headers.items() if not _OURS.search(content.code + content.clean)}
    dead = inactive_regions(path, main, others, defines(options), partial(resolve_line, include_dirs=include_dirs))
    main = main.without(dead[path])
    others = {header: content.without(dead.get(header, ())) for header, content in others.items()}
    macros = macro_table((main, *others.values()))
    files = (
        parse_source(path, main, macros),
        *(parse_source(header, content, macros) for header, content in others.items()),
    )
    return DeviceViews(files, macros, tuple(include_dirs))


def without_rejected(views: DeviceViews, rejected: Mapping[str, Set[int]]) -> DeviceViews:
    """Return the views without what a compiler for devices has rejected, as far as it can be host code.

    ``rejected`` are the byte offsets of its errors by file. An include of a library is left out, and code without a
    device specifier counts as host-only, with all that depends on it.
    """
    return replace(views, rejected={path: frozenset(found) for path, found in rejected.items()}, whole=None)


def of_kernels(views: DeviceViews, names: Set[str]) -> DeviceViews:
    """Return the views without the other kernels, and without what only these need.

    ``names`` are those of the kernels without scope. A kernel that one of them launches stays.
    """
    return replace(views, kernels=frozenset(names), whole=views)


def _replacements(reachable: ReachableCode, selections: Mapping[str, DirectiveSelection]) -> dict[str, dict[int, str]]:
    """Return includes of CUDA headers to write over omitted includes of libraries, by path and byte offset.

    ``cublas_v2.h`` includes ``cuda_fp16.h``, so device code may use ``__half`` without naming its header. The new
    directive has to fit into the old one, because no column may move.
    """
    shown = frozenset[str]().union(*(selection.includes for selection in selections.values()))
    wanted = deque(f"#include<{header}>" for header in known_headers.implied(reachable.words, shown))
    found: dict[str, dict[int, str]] = {path: {} for path in selections}
    for path, selection in selections.items():
        for directive in selection.libraries:
            if wanted and len(wanted[0]) <= directive.end - directive.start:
                found[path][directive.start] = wanted.popleft()
    return found


def _view(file: ParsedSource, reachable: ReachableCode, shown: Sequence[bool], replacements: Mapping[int, str]) -> str:
    raw = blank(file.text.raw, _spans(file, reachable, shown))
    for start, line in replacements.items():
        raw = raw[:start] + line + raw[start + len(line) :]
    if raw.isascii() and "\0" not in raw:
        return raw
    view = raw.encode("latin-1").decode("utf-8", "surrogatepass")
    # NVRTC takes a C string in UTF-8: surrogates and NUL cannot be passed, and it rejects a byte order mark inside.
    return _UNREADABLE.sub(lambda match: " " * len(match[0].encode("utf-8", "surrogatepass")), view)


def _spans(file: ParsedSource, reachable: ReachableCode, shown: Sequence[bool]) -> Iterator[tuple[int, int]]:
    """Yield the spans to blank in ascending order: unreachable items without their directives, omitted directives."""
    waiting = deque(zip(file.text.directives, shown, strict=True))
    for start, end in reachable.dropped[file.path]:
        while waiting and waiting[0][0].start < start:
            directive, stays = waiting.popleft()
            if not stays:
                yield directive.start, directive.end
        while waiting and waiting[0][0].start < end:
            directive, stays = waiting.popleft()
            # A conditional may begin inside a dropped item and end outside of it, and later code may use a definition.
            if stays and directive.kind not in _ONLY_WITH_CODE:
                yield start, directive.start
                start = directive.end
        yield start, end
    for directive, stays in waiting:
        if not stays:
            yield directive.start, directive.end
