"""Transitive closure of a text's includes over the user's headers, with the directive that reaches each.

NVRTC reports neither the headers it read nor include chains, so the directives are read here. A computed include
(``#include MACRO``) is not followed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.regular_file import readable_text
from gpuemu_lsp.engine.source.headers.hip import FOLDER as HIP_FOLDER
from gpuemu_lsp.engine.source.headers.hip import hip_header
from gpuemu_lsp.engine.source.headers.known_headers import is_torch_header

_DIRECTIVE = re.compile(
    r"^[ \t]*#[ \t]*(?:(?P<conditional>ifndef|ifdef|if)\b|(?P<end>endif)\b|(?P<define>define)[ \t]+(?P<macro>\w+)"
    r'|include[ \t]*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>|(?P<computed>\w+)))',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class IncludeDirective:
    """One ``#include``; ``range`` is its target with the quotes, ``unconditional`` means outside of every ``#if``."""

    target: str
    quoted: bool
    range: Range
    unconditional: bool


@dataclass(frozen=True, slots=True)
class DirectiveSummary:
    """Includes and defined macros of one text; ``computed`` if an include names a macro."""

    includes: tuple[IncludeDirective, ...]
    macros: frozenset[str]
    computed: bool


@dataclass(frozen=True, slots=True)
class IncludeClosure:
    """The user headers that a source includes, directly or not, in the order of first inclusion.

    ``texts`` is by absolute path, the source first. ``included_at`` maps a header to the first directive that includes
    it. ``foreign`` are the directives that resolve to no user header: CUDA's, standard and missing ones.
    ``search_dirs`` are the include directories in which headers were found, ``user_targets`` the targets that resolved.
    """

    texts: Mapping[str, str]
    included_at: Mapping[str, Place]
    foreign: tuple[tuple[IncludeDirective, Place], ...]
    macros: frozenset[str]
    computed: bool = False
    search_dirs: frozenset[str] = frozenset()
    user_targets: frozenset[str] = frozenset()


@lru_cache(maxsize=16)
def scan_directives(text: str) -> DirectiveSummary:
    """Return the includes and macros of a text; columns are UTF-8 bytes."""
    includes: list[IncludeDirective] = []
    macros: set[str] = set()
    computed, depth, first = False, 0, True
    for match in _DIRECTIVE.finditer(text):
        if match["conditional"]:
            # `#ifndef` as the first directive is an include guard, not a condition.
            depth += not (first and match["conditional"] == "ifndef")
        elif match["end"]:
            depth = max(depth - 1, 0)
        elif match["define"]:
            macros.add(match["macro"])
        elif match["computed"]:
            computed = True
        else:
            group = "quoted" if match["quoted"] else "angled"
            span = _range(text, match.start(group) - 1, match.end(group) + 1)
            includes.append(IncludeDirective(match[group].strip(), group == "quoted", span, depth == 0))
        first = False
    return DirectiveSummary(tuple(includes), frozenset(macros), computed)


def user_includes(path: str, text: str, include_dirs: Sequence[str], views: Mapping[str, str]) -> IncludeClosure:
    """Follow the includes of ``text`` through the user's headers.

    ``views`` are texts by absolute path, used in place of the files on disk. Headers that cannot be read are foreign.
    """
    texts = {path: text}
    included_at: dict[str, Place] = {}
    foreign: list[tuple[IncludeDirective, Place]] = []
    macros: set[str] = set()
    search_dirs: set[str] = set()
    user_targets: set[str] = set()
    computed = False
    pending = [path]
    while pending:
        current = pending.pop(0)
        found = scan_directives(texts[current])
        macros |= found.macros
        computed = computed or found.computed
        for directive in found.includes:
            place = Place(current, directive.range)
            folder, header, content = _resolve(directive, current, include_dirs, views)
            if header is None or content is None:
                foreign.append((directive, place))
                continue
            user_targets.add(directive.target)
            if folder is not None:
                search_dirs.add(folder)
            if header not in texts:
                texts[header] = content
                included_at[header] = place
                pending.append(header)
    return IncludeClosure(
        texts, included_at, tuple(foreign), frozenset(macros), computed, frozenset(search_dirs), frozenset(user_targets)
    )


def _resolve(
    directive: IncludeDirective, includer: str, include_dirs: Sequence[str], views: Mapping[str, str]
) -> tuple[str | None, str | None, str | None]:
    """Return the include directory (None for the includer's own), absolute path and text of a header."""
    ours = hip_header(directive.target)
    if ours is not None:
        return HIP_FOLDER.as_posix(), ours, views.get(ours) or readable_text(ours)
    folders: list[str | None] = [None] if directive.quoted else []
    if is_torch_header(directive.target):
        include_dirs = ()  # the device-usable part of PyTorch's headers is in memory
    for folder in (*folders, *include_dirs):
        header = _absolute(Path(folder or Path(includer).parent) / directive.target)
        content = views.get(header)
        if content is None:
            content = readable_text(header)
        if content is not None:
            return folder, header, content
    # Package `source` also resolves angled includes in the source's own directory; such headers have a view.
    own = str(Path(includer).parent)
    header = _absolute(Path(own) / directive.target)
    return (own, header, views[header]) if header in views else (None, None, None)


def _absolute(path: Path) -> str:
    """Remove ``..`` lexically, without resolving symbolic links, so that the path is the one the user wrote."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and len(parts) > 1:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return Path(*parts).as_posix()


def _range(text: str, start: int, end: int) -> Range:
    line_start = text.rfind("\n", 0, start) + 1
    line = text.count("\n", 0, line_start)
    column = len(text[line_start:start].encode(errors="replace"))
    return Range.of(line, column, line, column + len(text[start:end].encode(errors="replace")))
