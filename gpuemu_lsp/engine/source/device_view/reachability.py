"""Reachability of items from device code, over a file and its user headers together.

Roots are the items with a device specifier. From each reachable item, names are followed: an item without specifier is
reachable if reachable code mentions its name and it is not host-only. Names are compared without scope or overload
resolution, so the result is a superset of what device code uses.
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
from gpuemu_lsp.engine.source.syntax.parsed_source import ParsedSource

_MENTION = re.compile(r"(?<![\w.\x80-\xff])(?<!->)[A-Za-z_][\w\x80-\xff]*")
_CALL = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*(?:<[^<>;(){}]*>)?\s*\(")
_DEVICE_NAMESPACES = frozenset({"std", "cooperative_groups", "nvcuda", "cuda", "cub", "thrust", "cute", "cutlass"})
_GLOBAL_TOO = re.compile(
    r"(?:min|max|abs|fabs|f?mod|pow|exp\w*|log\w*|sqrt|cbrt|sin\w*|cos\w*|tan\w*|a(?:sin|cos|tan)\w*|ceil|floor|round|trunc"
    r"|rint|isnan|isinf|isfinite|signbit|hypot|fma|erfc?|[tl]gamma|fm(?:in|ax)|u?int\w*_t|size_t|ptrdiff_t|nullptr_t)$"
)
"""Names that CUDA declares in the global namespace: ``using std::min`` without ``std`` headers would be ambiguous."""
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
    """Result of the analysis.

    ``dropped`` are the unreachable items of each file as ascending byte spans, ``words`` all identifiers of the others.
    """

    dropped: Mapping[str, tuple[tuple[int, int], ...]]
    words: frozenset[str]


@dataclass(eq=False, slots=True)
class _DeclarationNode:
    """A declaration as a node of the reference graph.

    ``members`` of a class are nodes of their own, since host-only members can be dropped from a class that stays;
    ``own`` is the code without them. ``uses`` and ``calls`` are the outgoing references by name.
    """

    file: ParsedSource
    declaration: Declaration
    own: str
    uses: frozenset[str]
    calls: frozenset[str]
    members: list[_DeclarationNode] = field(default_factory=list)
    host: bool = False
    reachable: bool = False

    @property
    def is_device(self) -> bool:
        """Whether it has a device specifier."""
        return self.declaration.on_device

    def family(self) -> Iterator[_DeclarationNode]:
        """Yield this node and its members, transitively."""
        yield self
        for member in self.members:
            yield from member.family()


def reachable_code(files: Sequence[ParsedSource], macros: MacroTable) -> ReachableCode:
    """Return the items of all files that device code needs."""
    declared = {name for file in files for declaration in file.declarations for name in declaration.names}
    nodes = [_node(file, declaration, macros, declared) for file in files for declaration in file.declarations]
    index = _index(nodes)
    _propagate_host(nodes, index)
    words = _mark_reachable(nodes, index, files)
    words |= _mark_dependents(nodes, index, files)
    dropped = {file.path: tuple(_dropped(node for node in nodes if node.file is file)) for file in files}
    return ReachableCode(dropped, frozenset(words))


def _node(
    file: ParsedSource, declaration: Declaration, macros: MacroTable, declared: Set[str], in_class: bool = False
) -> _DeclarationNode:
    item, code = declaration.item, file.text.code
    inside: list[_DeclarationNode] = []
    own = code[item.start : item.end]
    if declaration.kind is DeclarationKind.TYPE and item.body is not None:
        close = closing(code, item.body)
        own = code[item.start : item.body] + code[close : item.end]
        inside = [
            _node(file, read_declaration(file.text, member, macros), macros, declared, True)
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


def _index(nodes: Iterable[_DeclarationNode]) -> dict[str, list[_DeclarationNode]]:
    """Map each name to its declarations; operators and out-of-class members are listed under their types."""
    index: dict[str, list[_DeclarationNode]] = {}
    late = []
    for node in nodes:
        declaration = node.declaration
        # Code does not name operators, and members only through an object, so the class stands for them.
        if declaration.kind is DeclarationKind.FUNCTION and (declaration.owner or not declaration.names):
            late.append(node)
            continue
        for name in declaration.names:
            index.setdefault(name, []).append(node)
    types = {
        name for name, found in index.items() if any(node.declaration.kind is DeclarationKind.TYPE for node in found)
    }
    for node in late:
        owner = node.declaration.owner
        for name in {owner} if owner else types & node.declaration.head_words:
            index.setdefault(name, []).append(node)
    return index


def _propagate_host(nodes: Sequence[_DeclarationNode], index: Mapping[str, list[_DeclarationNode]]) -> None:
    """Propagate host-only: to code without specifier that calls a host function or uses a host type, transitively."""
    everything = [node for top in nodes for node in top.family()]
    changed = True
    while changed:
        changed = False
        # A name is host-only if all of its declarations are: an overload for the device makes calls of it eligible.
        hosts = {name: found[0].declaration.kind for name, found in index.items() if all(node.host for node in found)}
        functions = {name for name, kind in hosts.items() if kind is DeclarationKind.FUNCTION}
        types = {name for name, kind in hosts.items() if kind in (DeclarationKind.TYPE, DeclarationKind.ALIAS)}
        variables = {name for name, kind in hosts.items() if kind is DeclarationKind.VARIABLE}
        for node in everything:
            if node.host or node.is_device:
                continue
            holds_host = any(member.host and member.declaration.kind not in _REMOVABLE for member in node.members)
            if (
                holds_host
                or node.calls & functions
                or node.uses & types - node.declaration.names
                or any(not _declares(node.own, name) for name in node.uses & variables)
            ):
                node.host = changed = True


def _mark_reachable(
    nodes: Sequence[_DeclarationNode], index: Mapping[str, list[_DeclarationNode]], files: Sequence[ParsedSource]
) -> set[str]:
    """Mark the roots and everything they reference; return all identifiers in it."""
    words: set[str] = set()
    waiting = [node for node in nodes if _is_root(node)]
    wanted = {word for file in files for word in _launch_words(file.text)}
    waiting += (node for word in wanted for node in index.get(word, ()) if _is_eligible(node))
    while waiting:
        node = waiting.pop()
        if node.reachable:
            continue
        for word in _mark(node):
            words.add(word)
            for found in index.get(word, ()):
                if not found.reachable and _is_eligible(found) and not _is_shadowed(word, found, node):
                    waiting.append(found)
    return words


def _is_shadowed(word: str, target: _DeclarationNode, node: _DeclarationNode) -> bool:
    """Return whether a name in a node is its own variable rather than a function without specifier."""
    return (
        target.declaration.kind is DeclarationKind.FUNCTION
        and not target.is_device
        and node.declaration.kind is DeclarationKind.FUNCTION
        and word not in node.calls
        and _declares(node.own, word)
    )


def _declares(code: str, name: str) -> bool:
    """Return whether code declares a parameter or local variable of this name."""
    pattern = rf"(?:\b(\w+)\s+|[>\]]\s*|[*&]\s*){re.escape(name)}\s*(?:[=;,)\[({{]|:(?!:))"
    return any(match[1] not in _NO_TYPES for match in re.finditer(pattern, code))


def _mark(node: _DeclarationNode) -> set[str]:
    """Mark a node and its members, except host-only ones; return the identifiers in them."""
    node.reachable = True
    words = set(node.uses)
    for member in node.members:
        if not member.host or member.declaration.kind not in _REMOVABLE:
            words |= _mark(member)
    return words


def _is_root(node: _DeclarationNode) -> bool:
    kind = node.declaration.kind
    if kind is DeclarationKind.BRACE:
        return True
    if node.host:
        # __host__ __device__ with host-only contents: nvcc diagnoses it only where device code calls it.
        return False
    if node.is_device:
        return True
    if kind is DeclarationKind.TYPE:
        # A functor: often device code reaches it only as a template argument that host code names.
        return any(EXECUTION_SPACE_WORDS & inner.uses for inner in node.family())
    return kind is DeclarationKind.INVOCATION and bool(EXECUTION_SPACE_WORDS & node.uses)


def _is_eligible(node: _DeclarationNode) -> bool:
    declaration = node.declaration
    if node.is_device:
        return True
    if node.host:
        return False
    if declaration.kind is DeclarationKind.FUNCTION:
        # A prototype follows its definition (_mark_dependents); alone it would be an unresolved external function.
        return declaration.item.body is not None
    return declaration.kind in (
        DeclarationKind.TYPE,
        DeclarationKind.ALIAS,
        DeclarationKind.VARIABLE,
        DeclarationKind.INVOCATION,
    )


def _mark_dependents(
    nodes: Sequence[_DeclarationNode], index: Mapping[str, list[_DeclarationNode]], files: Sequence[ParsedSource]
) -> set[str]:
    """Mark prototypes, using directives and static assertions whose references are all reachable."""
    scopes = {part for file in files for item in file.items.items for name in item.scope for part in name.split("::")}
    reachable_names = {name for node in nodes if node.reachable for name in node.declaration.names}
    words = {word for node in nodes if node.reachable for word in node.uses}
    added: set[str] = set()
    for node in nodes:
        declaration = node.declaration
        if node.reachable or node.host:
            continue
        if declaration.kind is DeclarationKind.FUNCTION:
            stays = declaration.item.body is None and bool(declaration.names & reachable_names)
        elif declaration.kind is DeclarationKind.USING:
            stays = _using_stays(node.own, words, scopes)
        elif declaration.kind is DeclarationKind.INSTANTIATION:
            stays = False
        elif declaration.kind is DeclarationKind.ASSERTION:
            stays = "std" not in node.uses and all(word not in index or word in reachable_names for word in node.uses)
        else:
            stays = False
        if stays:
            added |= _mark(node)
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
    """Yield the identifiers in template arguments of launches, which instances of kernels are made from."""
    for match in re.finditer(r">\s*<<<", text.code):
        start = opening_angle(text.code, match.start() + 1)
        if start is not None:
            yield from _MENTION.findall(text.code[start : match.start()])


def _dropped(nodes: Iterable[_DeclarationNode]) -> Iterator[tuple[int, int]]:
    for node in nodes:
        if not node.reachable:
            yield node.declaration.item.start, node.declaration.item.end
        else:
            yield from _dropped(node.members)
