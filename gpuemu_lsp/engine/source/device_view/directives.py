"""Selection of the preprocessor directives that a device view contains."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from gpuemu_lsp.engine.source.headers import known_headers
from gpuemu_lsp.engine.source.headers.includes import include_target, resolve
from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, Directive
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.parsed_source import ParsedSource

_INCLUDES = frozenset({"include", "include_next", "import"})
_PRAGMA = re.compile(r"\s*(?:once|unroll|nounroll|nv_|diag_|push_macro|pop_macro|pack|hd_warning_disable)")
_PREDEFINED = re.compile(
    r"(?:defined|true|false|__CUDA\w*|__NVCC__|__cplusplus|__has_include|__FILE__|__LINE__|__COUNTER__)$"
)


@dataclass(frozen=True, slots=True)
class DirectiveSelection:
    """Selected directives of a file: ``shown`` has one flag per directive, in order.

    ``includes`` are the targets of the includes that stay, ``libraries`` the includes of headers that are neither
    CUDA's, nor standard, nor on disk, such as ``torch/extension.h``.
    """

    shown: tuple[bool, ...]
    includes: frozenset[str]
    libraries: tuple[Directive, ...]


def select_directives(
    file: ParsedSource,
    words: frozenset[str],
    macros: MacroTable,
    include_dirs: Sequence[str],
    rejected: Set[int] = frozenset(),
) -> DirectiveSelection:
    """Select the directives of a file.

    ``words`` are the identifiers of reachable code. Includes at the byte offsets ``rejected`` do not stay.
    """
    shown, includes = [], set()
    libraries = []
    conditions: list[bool] = []
    for directive in file.text.directives:
        _follow(conditions, directive, macros)
        if directive.kind in _INCLUDES:
            target = include_target(file.text, directive)
            compiles = not any(directive.start <= offset < directive.end for offset in rejected)
            stays = compiles and target is not None and _includes(file.path, *target, words, include_dirs)
            if target is not None and stays:
                includes.add(target[0])
            elif (
                target is not None
                and not known_headers.is_standard(target[0])
                and not known_headers.is_device_header(target[0])
            ):
                libraries.append(directive)
        elif directive.kind in ("error", "warning"):
            # Where a condition depends on a macro of the host compiler or of an omitted header, NVRTC may take a branch
            # that the real build does not.
            stays = all(conditions)
        elif directive.kind == "pragma":
            stays = bool(_PRAGMA.match(directive.body))
        else:
            # A finding stands in the document, whatever its lines were generated from.
            stays = directive.kind != "line" and not directive.kind.isdigit()
        shown.append(stays)
    return DirectiveSelection(tuple(shown), frozenset(includes), tuple(libraries))


def _includes(path: str, name: str, quoted: bool, words: frozenset[str], include_dirs: Sequence[str]) -> bool:
    if resolve(name, quoted, path, include_dirs) is not None:
        return True
    known = known_headers.is_device_header(name) or known_headers.is_torch_header(name)
    return known and known_headers.is_wanted(name, words)


def _follow(conditions: list[bool], directive: Directive, macros: MacroTable) -> None:
    """Update, for each open ``#if``, whether NVRTC has definitions of all macros in its conditions."""
    kind = directive.kind
    if kind.startswith("if"):
        conditions.append(_is_known(directive, macros))
    elif kind.startswith("elif") and conditions:
        conditions[-1] = conditions[-1] and _is_known(directive, macros)
    elif kind == "endif" and conditions:
        conditions.pop()


def _is_known(directive: Directive, macros: MacroTable) -> bool:
    words = WORD.findall(directive.body)
    return all(word in macros.definitions or _PREDEFINED.match(word) for word in words)
