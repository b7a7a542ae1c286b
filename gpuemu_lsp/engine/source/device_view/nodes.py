"""Declarations as nodes of the graph of references, with the members of classes as nodes of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

from gpuemu_lsp.engine.source.device_view.host_only import HostMentions, host_mentions
from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.preprocessor.lexer import closing, words_of
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.declarations import Declaration, DeclarationKind, read_declaration
from gpuemu_lsp.engine.source.syntax.items import Event, class_members, conditionals, within
from gpuemu_lsp.engine.source.syntax.parsed_source import ParsedSource

MENTION = re.compile(r"(?<![\w.\x80-\xff])(?<!->)[A-Za-z_][\w\x80-\xff]*")
"""A name that is not that of a member."""
_CALL = re.compile(r"(?<![\w.])(?<!->)([A-Za-z_]\w*)\s*(?:<[^<>;(){}]*>)?\s*\(")


@dataclass(frozen=True, slots=True)
class _References:
    """What the text of an item says of its references, wherever the item is.

    ``members`` of a class have references of their own, since host-only members can be dropped from a class that stays;
    their declarations are relative to the class, and ``own`` is the code without them. ``uses`` and ``calls`` are the
    references by name.
    """

    own: str
    uses: frozenset[str]
    calls: frozenset[str]
    host: HostMentions
    members: tuple[tuple[Declaration, _References], ...] = ()


_known_references: Memo[_References] = Memo(1 << 14)


@dataclass(eq=False, slots=True)
class DeclarationNode:
    """A declaration as a node of the reference graph; its positions are relative to the byte ``offset``."""

    path: str
    offset: int
    declaration: Declaration
    references: _References
    members: list[DeclarationNode] = field(default_factory=list)
    host: bool = False

    @property
    def own(self) -> str:
        """Its code without that of its members."""
        return self.references.own

    @property
    def uses(self) -> frozenset[str]:
        """The names it mentions."""
        return self.references.uses

    @property
    def calls(self) -> frozenset[str]:
        """The names it calls."""
        return self.references.calls

    @property
    def is_device(self) -> bool:
        """Whether it has a device specifier."""
        return self.declaration.on_device

    def is_at(self, offset: int) -> bool:
        """Return whether a byte offset of its file is inside."""
        return self.offset + self.declaration.item.start <= offset < self.offset + self.declaration.item.end

    def family(self) -> Iterator[DeclarationNode]:
        """Yield this node and its members, transitively."""
        yield self
        for member in self.members:
            yield from member.family()


def declaration_nodes(file: ParsedSource, macros: MacroTable, declared: Set[str]) -> Iterator[DeclarationNode]:
    """Yield the nodes of a file; ``declared`` are the names that the files of the program declare."""
    events = conditionals(file.text)
    for declaration in file.declarations:
        found = _references(file.text.code, declaration, macros, events)
        yield _node(file.path, 0, declaration, found, declared)


def _node(
    path: str,
    offset: int,
    declaration: Declaration,
    references: _References,
    declared: Set[str],
    in_class: bool = False,
) -> DeclarationNode:
    inside = [
        _node(path, offset + declaration.item.start, member, inner, declared, True)
        for member, inner in references.members
    ]
    host = references.host.is_host_only(declared)
    if declaration.kind is DeclarationKind.VARIABLE and not declaration.on_device and not in_class:
        # Device code cannot read a host variable unless it is a constant.
        host = host or not {"const", "constexpr"} & declaration.head_words
    else:
        host = declaration.host_only or (not declaration.device_only and host)
    return DeclarationNode(path, offset, declaration, references, inside, host)


def _references(code: str, declaration: Declaration, macros: MacroTable, events: Sequence[Event]) -> _References:
    """Return the references of a declaration in some code with conditional directives at ``events``."""
    item = declaration.item
    whole = code[item.start : item.end]
    has_members = declaration.kind is DeclarationKind.TYPE and item.body is not None and item.body < item.end
    body = item.body - item.start if has_members and item.body is not None else None
    inner = within(events, item.start, item.end) if has_members else ()
    key = whole, body, inner, macros.affecting(words_of(whole))
    return _known_references.get(key, lambda: _read_references(whole, body, macros, inner))


def _read_references(code: str, body: int | None, macros: MacroTable, events: Sequence[Event]) -> _References:
    own = code
    members: tuple[tuple[Declaration, _References], ...] = ()
    if body is not None:
        close = closing(code, body)
        own = code[:body] + code[close:]
        found = (read_declaration(code, item, macros) for item in class_members(code, macros, body, close, events))
        members = tuple((member, _references(code, member, macros, events)) for member in found)
    uses = macros.expand(frozenset(MENTION.findall(own)))
    calls = macros.expand(frozenset(_CALL.findall(own)))
    return _References(own, uses, calls, host_mentions(own, uses, calls), members)
