"""The syntax tree of a module, its calls and functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import tree_sitter_python
from tree_sitter import Language, Node, Parser, Tree

from gpuemu_lsp.engine.findings import Position, Range


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_python.language()))


def parse_module(data: bytes) -> Tree:
    """Parse UTF-8 text. A syntax error spoils only the statement that contains it."""
    return _parser().parse(data)


def range_of(node: Node) -> Range:
    """Return the range of a node."""
    return Range.of(*node.start_point, *node.end_point)


def text_of(node: Node | None) -> str:
    """Return the text of a node, empty for None."""
    return node.text.decode(errors="replace") if node is not None and node.text is not None else ""


def literal(node: Node) -> object:
    """Return the value of a literal; None for anything else, as an f-string or a string that does not end."""
    try:
        return ast.literal_eval(text_of(node))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def in_string(text: str, at: Position) -> bool:
    """Return whether a position of a module lies within a string."""
    point = (at.line, at.column)
    node = parse_module(text.encode("utf-8", "surrogatepass")).root_node.descendant_for_point_range(point, point)
    while node is not None and node.type != "string":
        node = node.parent
    return node is not None and node.start_point < point < node.end_point


def descendants(node: Node, *kinds: str) -> Iterator[Node]:
    """Yield the nodes of some kinds at and below a node, in the order of the text."""
    stack = [node]
    while stack:
        current = stack.pop()
        if current.type in kinds:
            yield current
        stack.extend(reversed(current.children))


def enclosing_function(node: Node) -> Node | None:
    """Return the innermost function that contains a node."""
    parent = node.parent
    while parent is not None and parent.type != "function_definition":
        parent = parent.parent
    return parent


def parameters_of(function: Node) -> list[Node]:
    """Return the parameters of a function, without the object of a method."""
    listed = function.child_by_field_name("parameters")
    parameters = [each for each in (listed.named_children if listed is not None else ()) if each.type != "comment"]
    return parameters[1:] if parameters and text_of(parameters[0]) in ("self", "cls") else parameters


def parameter_name(parameter: Node) -> str:
    """Return the name of a parameter."""
    inner = parameter.child_by_field_name("name") or next(iter(parameter.named_children), None)
    return text_of(parameter if parameter.type == "identifier" else inner)


def call_arguments(call: Node) -> tuple[list[Node], dict[str, Node]]:
    """Return the positional and the keyword arguments of a call; those after ``*`` or ``**`` are not known."""
    positional: list[Node] = []
    keywords: dict[str, Node] = {}
    arguments = call.child_by_field_name("arguments")
    for child in arguments.named_children if arguments is not None else ():
        if child.type == "keyword_argument":
            name, value = child.child_by_field_name("name"), child.child_by_field_name("value")
            if name is not None and value is not None:
                keywords[text_of(name)] = value
        elif child.type not in ("comment", "list_splat", "dictionary_splat"):
            positional.append(child)
    return positional, keywords


def called_name(call: Node) -> str:
    """Return the last part of the name of a called function: ``RawKernel`` for ``cp.RawKernel(...)``."""
    function = call.child_by_field_name("function")
    if function is not None and function.type == "attribute":
        function = function.child_by_field_name("attribute")
    return text_of(function)
