"""Evaluation of string expressions without running them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import pairwise

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.constants import MAX_DEPTH, UnknownText, constant
from gpuemu_lsp.engine.source.python.external_text import text_of_file
from gpuemu_lsp.engine.source.python.mapped_text import MappedText, inserted, joined
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.placeholders import (
    Placeholder,
    brace_fields,
    dollar_fields,
    percent_fields,
)
from gpuemu_lsp.engine.source.python.syntax import (
    call_arguments,
    called_name,
    descendants,
    enclosing_function,
    literal,
    text_of,
)


def evaluate(node: Node, scope: ModuleScope, depth: int = 0) -> MappedText:
    """Return the value of a string expression.

    Raises
    ------
    UnknownText
        If it is not a constant, or not a string.
    """
    if depth > MAX_DEPTH:
        raise UnknownText(node)
    if node.type == "string":
        return _literal(node, scope, depth)
    if node.type in ("concatenated_string", "parenthesized_expression"):
        return joined(evaluate(child, scope, depth + 1) for child in node.named_children if child.type != "comment")
    if node.type == "binary_operator":
        return _operator(node, scope, depth)
    if node.type in ("identifier", "attribute"):
        parts = scope.lookup(node)
        if parts is None:
            raise UnknownText(node)
        return joined(evaluate(value, home, depth + 1) for value, home in parts)
    if node.type == "call":
        return _call(node, scope, depth)
    if node.type == "subscript":
        value = constant(node, scope)
        if isinstance(value, str):
            return MappedText.constant(value, scope.base + node.start_byte, scope.base + node.end_byte)
    raise UnknownText(node)


def strings(node: Node | None, scope: ModuleScope) -> tuple[str, ...]:
    """Return the strings of a literal list or tuple, or of one string; those that are not constant are left out."""
    if node is None:
        return ()
    found = []
    for item, home in items(node, scope) or [(node, scope)]:
        try:
            found.append(evaluate(item, home).text)
        except UnknownText:
            continue
    return tuple(found)


def items(node: Node, scope: ModuleScope, depth: int = 0) -> list[tuple[Node, ModuleScope]] | None:
    """Return the elements of a list or tuple, each with the scope of its names; None for any other expression."""
    if depth > MAX_DEPTH:
        return None
    if node.type in ("identifier", "attribute"):
        parts = scope.lookup(node)
        found = [items(value, home, depth + 1) for value, home in parts or ()]
        if not found or any(one is None for one in found):
            return None
        return [item for one in found for item in one or ()]
    if node.type == "binary_operator" and text_of(node.child_by_field_name("operator")) == "+":
        sides = [items(side, scope, depth + 1) for side in (node.children[0], node.children[-1])]
        if any(one is None for one in sides):
            return None
        return [item for one in sides for item in one or ()]
    if node.type in ("list", "tuple"):
        return [(item, scope) for item in node.named_children if item.type != "comment"]
    return None


def _operator(node: Node, scope: ModuleScope, depth: int) -> MappedText:
    left, right = node.child_by_field_name("left"), node.child_by_field_name("right")
    operator = text_of(node.child_by_field_name("operator"))
    if left is None or right is None:
        raise UnknownText(node)
    if operator == "+":
        return joined(evaluate(side, scope, depth + 1) for side in (left, right))
    if operator == "*":
        count = constant(right, scope)
        if isinstance(count, int) and 0 <= count <= 1024:
            return joined([evaluate(left, scope, depth + 1)] * count)
    if operator == "%":
        text = evaluate(left, scope, depth + 1)
        values = _mapping(right) if right.type == "dictionary" else None
        listed = [(right, scope)] if right.type != "tuple" else items(right, scope) or []
        return _filled(text, percent_fields(text.text), listed, values, node, scope, depth)
    raise UnknownText(node)


def _call(call: Node, scope: ModuleScope, depth: int) -> MappedText:
    name = called_name(call)
    positional, keywords = call_arguments(call)
    function = call.child_by_field_name("function")
    if function is None or any(child.type.endswith("splat") for child in _arguments(call)):
        raise UnknownText(call)
    if name == "dedent" and len(positional) == 1:
        return evaluate(positional[0], scope, depth + 1).dedented()
    if name == "cleandoc" and len(positional) == 1:
        return _cleaned(evaluate(positional[0], scope, depth + 1))
    if name == "str" and function.type == "identifier" and len(positional) == 1 and not keywords:
        return _value(positional[0], scope, scope.base + call.start_byte, scope.base + call.end_byte, depth)
    if name in ("read", "read_text"):
        return text_of_file(call, scope)
    if function.type == "identifier":
        return _returned(call, scope, depth)
    owner = function.child_by_field_name("object")
    assert owner is not None
    if name in ("strip", "lstrip", "rstrip") and len(positional) <= 1:
        characters = _text(positional[0], scope) if positional else None
        return evaluate(owner, scope, depth + 1).stripped(characters, name != "rstrip", name != "lstrip")
    if name in ("encode", "decode", "expandtabs") and not positional:
        text = evaluate(owner, scope, depth + 1)
        return text if name != "expandtabs" else _expanded(text)
    if name == "replace" and len(positional) == 2:
        new = _value(positional[1], scope, scope.base + call.start_byte, scope.base + call.end_byte, depth)
        return evaluate(owner, scope, depth + 1).replaced(_text(positional[0], scope), new)
    if name == "join" and len(positional) == 1:
        return _join(evaluate(owner, scope, depth + 1), positional[0], scope, depth, call)
    if name == "format":
        text = evaluate(owner, scope, depth + 1)
        listed = [(one, scope) for one in positional]
        return _filled(text, brace_fields(text.text), listed, keywords, call, scope, depth)
    if name in ("substitute", "safe_substitute") and len(positional) <= 1:
        template = _template(owner, scope, depth)
        values = (_mapping(positional[0]) or {}) if positional else {}
        fields = dollar_fields(template.text, safe=name == "safe_substitute")
        return _filled(template, fields, [], {**values, **keywords}, call, scope, depth)
    raise UnknownText(call)


def _join(separator: MappedText, argument: Node, scope: ModuleScope, depth: int, call: Node) -> MappedText:
    listed = items(argument, scope)
    if listed is None:
        raise UnknownText(call)
    parts: list[MappedText] = []
    for item, home in listed:
        parts += [separator] * bool(parts) + [evaluate(item, home, depth + 1)]
    return joined(parts)


def _returned(call: Node, scope: ModuleScope, depth: int) -> MappedText:
    """Return the text of a call of a function of the project that has one ``return``."""
    callee = call.child_by_field_name("function")
    parts = scope.lookup(callee) if callee is not None else None
    if parts is None or len(parts) != 1 or parts[0][0].type != "function_definition":
        raise UnknownText(call)
    function, home = parts[0]
    found = [one for one in descendants(function, "return_statement") if enclosing_function(one) == function]
    # A function that calls itself is not followed: twice in an expression would be thousands of times.
    if len(found) != 1 or not found[0].named_children or function.id in scope.active:
        raise UnknownText(call)
    return evaluate(found[0].named_children[0], home.within_call(function, call, scope), depth + 1)


def _template(node: Node, scope: ModuleScope, depth: int) -> MappedText:
    """Return the text of ``string.Template(text)``, also of a name that it is assigned to."""
    if node.type in ("identifier", "attribute"):
        parts = scope.lookup(node)
        if parts is None or len(parts) != 1 or depth > MAX_DEPTH:
            raise UnknownText(node)
        return _template(parts[0][0], parts[0][1], depth + 1)
    positional, _ = call_arguments(node) if node.type == "call" else ([], {})
    if node.type != "call" or called_name(node) != "Template" or len(positional) != 1:
        raise UnknownText(node)
    return evaluate(positional[0], scope, depth + 1)


def _filled(
    text: MappedText,
    fields: list[Placeholder] | None,
    positional: list[tuple[Node, ModuleScope]],
    named: dict[str, Node] | None,
    whole: Node,
    scope: ModuleScope,
    depth: int,
) -> MappedText:
    """Return the text with its placeholders replaced by values, which have to be constants."""
    if fields is None:
        raise UnknownText(whole)
    parts: list[MappedText] = []
    start = 0
    for one in fields:
        parts.append(text.cut(start, one.start))
        start = one.stop
        origin, stop = text.origins[one.start], text.stops[one.stop - 1]
        if one.literal is not None:
            parts.append(MappedText.constant(one.literal, origin, stop))
            continue
        node: Node | None = None
        home = scope
        if isinstance(one.key, int):
            node, home = positional[one.key] if one.key < len(positional) else (None, scope)
        elif named is not None and one.key is not None:
            node = named.get(one.key)
        if node is None:
            if one.optional:
                parts.append(text.cut(one.start, one.stop))
                continue
            raise UnknownText(whole)
        parts.append(_value(node, home, origin, stop, depth, one.render))
    return joined([*parts, text.cut(start, len(text.text))])


def _literal(node: Node, scope: ModuleScope, depth: int) -> MappedText:
    opening = text_of(node.children[0])
    prefix = opening.rstrip("'\"").lower()
    if "b" in prefix:
        raise UnknownText(node)
    # The grammar counts some characters of raw strings to the closing quotes: these are as long as the opening ones.
    start, end = node.children[0].end_byte, node.end_byte - (len(opening) - len(prefix))
    parts: list[MappedText] = []
    for special in _specials(node, raw="r" in prefix):
        parts.append(_verbatim(node, scope, start, special.start_byte))
        parts.append(_special(special, scope, depth))
        start = special.end_byte
    whole = joined([*parts, _verbatim(node, scope, start, end)])
    return MappedText(whole.text, whole.origins, whole.stops, scope.base + end)


def _specials(node: Node, raw: bool) -> Iterator[Node]:
    """Yield the parts of a literal that do not stand for themselves."""
    for child in node.children[1:]:
        if child.type == "interpolation":
            yield child
        elif child.type == "string_content":
            yield from (one for one in child.children if one.type == "escape_interpolation" or not raw)


def _special(node: Node, scope: ModuleScope, depth: int) -> MappedText:
    if node.type == "interpolation":
        return _interpolated(node, scope, depth)
    # An escape_interpolation is {{ or }} of an f-string.
    text = text_of(node)[0] if node.type == "escape_interpolation" else _unescaped(text_of(node))
    return MappedText.constant(text, scope.base + node.start_byte, scope.base + node.end_byte)


def _unescaped(text: str) -> str:
    if text in ("\\\n", "\\\r\n", "\\\r"):  # the line goes on
        return ""
    try:
        return str(ast.literal_eval(f'"{text}"')) if '"' not in text else '"'
    except (ValueError, SyntaxError):
        return text


def _verbatim(node: Node, scope: ModuleScope, start: int, end: int) -> MappedText:
    assert node.text is not None
    text = node.text[start - node.start_byte : end - node.start_byte].decode(errors="replace")
    return MappedText.verbatim(text, scope.base + start)


def _interpolated(node: Node, scope: ModuleScope, depth: int) -> MappedText:
    """Return the value of ``{EXPRESSION}`` in an f-string, with a conversion and a format that are literal."""
    expression = node.child_by_field_name("expression")
    conversion, form = node.child_by_field_name("type_conversion"), node.child_by_field_name("format_specifier")
    nested = form is not None and any(child.is_named for child in form.children)
    if expression is None or nested or any(child.type == "=" for child in node.children):
        raise UnknownText(node)
    specification = text_of(form)[1:] if form is not None else ""
    convert = text_of(conversion)[1:] if conversion is not None else ""

    def render(value: object) -> str:
        converters: dict[str, Callable[[object], str]] = {"r": repr, "s": str, "a": ascii}
        return format(converters[convert](value) if convert else value, specification)

    plain = not specification and convert in ("", "s")
    start, stop = scope.base + node.start_byte, scope.base + node.end_byte
    return _value(expression, scope, start, stop, depth, None if plain else render)


def _value(
    node: Node, scope: ModuleScope, origin: int, stop: int, depth: int, render: Callable[[object], str] | None = None
) -> MappedText:
    """Return a constant as ``str``, or ``render``, prints it in place of what stands from ``origin`` to ``stop``."""
    if render is None:
        try:
            return inserted(evaluate(node, scope, depth + 1), origin, stop)
        except UnknownText:
            return MappedText.constant(str(constant(node, scope)), origin, stop)
    try:
        value: object = evaluate(node, scope, depth + 1).text
    except UnknownText:
        value = constant(node, scope)
    try:
        return MappedText.constant(render(value), origin, stop)
    except (ValueError, TypeError, KeyError, IndexError):
        raise UnknownText(node) from None


def _text(node: Node, scope: ModuleScope) -> str:
    return _value(node, scope, 0, 0, 0).text


def _mapping(node: Node) -> dict[str, Node] | None:
    """Return the values of ``{"NAME": value}`` or ``dict(NAME=value)`` by key; None for any other expression."""
    if node.type == "call" and called_name(node) == "dict":
        return call_arguments(node)[1]
    if node.type != "dictionary":
        return None
    found: dict[str, Node] = {}
    for pair in node.named_children:
        key, value = pair.child_by_field_name("key"), pair.child_by_field_name("value")
        if pair.type != "pair" or key is None or value is None or key.type != "string":
            return None
        name = literal(key)
        if not isinstance(name, str):
            return None
        found[name] = value
    return found


def _cleaned(text: MappedText) -> MappedText:
    """Apply :func:`inspect.cleandoc`, but for tabs, which it expands."""
    first, _, rest = text.text.partition("\n")
    head = text.cut(0, len(first) + 1).stripped(" \t", right=False) if rest else text.stripped(" \t", right=False)
    whole = joined([head, text.cut(len(first) + 1, len(text.text)).dedented()]) if rest else head
    return whole.stripped("\n")


def _expanded(text: MappedText) -> MappedText:
    """Apply ``str.expandtabs``."""
    parts: list[MappedText] = []
    column = 0
    for start, stop in pairwise(range(len(text.text) + 1)):
        part = text.cut(start, stop)
        if part.text == "\t":
            part = MappedText.constant(" " * (8 - column % 8), text.origins[start], text.stops[start])
        column = 0 if part.text == "\n" else column + len(part.text)
        parts.append(part)
    return joined(parts)


def _arguments(call: Node) -> list[Node]:
    arguments = call.child_by_field_name("arguments")
    return arguments.named_children if arguments is not None else []
