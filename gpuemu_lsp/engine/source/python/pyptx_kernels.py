"""Kernels of pyptx, a language for PTX in Python: functions with ``@kernel``, and the functions that build them.

A kernel is at the top level of its module, or in a function that builds it for some sizes and returns it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.model import PyptxCall, PyptxKernel
from gpuemu_lsp.engine.source.python.syntax import call_arguments, descendants, range_of, text_of

_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+pyptx\b", re.M)
_DECORATOR = re.compile(r"@\s*(?:\w+\s*\.\s*)?kernel\b(?!\s*\.)")
_INTEGER = re.compile(r"-?\d[\d_]*")


def may_have_pyptx(text: str) -> bool:
    """Return whether a file may have kernels of pyptx. Fast: most files have none and are not parsed."""
    return "pyptx" in text and _IMPORT.search(text) is not None


def pyptx_kernels(root: Node) -> tuple[PyptxKernel, ...]:
    """Return the kernels of a module that imports pyptx, in the order of the text."""
    constants = dict(_constants(root))
    calls = list(descendants(root, "call"))
    return tuple(_kernels(root, constants, calls))


def _kernels(root: Node, constants: Mapping[str, int], calls: list[Node]) -> Iterator[PyptxKernel]:
    for decorated in descendants(root, "decorated_definition"):
        function = decorated.child_by_field_name("definition")
        if function is None or function.type != "function_definition":
            continue
        decorators = (text_of(child) for child in decorated.children if child.type == "decorator")
        name = function.child_by_field_name("name")
        if name is None or not any(map(_DECORATOR.match, decorators)):
            continue
        around = list(_around(decorated))
        if any(one.type == "class_definition" for one in around):
            continue  # a method: what its object is remains unknown
        builder = around[-1] if around else None
        params = dict(_params(builder or function, keyword_only=builder is None))
        outer = None if builder is None else text_of(builder.child_by_field_name("name"))
        kernel = PyptxKernel(text_of(name), outer, params, range_of(name), range_of(decorated))
        found = (_call(call, kernel, constants) for call in calls)
        yield PyptxKernel(
            kernel.name,
            outer,
            params,
            kernel.name_range,
            kernel.range,
            tuple(one for one in found if one is not None),
        )


def _around(node: Node) -> Iterator[Node]:
    """Yield the functions and classes around a node, the innermost first."""
    current = node.parent
    while current is not None:
        if current.type in ("class_definition", "function_definition"):
            yield current
        current = current.parent


def _params(function: Node, *, keyword_only: bool) -> Iterator[tuple[str, str | None]]:
    """Yield parameters with their defaults."""
    params = function.child_by_field_name("parameters")
    wanted = not keyword_only
    for node in params.named_children if params is not None else ():
        if node.type in ("keyword_separator", "list_splat_pattern"):
            wanted = True
            continue
        name = node if node.type == "identifier" else node.child_by_field_name("name")
        if name is None and node.type == "typed_parameter" and node.named_children:
            name = node.named_children[0]
        if wanted and name is not None and name.type == "identifier":
            value = node.child_by_field_name("value")
            yield text_of(name), text_of(value) if value is not None else None


def _call(call: Node, kernel: PyptxKernel, constants: Mapping[str, int]) -> PyptxCall | None:
    """Return a call that gives a kernel its sizes; None for another one, or if a value is not known."""
    called = text_of(call.child_by_field_name("function"))
    if called != (kernel.builder or f"{kernel.name}.ptx"):
        return None
    positional, keywords = call_arguments(call)
    names = [*kernel.params]
    if len(positional) > len(names) or (kernel.builder is None and positional):
        return None
    arguments = {**dict(zip(names, positional, strict=False)), **keywords}
    values = {name: _integer(text_of(node), constants) for name, node in arguments.items()}
    known = {name: value for name, value in values.items() if value is not None}
    # A value that is not an integer may be one of a parameter with a default, such as the architecture.
    if any(kernel.params.get(name) is None for name in values.keys() - known.keys()):
        return None
    if any(default is None and name not in known for name, default in kernel.params.items() if kernel.builder):
        return None
    return PyptxCall(range_of(call), known) if known or not kernel.params else None


def _constants(root: Node) -> Iterator[tuple[str, int]]:
    """Yield the names at the top level of a module that are assigned an integer."""
    for statement in root.named_children:
        node = statement.named_children[0] if statement.named_children else None
        if statement.type != "expression_statement" or node is None or node.type != "assignment":
            continue
        value = text_of(node.child_by_field_name("right"))
        if _INTEGER.fullmatch(value):
            yield text_of(node.child_by_field_name("left")), int(value)


def _integer(text: str, constants: Mapping[str, int]) -> int | None:
    return int(text) if _INTEGER.fullmatch(text) else constants.get(text)
