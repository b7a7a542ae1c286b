"""Top-level items of a text: functions, types, variables, and the braces of namespaces around them.

A grammar would fail at the first unknown macro or half-written line, and one missing brace would hide every kernel
after it. Only brackets and semicolons are followed here, with two recoveries:

* An ``#else`` branch restarts from the nesting depth of its ``#if``, since alternatives may each open the same brace.
* An item that never closes ends where the next line at the margin looks like a definition.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, SourceText, closing, closing_angle, strip
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

    ``body`` is the offset of its first brace outside of parentheses. ``scope`` are the enclosing namespaces, outermost
    first. ``kind`` is "code", "open" or "close" for the two ends of a namespace or linkage block, or "stray" for an
    unmatched closing brace.
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


def split_items(text: SourceText, macros: MacroTable) -> ItemList:
    """Return the items of a whole file."""
    cutter = _ItemSplitter(text, macros, 0, len(text.code))
    return cutter.run()


def class_members(text: SourceText, macros: MacroTable, body: int, end: int) -> tuple[Item, ...]:
    """Return the members of a class whose braces are at ``body`` and before ``end``, without access specifiers."""
    close = text.code.rfind("}", body, end)
    return _ItemSplitter(text, macros, body + 1, close if close > body else end).run().items


class _ItemSplitter:
    """One pass over the brackets of a range of code."""

    def __init__(self, text: SourceText, macros: MacroTable, start: int, end: int) -> None:
        self._text, self._code, self._macros = text, text.code, macros
        self._end = end
        self._items: list[Item] = []
        self._balanced = True
        self._containers: list[tuple[str | None, bool]] = []  # (namespace, extern "C")
        self._branches: list[tuple[list[str], int]] = []
        self._first = start
        self._begin(start)

    def run(self) -> ItemList:
        recoveries = 0
        position = self._first
        while True:
            for offset, event in self._events(position):
                if event in _OPENER or event in "([{;":
                    self._bracket(offset, event)
                else:
                    self._conditional(event)
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

    def _events(self, position: int) -> Iterator[tuple[int, str]]:
        """Yield brackets and conditional directives in text order."""
        conditionals = [
            (directive.start, directive.kind)
            for directive in self._text.directives
            if position <= directive.start < self._end
            and (directive.kind.startswith("if") or directive.kind == "endif" or directive.kind in _BRANCHES)
        ]
        brackets = [(match.start(), match[0]) for match in _TOKEN.finditer(self._code, position, self._end)]
        return iter(sorted(conditionals + brackets))

    def _begin(self, position: int) -> None:
        """Start a new item at the first code after ``position``."""
        self._stack: list[str] = []
        self._body: int | None = None
        self._ends_at_brace = False
        self._start = strip(self._code, position, self._end)[0]
        while match := _ACCESS.match(self._code, self._start):
            self._start = match.end()
        # BEGIN_NAMESPACE and its like are items of their own: the brace they open is not in the text.
        while (word := WORD.match(self._code, self._start)) and word[0] in self._macros.unbalanced:
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
        following = strip(self._code, offset + 1, self._end)[0]
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
