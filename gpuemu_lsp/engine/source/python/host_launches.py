"""Launches of compiled kernels in Python, written as the host code of a ``.cu`` would have them.

``k((grid,), (block,), (x, y, n))`` of CuPy and ``f(x, y, n, block=..., grid=...)`` of PyCUDA become a function with
``k<<<dim3(grid), dim3(block)>>>(x, y, n)``, which the reader of host code understands. What is not integer arithmetic
is left out: a launch whose grid is not known says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.mapped_text import MappedText
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.strings import items, strings
from gpuemu_lsp.engine.source.python.syntax import call_arguments, called_name, descendants, text_of

_CASTS = frozenset(
    {"int", "int32", "uint32", "int64", "uint64", "intc", "uintc", "size_t", "asarray", "float32", "float64", "float"}
)
_CEIL_DIV = frozenset({"cdiv", "ceil_div", "ceildiv", "div_up", "divup"})
_MAX_DEPTH = 12


class _UnreadError(Exception):
    """An expression is not integer arithmetic."""


def launch_code(
    root: Node, scope: ModuleScope, kernels: Mapping[str, str], modules: frozenset[str]
) -> Iterator[MappedText]:
    """Yield host code for each launch of a kernel.

    ``kernels`` has the name expressions of kernels by the variables that hold them, ``modules`` the variables with
    modules whose ``get_function`` returns a kernel.
    """
    for call in descendants(root, "call"):
        kernel = kernel_of(call, scope, kernels, modules)
        text = _launch(call, scope, kernel) if kernel is not None else None
        if text is not None:
            yield MappedText.constant(text, scope.base + call.start_byte, scope.base + call.end_byte)


def function_variables(root: Node, scope: ModuleScope, modules: frozenset[str]) -> dict[str, str]:
    """Return the name expressions of the kernels that ``get_function`` returns, by variable."""
    found: dict[str, str] = {}
    for call in descendants(root, "call"):
        variable = scope.assigned(call) if called_name(call) == "get_function" else None
        name = _function_name(call, scope, modules)
        if variable is not None and name is not None:
            found[variable] = name
    return found


def _function_name(call: Node, scope: ModuleScope, modules: frozenset[str]) -> str | None:
    function = call.child_by_field_name("function")
    if called_name(call) != "get_function" or function is None or function.type != "attribute":
        return None
    owner = function.child_by_field_name("object")
    last = owner.child_by_field_name("attribute") if owner is not None and owner.type == "attribute" else owner
    positional, _ = call_arguments(call)
    names = strings(positional[0], scope) if positional else ()
    return names[0] if len(names) == 1 and text_of(last) in modules else None


def kernel_of(call: Node, scope: ModuleScope, kernels: Mapping[str, str], modules: frozenset[str]) -> str | None:
    """Return the name expression of the kernel that a call launches; None for any other call."""
    function = call.child_by_field_name("function")
    if function is not None and function.type == "subscript":
        function = function.child_by_field_name("value")
    if function is None:
        return None
    if function.type == "call":
        return _function_name(function, scope, modules)
    if function.type == "attribute":
        function = function.child_by_field_name("attribute")
    return kernels.get(text_of(function))


@dataclass(frozen=True, slots=True)
class LaunchParts:
    """The expressions of a launch; each argument with the scope of its names."""

    grid: Node
    block: Node
    shared: Node | None
    arguments: list[tuple[Node, ModuleScope]]


def launch_parts(call: Node, scope: ModuleScope) -> LaunchParts | None:
    """Return the parts of a launch; None if one of them is missing.

    Without a grid there is one block, which depends on the sizes of this call.
    """
    positional, keywords = call_arguments(call)
    function = call.child_by_field_name("function")
    arguments: list[tuple[Node, ModuleScope]] | None
    if function is not None and function.type == "subscript":
        configuration = function.children_by_field_name("subscript")
        grid, block = configuration[:2] if len(configuration) >= 2 else (None, None)
        shared = configuration[3] if len(configuration) > 3 else None
        arguments = [(one, scope) for one in positional]
    elif "block" in keywords and len(positional) != 3:
        grid, block, shared = keywords.get("grid"), keywords["block"], keywords.get("shared")
        arguments = [(one, scope) for one in positional]
    elif len(positional) >= 3 and (arguments := items(positional[2], scope)) is not None:
        grid, block, shared = positional[0], positional[1], keywords.get("shared_mem")
    elif "block" in keywords:
        grid, block, shared = keywords.get("grid"), keywords["block"], keywords.get("shared")
        arguments = [(one, scope) for one in positional]
    else:
        return None
    return LaunchParts(grid, block, shared, arguments) if grid is not None and block is not None else None


def _launch(call: Node, scope: ModuleScope, kernel: str) -> str | None:
    parts = launch_parts(call, scope)
    if parts is None:
        return None
    names = [_argument(node, number) for number, (node, _) in enumerate(parts.arguments)]
    writer = _HostCode(scope, frozenset(names))
    try:
        sizes = [
            [writer.expression(node, home) for node, home in _extent(one, scope)] for one in (parts.grid, parts.block)
        ]
        dynamic = writer.expression(parts.shared, scope) if parts.shared is not None else "0"
    except _UnreadError:
        return None
    if not writer.depends or not all(sizes):
        return None  # the launch is for the sizes of this call only
    locals_ = "".join(f"int {name} = {value}; " for name, value in writer.definitions.items())
    configuration_text = f"dim3({', '.join(sizes[0])}), dim3({', '.join(sizes[1])}), {dynamic}"
    return f"static void launch_{kernel.split('<')[0].replace('::', '_')}() {{ {locals_}" + (
        f"{kernel}<<<{configuration_text}>>>({', '.join(names)}); }}\n"
    )


def _extent(node: Node, scope: ModuleScope) -> list[tuple[Node, ModuleScope]]:
    return items(node, scope) or [(node, scope)]


def _argument(node: Node, number: int) -> str:
    """Return the C text of an argument: its name or size, behind casts, or a name of its own."""
    for _ in range(_MAX_DEPTH):
        positional, _keywords = call_arguments(node) if node.type == "call" else ([], {})
        if node.type != "call" or len(positional) != 1 or called_name(node) not in _CASTS:
            break
        node = positional[0]
    if node.type == "identifier":
        return text_of(node)
    return _size(node) or f"argument_{number}"


def _size(node: Node) -> str | None:
    """Return the C text of ``x.size``, ``x.numel()``, ``len(x)``, ``x.shape[0]`` or ``x.size(0)``; None for others."""
    function = node.child_by_field_name("function") if node.type == "call" else None
    positional, _ = call_arguments(node) if node.type == "call" else ([], {})
    if node.type == "attribute" and text_of(node).count(".") == 1 and text_of(node).endswith(".size"):
        return f"{text_of(node.child_by_field_name('object'))}.numel()"
    if node.type == "call" and text_of(function) == "len" and len(positional) == 1:
        return f"{text_of(positional[0])}.numel()" if positional[0].type == "identifier" else None
    if function is not None and function.type == "attribute":
        owner, name = function.child_by_field_name("object"), called_name(node)
        if owner is not None and owner.type == "identifier" and name == "numel" and not positional:
            return f"{text_of(owner)}.numel()"
        if owner is not None and owner.type == "identifier" and name == "size" and len(positional) == 1:
            return f"{text_of(owner)}.size({text_of(positional[0])})"
    if node.type == "subscript":
        value, axis = node.child_by_field_name("value"), node.child_by_field_name("subscript")
        owner = value.child_by_field_name("object") if value is not None and value.type == "attribute" else None
        if owner is not None and owner.type == "identifier" and text_of(value).endswith(".shape"):
            return f"{text_of(owner)}.size({text_of(axis)})" if text_of(axis).isdecimal() else None
    return None


class _HostCode:
    """Translation of Python expressions to C.

    ``arguments`` are the texts of the launch's arguments, which stand for themselves. ``definitions`` has the other
    names; ``depends`` is set once something is not a constant of the module.
    """

    def __init__(self, scope: ModuleScope, arguments: frozenset[str]) -> None:
        self._scope = scope
        self._arguments = arguments
        self.definitions: dict[str, str] = {}
        self.depends = False

    def expression(self, node: Node, scope: ModuleScope, depth: int = 0) -> str:
        if depth > _MAX_DEPTH:
            raise _UnreadError
        size = _size(node)
        if size is not None:
            self.depends = True
            return size
        if node.type == "integer":
            return text_of(node).replace("_", "")
        if node.type == "identifier":
            return self._name(node, scope, depth)
        if node.type == "parenthesized_expression" and len(node.named_children) == 1:
            return f"({self.expression(node.named_children[0], scope, depth + 1)})"
        if node.type == "unary_operator":
            return self._negative(node, scope, depth)
        if node.type == "binary_operator":
            sides = (node.child_by_field_name("left"), node.child_by_field_name("right"))
            sign = text_of(node.child_by_field_name("operator"))
            if sign in ("+", "-", "*", "//", "%") and None not in sides:
                left, right = (self.expression(side, scope, depth + 1) for side in sides if side is not None)
                return f"({left} {sign.replace('//', '/')} {right})"
        if node.type == "call":
            return self._call(node, scope, depth)
        raise _UnreadError

    def _name(self, node: Node, scope: ModuleScope, depth: int) -> str:
        name = text_of(node)
        if name in self._arguments:
            self.depends = True
            return name
        parts = scope.lookup(node)
        if parts is None or len(parts) != 1:
            raise _UnreadError
        value = self.expression(parts[0][0], parts[0][1], depth + 1)
        if self.definitions.setdefault(name, value) != value:
            raise _UnreadError
        return name

    def _negative(self, node: Node, scope: ModuleScope, depth: int) -> str:
        """Return ``-(-a // b)``, the quotient rounded up, as ``ceil_div(a, b)``; C rounds towards zero."""
        inner = node.child_by_field_name("argument")
        while inner is not None and inner.type == "parenthesized_expression":
            inner = inner.named_children[0]
        left = inner.child_by_field_name("left") if inner is not None else None
        right = inner.child_by_field_name("right") if inner is not None else None
        divided = inner is not None and text_of(inner.child_by_field_name("operator")) == "//"
        if divided and left is not None and right is not None and left.type == "unary_operator":
            argument = left.child_by_field_name("argument")
            if argument is not None and text_of(left).startswith("-"):
                parts = (self.expression(one, scope, depth + 1) for one in (argument, right))
                return f"ceil_div({', '.join(parts)})"
        raise _UnreadError

    def _call(self, node: Node, scope: ModuleScope, depth: int) -> str:
        name = called_name(node)
        positional, _ = call_arguments(node)
        if name == "ceil" and len(positional) == 1 and positional[0].type == "binary_operator":
            quotient = positional[0]
            sides = (quotient.child_by_field_name("left"), quotient.child_by_field_name("right"))
            if text_of(quotient.child_by_field_name("operator")) == "/":
                return f"ceil_div({', '.join(self.expression(one, scope, depth + 1) for one in sides if one)})"
        parts = [self.expression(one, scope, depth + 1) for one in positional]
        if name in _CASTS and len(parts) == 1:
            return parts[0]
        if name in _CEIL_DIV and len(parts) == 2:
            return f"ceil_div({parts[0]}, {parts[1]})"
        if name in ("min", "max") and len(parts) == 2:
            return f"{name}({parts[0]}, {parts[1]})"
        raise _UnreadError
