"""Top-level items of a text: functions, types, variables, and the braces of namespaces around them.

A grammar would fail at the first unknown macro or half-written line, and one missing brace would hide every kernel
after it. Only brackets and semicolons are followed here, with two recoveries:

* An ``#else`` branch restarts from the nesting depth of its ``#if``, since alternatives may each open the same brace.
* An item that never closes ends where the next line at the margin looks like a definition.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, SourceText, closing, closing_angle, strip, words_of
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable

_OPENER = {")": "(", "]": "[", "}": "{"}
_TOKEN = re.compile(r"[(){}\[\];]")
_NAMESPACE = re.compile(
    r"(?:inline\s+)?namespace\b(?:\s*\[\[[^\]]*\]\]|\s*__attribute__\s*\(.*\))?\s*(?P<name>[\w:\s]*)$", re.DOTALL
)
_LINKAGE = re.compile(r'extern\s*"\s*"$')
_TYPE = re.compile(r"\b(?:struct|class|union|enum)\b")
_ATTRIBUTE = re.compile(r"\b(?:__align__|alignas|__attribute__|__declspec|__launch_bounds__|decltype)\s*(?=\()")
_ASSIGNMENT = re.compile(r"(?<![=!<>+\-*/%&|^])=(?!=)")
_OPERATOR = re.compile(r"\boperator\s*(?:\(\s*\)|[^\s\w(]+)")
_MARGIN = re.compile(
    r"^(?:template\b|__\w+__\b|extern\b|static\b|inline\b|constexpr\b|struct\b|class\b|enum\b|union\b|namespace\b|using\b"
    r"|typedef\b|const\b|(?!(?:return|else|case|goto|throw|delete|new|do)\b)[A-Za-z_][\w:<>,]*[\s*&]+[\w:~]+\s*\()",
    re.MULTILINE,
)
_ACCESS = re.compile(r"(?:public|private|protected)\s*:(?!:)\s*")
_BRANCHES = frozenset({"elif", "elifdef", "elifndef", "else"})
_MAX_RECOVERIES = 50


@dataclass(frozen=True, slots=True)
class Item:
    """A top-level item from byte ``start`` to ``end``, its ``;`` or ``}`` included.

    ``body`` is the offset of its first brace outside of parentheses, behind the end of an item that was never closed.
    ``scope`` are the enclosing namespaces, outermost first. ``kind`` is "code", "open" or "close" for the two ends of a
    namespace or linkage block, or "stray" for an unmatched closing brace.
    """

    start: int
    end: int
    body: int | None = None
    scope: tuple[str, ...] = ()
    extern_c: bool = False
    kind: str = "code"


@dataclass(frozen=True, slots=True)
class ItemList:
    """All items in order. ``balanced`` is False where a bracket is unmatched."""

    items: tuple[Item, ...]
    balanced: bool


Containers: TypeAlias = "tuple[tuple[str | None, bool], ...]"
"""Enclosing blocks, outermost first: name of a namespace, and whether it is ``extern "C"``."""
Event: TypeAlias = "tuple[int, str]"
"""Offset of a bracket or conditional directive, and which one it is."""


def split_items(text: SourceText, macros: MacroTable) -> ItemList:
    """Return the items of a whole file."""
    return _ItemSplitter(text.code, macros, 0, len(text.code), conditionals(text)).run(text.blocks)


def conditionals(text: SourceText) -> tuple[Event, ...]:
    """Return the offsets and kinds of the conditional directives of a text."""
    return tuple(
        (directive.start, directive.kind)
        for directive in text.directives
        if directive.kind.startswith("if") or directive.kind == "endif" or directive.kind in _BRANCHES
    )


def within(events: Sequence[Event], start: int, end: int) -> tuple[Event, ...]:
    """Return the events between two offsets, relative to the first."""
    inside = events[bisect_left(events, (start, "")) : bisect_left(events, (end, ""))]
    return tuple((offset - start, kind) for offset, kind in inside)


def class_members(code: str, macros: MacroTable, body: int, end: int, events: Sequence[Event]) -> tuple[Item, ...]:
    """Return the members of a class whose braces are at ``body`` and before ``end``, without access specifiers.

    ``events`` are the conditional directives in ``code``.
    """
    close = code.rfind("}", body, end)
    last = close if close > body else end
    return _ItemSplitter(code, macros, body + 1, last, events).run((last,)).items


@dataclass(frozen=True, slots=True)
class _SplitBlock:
    """Items of a block that begins and ends between items, relative to its start, and the containers at its end."""

    items: tuple[Item, ...]
    containers: Containers
    balanced: bool


_known_blocks: Memo[_SplitBlock | None] = Memo(1 << 12)


class _ItemSplitter:
    """One pass over the brackets of a range of code, block by block.

    ``_end`` is the end of the blocks that were read. A block that begins and ends between two items, with its
    conditionals balanced, needs no state but the enclosing containers, so the items in it are remembered.
    """

    def __init__(
        self,
        code: str,
        macros: MacroTable,
        start: int,
        end: int,
        conditionals: Sequence[Event],
        containers: Containers = (),
    ) -> None:
        self._code, self._macros, self._conditionals = code, macros, conditionals
        self._end, self._limit = start, end
        self._items: list[Item] = []
        self._balanced = True
        self._containers: list[tuple[str | None, bool]] = list(containers)
        self._branches: list[tuple[list[str], int]] = []
        self._first = start
        self._begin(start)

    def run(self, blocks: Sequence[int]) -> ItemList:
        """Return the items up to the last of some offsets, at which the blocks end."""
        recoveries = 0
        position = self._first
        while True:
            for end in blocks[bisect_right(blocks, position) :]:
                self._end = end
                self._block(position, end)
                position = end
            if not self._stack:
                break
            # The item is never closed: it ends at the next definition, and the pass continues there.
            self._balanced = False
            margin = _MARGIN.search(self._code, self._start + 1, self._end) if recoveries < _MAX_RECOVERIES else None
            if margin is None:
                break
            recoveries += 1
            self._emit(margin.start())
            position = margin.start()
        if self._start < self._end:
            self._emit(self._end)
        return ItemList(tuple(self._items), self._balanced and not self._containers)

    def _block(self, start: int, end: int) -> None:
        """Read a block from ``start``, which is the end of the last one or a recovery, to ``end``."""
        between_items = not self._stack and self._start >= start
        if between_items:
            self._begin(max(start, self._began))
        known = self._alone(start, end) if between_items and self._began == start and end < self._limit else None
        if known is None:
            self._read(self._events(start, end))
            return
        self._items += (
            Item(
                item.start + start,
                item.end + start,
                item.body + start if item.body is not None else None,
                item.scope,
                item.extern_c,
                item.kind,
            )
            for item in known.items
        )
        self._containers = list(known.containers)
        self._balanced = self._balanced and known.balanced
        self._begin(end)

    def _alone(self, start: int, end: int) -> _SplitBlock | None:
        """Return the items of a block; None if it does not end between items, or a conditional is open there."""
        code = self._code[start:end]
        # What follows the block decides whether a macro invocation at its end is an item.
        following = strip(self._code, end, self._limit)[0]
        code += self._code[following : following + 1]
        conditionals = within(self._conditionals, start, end)
        containers = tuple(self._containers)
        key = code, conditionals, containers, self._macros.affecting(words_of(code))

        def split() -> _SplitBlock | None:
            inner = _ItemSplitter(code, self._macros, 0, len(code), conditionals, containers)
            return inner._split_alone(end - start)

        return _known_blocks.get(key, split)

    def _split_alone(self, end: int) -> _SplitBlock | None:
        self._end = end
        self._begin(0)
        depth = 0
        for _, kind in self._conditionals:
            depth += kind.startswith("if") - (kind == "endif")
            if depth < 0 or (depth == 0 and kind in _BRANCHES):
                return None
        self._read(self._events(0, end))
        if self._stack or depth or self._start != end:
            return None
        return _SplitBlock(tuple(self._items), tuple(self._containers), self._balanced)

    def _read(self, events: Sequence[Event]) -> None:
        for offset, event in events:
            if event in _OPENER or event in "([{;":
                self._bracket(offset, event)
            else:
                self._conditional(event)

    def _events(self, start: int, end: int) -> list[Event]:
        """Return brackets and conditional directives in text order."""
        first, last = (bisect_left(self._conditionals, (offset, "")) for offset in (start, end))
        brackets = [(match.start(), match[0]) for match in _TOKEN.finditer(self._code, start, end)]
        return sorted([*self._conditionals[first:last], *brackets])

    def _begin(self, position: int) -> None:
        """Start a new item at the first code after ``position``."""
        self._began = position
        self._stack: list[str] = []
        self._body: int | None = None
        self._ends_at_brace = False
        self._start = strip(self._code, position, self._end)[0]
        while self._start < self._end and (match := _ACCESS.match(self._code, self._start)):
            self._start = match.end()
        # BEGIN_NAMESPACE and its like are items of their own: the brace they open is not in the text.
        while (
            self._start < self._end
            and (word := WORD.match(self._code, self._start))
            and word[0] in self._macros.unbalanced
        ):
            end = strip(self._code, word.end(), self._end)[0]
            if self._code[end : end + 1] == "(":
                end = closing(self._code, end)
            else:
                end = word.end()
            self._items.append(Item(self._start, end, kind="open"))
            self._start = strip(self._code, end, self._end)[0]

    def _emit(self, end: int, kind: str = "code") -> None:
        scope = tuple(name for name, _ in self._containers if name)
        extern_c = any(linkage for _, linkage in self._containers)
        start, trimmed = strip(self._code, self._start, end)
        if start < trimmed:
            self._items.append(Item(start, trimmed, self._body, scope, extern_c, kind))
        self._begin(end)

    def _conditional(self, kind: str) -> None:
        if kind == "endif":
            if self._branches:
                self._branches.pop()
        elif kind in _BRANCHES:
            if self._branches:
                # Alternatives may each open the brace that one common line closes.
                stack, containers = self._branches[-1]
                self._stack = list(stack)
                del self._containers[containers:]
        else:
            self._branches.append((list(self._stack), len(self._containers)))

    def _bracket(self, offset: int, sign: str) -> None:
        if offset < self._start:
            return  # inside the arguments of a macro invocation that _begin skipped
        if sign == ";":
            if "{" not in self._stack:
                self._balanced = self._balanced and not self._stack
                self._emit(offset + 1)
        elif sign in "([":
            self._stack.append(sign)
        elif sign == "{":
            self._open(offset)
        elif sign == "}" and "{" not in self._stack:
            self._close_container(offset)
        elif _OPENER[sign] in self._stack:
            self._close(offset, sign)

    def _open(self, offset: int) -> None:
        if not self._stack:
            head = self._code[self._start : offset].strip()
            namespace = _NAMESPACE.match(head)
            if namespace or _LINKAGE.match(head):
                name = "".join(namespace["name"].split()) if namespace else None
                self._emit(offset + 1, "open")
                self._containers.append((name, namespace is None))
                return
            if self._body is None:
                self._body = offset
                self._ends_at_brace = _is_function_head(head)
        self._stack.append("{")

    def _close(self, offset: int, sign: str) -> None:
        while self._stack.pop() != _OPENER[sign]:
            self._balanced = False
        if self._stack:
            return
        following = strip(self._code, offset + 1, self._limit)[0]
        next_sign = self._code[following : following + 1]
        if sign == "}" and self._ends_at_brace and next_sign not in (",", "{"):
            # `: a{1}, b{2} {}` is one constructor: a brace before `,` or `{` is not its body. `};` is one item.
            self._emit(following + 1 if next_sign == ";" else offset + 1)
        elif sign == ")" and self._body is None and self._is_invocation(offset, following):
            self._emit(offset + 1)

    def _close_container(self, offset: int) -> None:
        self._balanced = self._balanced and not self._stack
        if self._start < offset:
            self._emit(offset)
        if self._containers:
            self._containers.pop()
            self._emit(offset + 1, "close")
        else:
            self._balanced = False
            self._emit(offset + 1, "stray")

    def _is_invocation(self, offset: int, following: int) -> bool:
        """Return whether ``NAME(...)`` up to ``offset`` is a complete item: a macro that expands to declarations.

        An undefined ``NAME`` counts if the invocation ends its line, as macros of library headers usually do.
        """
        word = WORD.match(self._code, self._start)
        if word is None or _ATTRIBUTE.match(self._code, self._start):
            return False
        if word[0] not in self._macros.definitions and "\n" not in self._code[offset:following]:
            return False
        opening = strip(self._code, word.end(), self._end)[0]
        if self._code[opening : opening + 1] != "(" or closing(self._code, opening) != offset + 1:
            return False
        next_sign = self._code[following : following + 1]
        return (next_sign.isalpha() or next_sign in ("_", "[")) and not self._macros.is_attribute(word[0])


def without_template(code: str, start: int, end: int) -> int:
    """Return the offset after all ``template <...>`` headers at ``start``."""
    while match := re.compile(r"\s*template\s*(?=<)").match(code, start, end):
        close = closing_angle(code, match.end())
        if close is None or close > end:
            break
        start = close
    return start


def is_type_head(head: str) -> bool:
    """Return whether a head, without template header, introduces a struct, class, union or enum."""
    return bool(_TYPE.search(head)) and "(" not in _without_attributes(head)


def has_initialiser(head: str) -> bool:
    """Return whether a head, without template header, has an ``=`` outside of brackets."""
    return bool(_ASSIGNMENT.search(_flat(_OPERATOR.sub("operator", head))))


def _is_function_head(head: str) -> bool:
    rest = head[without_template(head, 0, len(head)) :]
    return not rest or (not is_type_head(rest) and not has_initialiser(rest) and "(" in rest)


def _without_attributes(head: str) -> str:
    while match := _ATTRIBUTE.search(head):
        head = head[: match.start()] + head[closing(head, match.end()) :]
    return head


def _flat(head: str) -> str:
    """Remove everything inside of parentheses and square brackets."""
    parts, position = [], 0
    for match in re.finditer(r"[(\[]", head):
        if match.start() >= position:
            parts.append(head[position : match.start()])
            position = closing(head, match.start())
    return "".join(parts) + head[position:]
