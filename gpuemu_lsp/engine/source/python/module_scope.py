"""The syntax tree of a module, and what its names are assigned."""

from __future__ import annotations

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


class ModuleScope:
    """Assignments of a module by function and name; a name that is assigned more than once has no known value."""

    def __init__(self, root: Node) -> None:
        self._values: dict[tuple[int | None, str], Node | None] = {}
        for assignment in descendants(root, "assignment", "augmented_assignment"):
            target, value = assignment.child_by_field_name("left"), assignment.child_by_field_name("right")
            if target is None or target.type != "identifier" or value is None:
                continue
            key = _scope(assignment), text_of(target)
            again = key in self._values or assignment.type == "augmented_assignment"
            self._values[key] = None if again else value

    def value(self, name: Node) -> Node | None:
        """Return the expression that an identifier is assigned, in its function or else in the module."""
        scope, text = _scope(name), text_of(name)
        return self._values[scope, text] if (scope, text) in self._values else self._values.get((None, text))

    def name_of(self, value: Node) -> str | None:
        """Return the name that an expression, or a method's result of it, is assigned to; None if it is not.

        The name of an attribute is that of the attribute: ``ext`` for ``self.ext = load_inline(...)``.
        """
        parent = value.parent
        while parent is not None and (
            parent.type in ("attribute", "parenthesized_expression")
            or (parent.type == "call" and parent.child_by_field_name("function") == value)
        ):
            value, parent = parent, parent.parent
        if parent is None or parent.type != "assignment" or parent.child_by_field_name("right") != value:
            return None
        target = parent.child_by_field_name("left")
        if target is not None and target.type == "attribute":
            target = target.child_by_field_name("attribute")
        return text_of(target) if target is not None and target.type == "identifier" else None

    def module_value(self, name: str) -> Node | None:
        """Return the expression that a name of the module is assigned, None if it is none or more than one."""
        return self._values.get((None, name))

    def module_names(self) -> list[str]:
        """Return the names that the module assigns."""
        return [name for scope, name in self._values if scope is None]


def _scope(node: Node) -> int | None:
    function = enclosing_function(node)
    return function.id if function is not None else None


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
