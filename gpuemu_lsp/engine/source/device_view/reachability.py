"""Which items the device code of a file and its headers needs.

Roots are everything marked for the device. From there names are followed: an unmarked helper, constant or type stays
when kept code mentions its name and it does nothing that only a host can. Names are compared without regard to scope,
so this errs towards keeping.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from gpuemu_lsp.engine.source.device_view.host_only import is_host_only
from gpuemu_lsp.engine.source.preprocessor.lexer import SourceText, closing, opening_angle
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.declarations import (
    EXECUTION_SPACE_WORDS,
    Declaration,
    DeclarationKind,
    read_declaration,
)
from gpuemu_lsp.engine.source.syntax.items import class_members
from gpuemu_lsp.engine.source.syntax.parsed_file import ParsedFile

_MENTION = re.compile(r"(?<![\w.\x80-\xff])(?<!->)[A-Za-z_][\w\x80-\xff]*")
_CALL = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*(?:<[^<>;(){}]*>)?\s*\(")
_DEVICE_NAMESPACES = frozenset({"std", "cooperative_groups", "nvcuda", "cuda", "cub", "thrust", "cute", "cutlass"})
_GLOBAL_TOO = re.compile(
    r"(?:min|max|abs|fabs|f?mod|pow|exp\w*|log\w*|sqrt|cbrt|sin\w*|cos\w*|tan\w*|a(?:sin|cos|tan)\w*|ceil|floor|round|trunc"
    r"|rint|isnan|isinf|isfinite|signbit|hypot|fma|erfc?|[tl]gamma|fm(?:in|ax)|u?int\w*_t|size_t|ptrdiff_t|nullptr_t)$"
)
_NO_TYPES = frozenset({"return", "else", "goto", "case", "throw", "delete", "new", "sizeof", "do"})
_REMOVABLE = frozenset(
    {
        DeclarationKind.FUNCTION,
        DeclarationKind.ALIAS,
        DeclarationKind.TYPE,
        DeclarationKind.USING,
        DeclarationKind.ASSERTION,
    }
)


@dataclass(frozen=True, slots=True)
class ReachableCode:
    """What stays: ``dropped`` are the other pieces of each file, ascending; ``words`` all identifiers of kept code."""

    dropped: Mapping[str, tuple[tuple[int, int], ...]]
    words: frozenset[str]


@dataclass(eq=False, slots=True)
class _DeclarationNode:
    """A declaration to keep or drop. ``members`` of a class can be dropped alone; ``own`` is its code without them."""

    file: ParsedFile
    declaration: Declaration
    own: str
    uses: frozenset[str]
    calls: frozenset[str]
    members: list[_DeclarationNode] = field(default_factory=list)
    host: bool = False
    kept: bool = False

    @property
    def marked(self) -> bool:
        """Whether it is meant for the device, whatever it does."""
        return self.declaration.on_device

    def family(self) -> Iterator[_DeclarationNode]:
        """Yield this piece and all members in it."""
        yield self
        for member in self.members:
            yield from member.family()


def reachable_code(files: Sequence[ParsedFile], macros: MacroTable) -> ReachableCode:
    """Decide for every item of every file whether the device view shows it."""
    declared = {name for file in files for declaration in file.declarations for name in declaration.names}
    pieces = [_piece(file, declaration, macros, declared) for file in files for declaration in file.declarations]
    index = _index(pieces)
    _spread_host(pieces, index)
    words = _follow(pieces, index, files)
    words |= _settle_rest(pieces, index, files)
    dropped = {file.path: tuple(_dropped(piece for piece in pieces if piece.file is file)) for file in files}
    return ReachableCode(dropped, frozenset(words))


def _piece(
    file: ParsedFile, declaration: Declaration, macros: MacroTable, declared: Set[str], in_class: bool = False
) -> _DeclarationNode:
    item, code = declaration.item, file.text.code
    inside: list[_DeclarationNode] = []
    own = code[item.start : item.end]
    if declaration.kind is DeclarationKind.TYPE and item.body is not None:
        close = closing(code, item.body)
        own = code[item.start : item.body] + code[close : item.end]
        inside = [
            _piece(file, read_declaration(file.text, member, macros), macros, declared, True)
            for member in class_members(file.text, macros, item.body, close)
        ]
    uses = macros.expand(_MENTION.findall(own))
    calls = macros.expand(_CALL.findall(own))
    if declaration.kind is DeclarationKind.VARIABLE and not declaration.on_device and not in_class:
        # Device code cannot read a host variable unless it is a constant.
        host = not {"const", "constexpr"} & declaration.head_words or is_host_only(own, uses, calls, declared)
        return _DeclarationNode(file, declaration, own, uses, calls, inside, host)
    host = declaration.host_only or (not declaration.device_only and is_host_only(own, uses, calls, declared))
    return _DeclarationNode(file, declaration, own, uses, calls, inside, host)


def _index(pieces: Iterable[_DeclarationNode]) -> dict[str, list[_DeclarationNode]]:
    """Map each name to what declares it; operators and members defined outside stand under their types."""
    index: dict[str, list[_DeclarationNode]] = {}
    late = []
    for piece in pieces:
        declaration = piece.declaration
        if declaration.kind is DeclarationKind.FUNCTION and (declaration.owner or not declaration.names):
            late.append(piece)
            continue
        for name in declaration.names:
            index.setdefault(name, []).append(piece)
    types = {
        name for name, found in index.items() if any(piece.declaration.kind is DeclarationKind.TYPE for piece in found)
    }
    for piece in late:
        owner = piece.declaration.owner
        for name in {owner} if owner else types & piece.declaration.head_words:
            index.setdefault(name, []).append(piece)
    return index


def _spread_host(pieces: Sequence[_DeclarationNode], index: Mapping[str, list[_DeclarationNode]]) -> None:
    """Make unmarked code host code when it calls a host function or holds a host type, to any depth."""
    everything = [piece for top in pieces for piece in top.family()]
    changed = True
    while changed:
        changed = False
        hosts = {name: found[0].declaration.kind for name, found in index.items() if all(piece.host for piece in found)}
        functions = {name for name, kind in hosts.items() if kind is DeclarationKind.FUNCTION}
        types = {name for name, kind in hosts.items() if kind in (DeclarationKind.TYPE, DeclarationKind.ALIAS)}
        variables = {name for name, kind in hosts.items() if kind is DeclarationKind.VARIABLE}
        for piece in everything:
            if piece.host or piece.marked:
                continue
            holds_host = any(member.host and member.declaration.kind not in _REMOVABLE for member in piece.members)
            if (
                holds_host
                or piece.calls & functions
                or piece.uses & types - piece.declaration.names
                or any(not _declares(piece.own, name) for name in piece.uses & variables)
            ):
                piece.host = changed = True


def _follow(
    pieces: Sequence[_DeclarationNode], index: Mapping[str, list[_DeclarationNode]], files: Sequence[ParsedFile]
) -> set[str]:
    """Keep the roots and what they mention."""
    words: set[str] = set()
    waiting = [piece for piece in pieces if _is_root(piece)]
    wanted = {word for file in files for word in _launch_words(file.text)}
    waiting += (piece for word in wanted for piece in index.get(word, ()) if _can_stay(piece))
    while waiting:
        piece = waiting.pop()
        if piece.kept:
            continue
        for word in _keep(piece):
            words.add(word)
            for found in index.get(word, ()):
                if not found.kept and _can_stay(found) and not _is_shadowed(word, found, piece):
                    waiting.append(found)
    return words


def _is_shadowed(word: str, target: _DeclarationNode, piece: _DeclarationNode) -> bool:
    """Say whether a name in a piece is its own variable rather than an unmarked function of the file."""
    return (
        target.declaration.kind is DeclarationKind.FUNCTION
        and not target.marked
        and piece.declaration.kind is DeclarationKind.FUNCTION
        and word not in piece.calls
        and _declares(piece.own, word)
    )


def _declares(code: str, name: str) -> bool:
    """Say whether code declares a parameter or a local variable of this name."""
    pattern = rf"(?:\b(\w+)\s+|[>\]]\s*|[*&]\s*){re.escape(name)}\s*(?:[=;,)\[({{]|:(?!:))"
    return any(match[1] not in _NO_TYPES for match in re.finditer(pattern, code))


def _keep(piece: _DeclarationNode) -> set[str]:
    """Keep a piece with the members it can keep; return the identifiers in them."""
    piece.kept = True
    words = set(piece.uses)
    for member in piece.members:
        if not member.host or member.declaration.kind not in _REMOVABLE:
            words |= _keep(member)
    return words


def _is_root(piece: _DeclarationNode) -> bool:
    kind = piece.declaration.kind
    if kind is DeclarationKind.BRACE:
        return True
    if piece.host:
        # Marked for both sides, but with something only a host can do: nvcc minds only where device code calls it.
        return False
    if piece.marked:
        return True
    if kind is DeclarationKind.TYPE:
        # A functor: kernels often get it only as a template argument, somewhere in host code.
        return any(EXECUTION_SPACE_WORDS & inner.uses for inner in piece.family())
    return kind is DeclarationKind.INVOCATION and bool(EXECUTION_SPACE_WORDS & piece.uses)


def _can_stay(piece: _DeclarationNode) -> bool:
    declaration = piece.declaration
    if piece.marked:
        return True
    if piece.host:
        return False
    if declaration.kind is DeclarationKind.FUNCTION:
        return declaration.item.body is not None
    return declaration.kind in (
        DeclarationKind.TYPE,
        DeclarationKind.ALIAS,
        DeclarationKind.VARIABLE,
        DeclarationKind.INVOCATION,
    )


def _settle_rest(
    pieces: Sequence[_DeclarationNode], index: Mapping[str, list[_DeclarationNode]], files: Sequence[ParsedFile]
) -> set[str]:
    """Keep prototypes, using directives and assertions when all they need has stayed."""
    scopes = {part for file in files for item in file.items.items for name in item.scope for part in name.split("::")}
    kept_names = {name for piece in pieces if piece.kept for name in piece.declaration.names}
    words = {word for piece in pieces if piece.kept for word in piece.uses}
    added: set[str] = set()
    for piece in pieces:
        declaration = piece.declaration
        if piece.kept or piece.host:
            continue
        if declaration.kind is DeclarationKind.FUNCTION:
            stays = declaration.item.body is None and bool(declaration.names & kept_names)
        elif declaration.kind is DeclarationKind.USING:
            stays = _using_stays(piece.own, words, scopes)
        elif declaration.kind is DeclarationKind.INSTANTIATION:
            stays = False
        elif declaration.kind is DeclarationKind.ASSERTION:
            stays = "std" not in piece.uses and all(word not in index or word in kept_names for word in piece.uses)
        else:
            stays = False
        if stays:
            added |= _keep(piece)
    return added


def _using_stays(code: str, words: set[str], scopes: set[str]) -> bool:
    alias = re.match(r"namespace\s+(\w+)\s*=\s*(?:::)?\s*(\w+)", code)
    if alias:
        return alias[1] in words and alias[2] in scopes | _DEVICE_NAMESPACES
    directive = re.match(r"using\s+(namespace\s+)?(?:::)?\s*(\w+)", code)
    if directive is None:
        return False
    if directive[1]:
        return directive[2] in scopes | _DEVICE_NAMESPACES or directive[2] in words
    name = _MENTION.findall(code)[-1]
    if directive[2] == "std" and _GLOBAL_TOO.match(name):
        return False
    return name in words and directive[2] in scopes | _DEVICE_NAMESPACES


def _launch_words(text: SourceText) -> Iterator[str]:
    """Yield the identifiers in the template arguments of launches: types and constants that instances need."""
    for match in re.finditer(r">\s*<<<", text.code):
        start = opening_angle(text.code, match.start() + 1)
        if start is not None:
            yield from _MENTION.findall(text.code[start : match.start()])


def _dropped(pieces: Iterable[_DeclarationNode]) -> Iterator[tuple[int, int]]:
    for piece in pieces:
        if not piece.kept:
            yield piece.declaration.item.start, piece.declaration.item.end
        else:
            yield from _dropped(piece.members)
