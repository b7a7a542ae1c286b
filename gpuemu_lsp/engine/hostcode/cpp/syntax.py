"""Syntax trees of C++: how they are parsed, and what their nodes are called."""

from __future__ import annotations

from functools import lru_cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser


@lru_cache(maxsize=1)
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cuda.language()))


@lru_cache(maxsize=64)
def tree_of(code: str) -> Node:
    """Return the root of the syntax tree of some code in Latin-1."""
    return _parser().parse(code.encode("latin-1", "replace")).root_node


@lru_cache(maxsize=4096)
def statements_of(code: str) -> tuple[Node, ...]:
    """Return the statements that a macro expands to."""
    root = tree_of("void f() {" + code + ";}")
    body = root.named_children[0].child_by_field_name("body") if root.named_children else None
    return tuple(body.named_children) if body is not None else ()


@lru_cache(maxsize=4096)
def expression_of(code: str) -> Node | None:
    """Return the syntax tree of an expression, None if some code is not one."""
    statements = statements_of(f"_ = {code}")
    if len(statements) != 1 or statements[0].type != "expression_statement" or statements[0].has_error:
        return None
    assignment = statements[0].named_children[0]
    return assignment.child_by_field_name("right") if assignment.type == "assignment_expression" else None


def text(node: Node | None) -> str:
    """Return the code of a node, on one line."""
    return "" if node is None or node.text is None else " ".join(node.text.decode("latin-1").split())


def inner_declarator(node: Node) -> Node | None:
    """Return the declarator in a declarator: that of the pointer, of the array, or of the parameter."""
    inner = node.child_by_field_name("declarator")
    if inner is not None:
        return inner
    return next(
        (child for child in node.named_children if "declarator" in child.type or "identifier" in child.type), None
    )


def declared_name(node: Node | None) -> str:
    """Return the name in a declarator."""
    while node is not None and node.type not in ("identifier", "field_identifier", "type_identifier"):
        if node.type in ("qualified_identifier", "template_function"):
            return text(node)
        node = inner_declarator(node)
    return text(node) if node is not None else ""


def has_arrow(node: Node) -> bool:
    """Return whether a field is that of the object which a pointer points to."""
    return any(child.type == "->" for child in node.children)
