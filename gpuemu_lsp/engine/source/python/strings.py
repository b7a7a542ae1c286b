"""Evaluation of string expressions without running them."""

from __future__ import annotations

import ast
from array import array
from collections.abc import Iterator

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.mapped_text import MappedText, joined
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope, call_arguments, called_name, text_of

_DEEPEST = 32
"""Nesting of expressions and assignments, at most: a name may be assigned an expression of itself."""


class UnknownText(Exception):  # noqa: N818 - a result, not an error
    """The value is known only when the program runs; the message names the expression."""


def evaluate(node: Node, scope: ModuleScope, depth: int = 0) -> MappedText:
    """Return the value of a string expression.

    Raises
    ------
    UnknownText
        If it is not a constant, or not a string.
    """
    if depth > _DEEPEST:
        raise UnknownText(_shown(node))
    if node.type == "string":
        return _literal(node, scope)
    if node.type in ("concatenated_string", "parenthesized_expression"):
        return joined(evaluate(child, scope, depth + 1) for child in node.named_children if child.type != "comment")
    if node.type == "binary_operator" and text_of(node.child_by_field_name("operator")) == "+":
        sides = (node.child_by_field_name("left"), node.child_by_field_name("right"))
        return joined(evaluate(side, scope, depth + 1) for side in sides if side is not None)
    if node.type == "identifier":
        value = scope.value(node)
        if value is None:
            raise UnknownText(_shown(node))
        return evaluate(value, scope, depth + 1)
    if node.type == "call":
        return _method(node, scope, depth)
    raise UnknownText(_shown(node))


def constant(node: Node, scope: ModuleScope) -> object:
    """Return the value of a literal, or of a name that is assigned one.

    Raises
    ------
    UnknownText
        If it is neither.
    """
    for _ in range(_DEEPEST):
        if node.type != "identifier":
            break
        value = scope.value(node)
        if value is None:
            break
        node = value
    try:
        return ast.literal_eval(text_of(node))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise UnknownText(_shown(node)) from None


def strings(node: Node | None, scope: ModuleScope) -> tuple[str, ...]:
    """Return the strings of a literal list or tuple, or of one string; those that are not constant are left out."""
    if node is None:
        return ()
    if node.type == "identifier":
        value = scope.value(node)
        return strings(value, scope) if value is not None else ()
    found = []
    for item in node.named_children if node.type in ("list", "tuple") else [node]:
        try:
            found.append(evaluate(item, scope).text)
        except UnknownText:
            continue
    return tuple(found)


def _method(call: Node, scope: ModuleScope, depth: int) -> MappedText:
    name = called_name(call)
    positional, _ = call_arguments(call)
    if name == "dedent" and len(positional) == 1:
        return evaluate(positional[0], scope, depth + 1).dedented()
    function = call.child_by_field_name("function")
    owner = function.child_by_field_name("object") if function is not None else None
    if owner is None:
        raise UnknownText(_shown(call))
    if name in ("strip", "lstrip", "rstrip") and not positional:
        return evaluate(owner, scope, depth + 1).stripped(name != "rstrip", name != "lstrip")
    if name == "replace" and len(positional) == 2:
        old, new = (_as_text(argument, scope) for argument in positional)
        return evaluate(owner, scope, depth + 1).replaced(old, new)
    if name == "join" and len(positional) == 1 and positional[0].type in ("list", "tuple"):
        separator = evaluate(owner, scope, depth + 1)
        parts: list[MappedText] = []
        for item in positional[0].named_children:
            parts += [separator] * bool(parts) + [evaluate(item, scope, depth + 1)]
        return joined(parts)
    raise UnknownText(_shown(call))


def _literal(node: Node, scope: ModuleScope) -> MappedText:
    opening = text_of(node.children[0])
    prefix = opening.rstrip("'\"").lower()
    if "b" in prefix:
        raise UnknownText(_shown(node))
    # The grammar counts some characters of raw strings to the closing quotes: these are as long as the opening ones.
    start, end = node.children[0].end_byte, node.end_byte - (len(opening) - len(prefix))
    parts: list[MappedText] = []
    for special in _specials(node, raw="r" in prefix):
        parts.append(_verbatim(node, start, special.start_byte))
        parts.append(_special(special, scope))
        start = special.end_byte
    whole = joined([*parts, _verbatim(node, start, end)])
    return MappedText(whole.text, whole.origins, end)


def _specials(node: Node, raw: bool) -> Iterator[Node]:
    """Yield the parts of a literal that do not stand for themselves."""
    for child in node.children[1:]:
        if child.type == "interpolation":
            yield child
        elif child.type == "string_content":
            yield from (one for one in child.children if one.type == "escape_interpolation" or not raw)


def _special(node: Node, scope: ModuleScope) -> MappedText:
    if node.type == "interpolation":
        return _interpolated(node, scope)
    # An escape_interpolation is {{ or }} of an f-string.
    text = text_of(node)[0] if node.type == "escape_interpolation" else _unescaped(text_of(node))
    return MappedText.constant(text, node.start_byte, node.end_byte)


def _unescaped(text: str) -> str:
    if text in ("\\\n", "\\\r\n"):  # the line goes on
        return ""
    try:
        return str(ast.literal_eval(f'"{text}"')) if '"' not in text else '"'
    except (ValueError, SyntaxError):
        return text


def _verbatim(node: Node, start: int, end: int) -> MappedText:
    assert node.text is not None
    text = node.text[start - node.start_byte : end - node.start_byte].decode(errors="replace")
    origins = array("Q")
    offset = start
    for character in text:
        origins.append(offset)
        offset += len(character.encode())
    return MappedText(text, origins, end)


def _interpolated(node: Node, scope: ModuleScope) -> MappedText:
    """Return the value of ``{NAME}`` in an f-string, which has to be a constant without a format."""
    expressions = [child for child in node.named_children if child.type != "comment"]
    if len(expressions) != 1:
        raise UnknownText(_shown(node))
    return MappedText.constant(_as_text(expressions[0], scope), node.start_byte, node.end_byte)


def _as_text(node: Node, scope: ModuleScope) -> str:
    """Return a constant as ``str`` prints it."""
    if node.type == "call" and called_name(node) == "str":
        positional, _ = call_arguments(node)
        if len(positional) == 1:
            return _as_text(positional[0], scope)
    try:
        return evaluate(node, scope).text
    except UnknownText:
        return str(constant(node, scope))


def _shown(node: Node) -> str:
    text = " ".join(text_of(node).split())
    return text if len(text) <= 40 else f"{text[:37]}..."
