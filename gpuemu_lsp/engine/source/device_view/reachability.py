"""Reachability of items from device code, over a file and its user headers together.

Roots are the items with a device specifier. From each reachable item, names are followed: an item without specifier is
reachable if reachable code mentions its name and it is not host-only. Names are compared without scope or overload
resolution, so the result is a superset of what device code uses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from types import MappingProxyType

from gpuemu_lsp.engine.source.device_view.nodes import MENTION, DeclarationNode, declaration_nodes
from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.preprocessor.lexer import SourceText, opening_angle
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.declarations import (
    EXECUTION_SPACE_WORDS,
    DeclarationKind,
)
from gpuemu_lsp.engine.source.syntax.parsed_source import ParsedSource

_FUNCTION_VALUE = re.compile(r"=\s*&?\s*[A-Za-z_][\w:]*<([^;{}]*)>\s*;")
_FUNCTION_ADDRESS = re.compile(r"(?<!&)&\s*[A-Za-z_][\w:]*<([^;{}&]*)>\s*[;:,)]")
_ALIAS = re.compile(r"\busing\s+(\w+)\s*=\s*([^;{}]*<[^;{}]*);")
_DEVICE_NAMESPACES = frozenset({"std", "cooperative_groups", "nvcuda", "cuda", "cub", "thrust", "cute", "cutlass"})
_GLOBAL_TOO = re.compile(
    r"(?:min|max|abs|fabs|f?mod|pow|exp\w*|log\w*|sqrt|cbrt|sin\w*|cos\w*|tan\w*|a(?:sin|cos|tan)\w*|ceil|floor|round|trunc"
    r"|rint|isnan|isinf|isfinite|signbit|hypot|fma|erfc?|[tl]gamma|fm(?:in|ax)|u?int\w*_t|size_t|ptrdiff_t|nullptr_t)$"
)
"""Names that CUDA declares in the global namespace: ``using std::min`` without ``std`` headers would be ambiguous."""
_BUILT_IN = frozenset(
    {
        "static_assert", "sizeof", "alignof", "decltype", "void", "bool", "char", "short", "int", "long", "signed",
        "unsigned", "float", "double", "const", "true", "false", "nullptr", "and", "or", "not",
    }
)  # fmt: skip
"""Words of an assertion that each compiler knows."""
_SPECIALISATION = re.compile(r"template\s*<\s*>")
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


_known_locals: Memo[bool] = Memo(1 << 14)


@dataclass(frozen=True, slots=True, eq=False)
class ReferenceGraph:
    """The declarations of some files, each decided to be host-only or not; ``index`` has them by name."""

    files: tuple[ParsedSource, ...]
    nodes: tuple[DeclarationNode, ...]
    index: Mapping[str, Sequence[DeclarationNode]]


def reference_graph(
    files: Sequence[ParsedSource], macros: MacroTable, rejected: Mapping[str, Set[int]] = MappingProxyType({})
) -> ReferenceGraph:
    """Return the declarations of files, those that are host-only marked.

    ``rejected`` are byte offsets, by file, at which a compiler for devices has found errors: what is there and has no
    device specifier counts as host code.
    """
    declared = {name for file in files for declaration in file.declarations for name in declaration.names}
    nodes = tuple(node for file in files for node in declaration_nodes(file, macros, declared))
    index = _index(nodes)
    for node in nodes:
        for offset in rejected.get(node.path, ()):
            _reject(node, offset, index.keys() | _BUILT_IN)
    _propagate_host(nodes, index)
    return ReferenceGraph(tuple(files), nodes, index)


def reachable_code(graph: ReferenceGraph, kernels: Set[str] | None = None) -> ReachableCode:
    """Return the items that device code needs; ``kernels`` are the names of those that are roots, by default all."""
    search = _Search(graph)
    words = search.mark_reachable(kernels) | search.mark_dependents()
    dropped: dict[str, tuple[tuple[int, int], ...]] = {}
    for file in graph.files:
        dropped[file.path] = tuple(search.dropped(node for node in graph.nodes if node.path == file.path))
    return ReachableCode(dropped, frozenset(words))


def _index(nodes: Iterable[DeclarationNode]) -> dict[str, list[DeclarationNode]]:
    """Map each name to its declarations; operators and out-of-class members are listed under their types."""
    index: dict[str, list[DeclarationNode]] = {}
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


def _reject(node: DeclarationNode, offset: int, names: Set[str]) -> None:
    """Make the innermost declaration at an offset that can be dropped host-only.

    An assertion of which all ``names`` are known does not hold: that is an error for each compiler.
    """
    kind = node.declaration.kind
    if not node.is_at(offset) or kind is DeclarationKind.BRACE:
        return
    if kind is DeclarationKind.ASSERTION and node.uses <= names:
        return
    for member in node.members:
        if member.is_at(offset) and member.declaration.kind in _REMOVABLE:
            _reject(member, offset, names)
            return
    # Without a specialisation, the primary template would take its place.
    if not any(inner.is_device for inner in node.family()) and not _SPECIALISATION.match(node.own):
        node.host = True


def _propagate_host(nodes: Sequence[DeclarationNode], index: Mapping[str, Sequence[DeclarationNode]]) -> None:
    """Propagate host-only: to code without specifier that calls a host function or uses a host type, transitively."""
    undecided = [node for top in nodes for node in top.family() if not node.host and not node.is_device]
    known: set[str] = set()
    while True:
        # A name is host-only if all of its declarations are: an overload for the device makes calls of it eligible.
        names = {name for name, found in index.items() if name not in known and all(node.host for node in found)}
        kinds = {name: index[name][0].declaration.kind for name in names}
        functions = {name for name, kind in kinds.items() if kind is DeclarationKind.FUNCTION}
        types = {name for name, kind in kinds.items() if kind in (DeclarationKind.TYPE, DeclarationKind.ALIAS)}
        variables = {name for name, kind in kinds.items() if kind is DeclarationKind.VARIABLE}
        known |= names
        found_hosts = False
        for node in undecided:
            holds_host = any(member.host and member.declaration.kind not in _REMOVABLE for member in node.members)
            if holds_host or (not names.isdisjoint(node.uses) and _refers(node, functions, types, variables)):
                node.host = found_hosts = True
            found_hosts |= _propagate_host_members(node)
        if not found_hosts:
            return
        undecided = [node for node in undecided if not node.host]


def _propagate_host_members(node: DeclarationNode) -> bool:
    """Propagate host-only from members of a class to those that call them; return whether there are any."""
    hosts = {name for member in node.members if member.host for name in member.declaration.names}
    hosts -= {name for member in node.members if not member.host for name in member.declaration.names}
    callers = [member for member in node.members if not member.host and not member.is_device and member.calls & hosts]
    for member in callers:
        member.host = True
    return bool(callers)


def _refers(node: DeclarationNode, functions: Set[str], types: Set[str], variables: Set[str]) -> bool:
    """Return whether a node calls one of some functions, or uses one of some types or variables of others."""
    return bool(
        node.calls & functions
        or node.uses & types - node.declaration.names
        or any(not _declares(node.own, name) for name in node.uses & variables)
    )


@dataclass(slots=True)
class _Search:
    """The nodes of a graph that were found reachable so far."""

    graph: ReferenceGraph
    marked: set[DeclarationNode] = field(default_factory=set)

    def mark_reachable(self, kernels: Set[str] | None) -> set[str]:
        """Mark the roots and everything they reference; return all identifiers in it."""
        index = self.graph.index
        words: set[str] = set()
        waiting = [
            node
            for node in self.graph.nodes
            if _is_root(node) and (kernels is None or not _is_other_kernel(node, kernels))
        ]
        wanted = {word for file in self.graph.files for word in _launch_words(file.text)}
        waiting += (node for word in wanted for node in index.get(word, ()) if _is_eligible(node))
        while waiting:
            node = waiting.pop()
            if node in self.marked:
                continue
            for word in self._mark(node):
                words.add(word)
                for found in index.get(word, ()):
                    if found not in self.marked and _is_eligible(found) and not _is_shadowed(word, found, node):
                        waiting.append(found)
        return words

    def mark_dependents(self) -> set[str]:
        """Mark prototypes, using directives and static assertions whose references are all reachable."""
        nodes, index = self.graph.nodes, self.graph.index
        scopes = {
            part
            for file in self.graph.files
            for item in file.items.items
            for name in item.scope
            for part in name.split("::")
        }
        reachable_names = {name for node in nodes if node in self.marked for name in node.declaration.names}
        words = {word for node in nodes if node in self.marked for word in node.uses}
        added: set[str] = set()
        for node in nodes:
            declaration = node.declaration
            if node in self.marked or node.host:
                continue
            if declaration.kind is DeclarationKind.FUNCTION:
                stays = declaration.item.body is None and bool(declaration.names & reachable_names)
            elif declaration.kind is DeclarationKind.USING:
                stays = _using_stays(node.own, words, scopes)
            elif declaration.kind is DeclarationKind.ASSERTION:
                stays = "std" not in node.uses and all(
                    word not in index or word in reachable_names for word in node.uses
                )
            else:
                stays = False
            if stays:
                added |= self._mark(node)
        return added

    def dropped(self, nodes: Iterable[DeclarationNode]) -> Iterator[tuple[int, int]]:
        """Yield the byte spans of the nodes and members that are not marked."""
        for node in nodes:
            if node not in self.marked:
                yield node.offset + node.declaration.item.start, node.offset + node.declaration.item.end
            else:
                yield from self.dropped(node.members)

    def _mark(self, node: DeclarationNode) -> set[str]:
        """Mark a node and its members, except host-only ones; return the identifiers in them."""
        self.marked.add(node)
        words = set(node.uses)
        for member in node.members:
            if not member.host or member.declaration.kind not in _REMOVABLE:
                words |= self._mark(member)
        return words


def _is_shadowed(word: str, target: DeclarationNode, node: DeclarationNode) -> bool:
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
    return _known_locals.get((code, name), lambda: _finds_declarator(code, name))


def _finds_declarator(code: str, name: str) -> bool:
    pattern = rf"(?:\b(\w+)\s+|[>\]]\s*|[*&]\s*){re.escape(name)}\s*(?:[=;,)\[({{]|:(?!:))"
    return any(match[1] not in _NO_TYPES for match in re.finditer(pattern, code))


def _is_root(node: DeclarationNode) -> bool:
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


def _is_other_kernel(node: DeclarationNode, kernels: Set[str]) -> bool:
    """Return whether a node declares or instantiates a kernel that is none of ``kernels``.

    A macro may make its kernel's name of parts, and so stays.
    """
    declaration = node.declaration
    return (
        declaration.kind in (DeclarationKind.FUNCTION, DeclarationKind.INSTANTIATION)
        and "__global__" in declaration.head_words
        and kernels.isdisjoint(declaration.head_words)
    )


def _is_eligible(node: DeclarationNode) -> bool:
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


def _using_stays(code: str, words: set[str], scopes: set[str]) -> bool:
    alias = re.match(r"namespace\s+(\w+)\s*=\s*(?:::)?\s*(\w+)", code)
    if alias:
        return alias[1] in words and alias[2] in scopes | _DEVICE_NAMESPACES
    directive = re.match(r"using\s+(namespace\s+)?(?:::)?\s*(\w+)", code)
    if directive is None:
        return False
    if directive[1]:
        return directive[2] in scopes | _DEVICE_NAMESPACES or directive[2] in words
    name = MENTION.findall(code)[-1]
    if directive[2] == "std" and _GLOBAL_TOO.match(name):
        return False
    return name in words and directive[2] in scopes | _DEVICE_NAMESPACES


def _launch_words(text: SourceText) -> Iterator[str]:
    """Yield the identifiers in template arguments of launches, which instances of kernels are made from.

    A kernel may be launched through a variable, ``auto kernel = &k<Traits>``, and its arguments be local aliases.
    """
    if "<<<" not in text.code:
        return
    found: set[str] = set()
    for match in re.finditer(r">\s*<<<", text.code):
        start = opening_angle(text.code, match.start() + 1)
        if start is not None:
            found.update(MENTION.findall(text.code[start : match.start()]))
    for match in (*_FUNCTION_VALUE.finditer(text.code), *_FUNCTION_ADDRESS.finditer(text.code)):
        found.update(MENTION.findall(match[1]))
    yield from found
    for match in _ALIAS.finditer(text.code):
        if match[1] in found:
            yield from MENTION.findall(match[2])
