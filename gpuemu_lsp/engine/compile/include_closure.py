"""Which of the user's headers a text pulls in, and through which line.

NVRTC neither lists the headers it read nor prints include chains, so the directives are read here. Only what stands
literally in a directive is followed; an ``#include MACRO`` is left to NVRTC.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.findings import Place, Range

_DIRECTIVE = re.compile(
    r"^[ \t]*#[ \t]*(?:(?P<conditional>ifndef|ifdef|if)\b|(?P<end>endif)\b|(?P<define>define)[ \t]+(?P<macro>\w+)"
    r'|include[ \t]*(?:"(?P<quoted>[^"\n]+)"|<(?P<angled>[^>\n]+)>|(?P<computed>\w+)))',
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class IncludeDirective:
    """One ``#include``. ``range`` spans the target with its quotes; ``unconditional``: outside every ``#if``."""

    target: str
    quoted: bool
    range: Range
    unconditional: bool


@dataclass(frozen=True, slots=True)
class DirectiveSummary:
    """The directives of one text that matter here; ``computed`` says that some include names a macro."""

    includes: tuple[IncludeDirective, ...]
    macros: frozenset[str]
    computed: bool


@dataclass(frozen=True, slots=True)
class IncludeClosure:
    """Every user header that a source reaches, in the order of first inclusion.

    ``texts`` is by absolute path, the source itself first. ``included_at`` leads from a header to the directive that
    reaches it first. ``foreign`` are the directives that lead to no user header: CUDA's, standard and missing ones.
    ``through`` are the include folders that some header was found in, ``own_names`` the targets that led to one.
    """

    texts: Mapping[str, str]
    included_at: Mapping[str, Place]
    foreign: tuple[tuple[IncludeDirective, Place], ...]
    macros: frozenset[str]
    computed: bool = False
    through: frozenset[str] = frozenset()
    own_names: frozenset[str] = frozenset()


def outline(text: str) -> DirectiveSummary:
    """Read the preprocessor directives of ``text``. Columns are UTF-8 bytes."""
    includes: list[IncludeDirective] = []
    macros: set[str] = set()
    computed, depth, first = False, 0, True
    for match in _DIRECTIVE.finditer(text):
        if match["conditional"]:
            # An include guard is no condition: `#ifndef` as the very first directive.
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


def closure(path: str, text: str, include_dirs: Sequence[str], views: Mapping[str, str]) -> IncludeClosure:
    """Follow the includes of ``text`` through the user's headers.

    ``views`` are texts to take instead of the files on disk, by absolute path. Headers that cannot be read are foreign.
    """
    texts = {path: text}
    included_at: dict[str, Place] = {}
    foreign: list[tuple[IncludeDirective, Place]] = []
    macros: set[str] = set()
    through: set[str] = set()
    own_names: set[str] = set()
    computed = False
    pending = [path]
    while pending:
        current = pending.pop(0)
        found = outline(texts[current])
        macros |= found.macros
        computed = computed or found.computed
        for directive in found.includes:
            place = Place(current, directive.range)
            folder, header, content = _resolve(directive, current, include_dirs, views)
            if header is None or content is None:
                foreign.append((directive, place))
                continue
            own_names.add(directive.target)
            if folder is not None:
                through.add(folder)
            if header not in texts:
                texts[header] = content
                included_at[header] = place
                pending.append(header)
    return IncludeClosure(
        texts, included_at, tuple(foreign), frozenset(macros), computed, frozenset(through), frozenset(own_names)
    )


def _resolve(
    directive: IncludeDirective, includer: str, include_dirs: Sequence[str], views: Mapping[str, str]
) -> tuple[str | None, str | None, str | None]:
    """Return the include folder (None: the includer's own), the header's absolute path and its text."""
    folders: list[str | None] = [None] if directive.quoted else []
    for folder in (*folders, *include_dirs):
        header = _absolute(Path(folder or Path(includer).parent) / directive.target)
        content = views.get(header)
        if content is None:
            content = read_text(header)
        if content is not None:
            return folder, header, content
    # Builds give the compiler the sources' own folders, too; what is meant there has a view.
    beside = str(Path(includer).parent)
    header = _absolute(Path(beside) / directive.target)
    return (beside, header, views[header]) if header in views else (None, None, None)


def _absolute(path: Path) -> str:
    """Fold ``..`` away without following links: the compiler and the user know the file by this name."""
    parts: list[str] = []
    for part in path.parts:
        if part == ".." and len(parts) > 1:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return Path(*parts).as_posix()


def read_text(path: str) -> str | None:
    """Return a file's text, None if it cannot be read. What is not UTF-8 becomes replacement characters."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return None


def _range(text: str, start: int, end: int) -> Range:
    line_start = text.rfind("\n", 0, start) + 1
    line = text.count("\n", 0, line_start)
    column = len(text[line_start:start].encode(errors="replace"))
    return Range.of(line, column, line, column + len(text[start:end].encode(errors="replace")))
