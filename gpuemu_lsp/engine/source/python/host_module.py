"""The functions of a Python module that reach a launch, and what their parameters are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.host_expressions import CASTS
from gpuemu_lsp.engine.source.python.host_launches import LaunchParts, kernel_of, launch_parts
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.syntax import call_arguments, called_name, descendants, enclosing_function, text_of

_RESERVED = frozenset({
    "auto", "bool", "case", "catch", "char", "const", "default", "delete", "do", "double", "enum", "extern", "float",
    "goto", "int", "long", "namespace", "new", "operator", "private", "public", "register", "short", "signed", "sizeof",
    "static", "struct", "switch", "template", "this", "throw", "typedef", "union", "unsigned", "using", "void",
    "volatile", "main",
})  # fmt: skip
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_ARRAY_TYPES = re.compile(r"\b(?:Tensor|ndarray|GPUArray|DeviceAllocation|ArrayLike)\b")
_ARRAY_MEMBERS = frozenset({
    "shape", "size", "ndim", "dtype", "nbytes", "numel", "data_ptr", "device", "stride", "dim", "contiguous", "data",
    "gpudata", "astype", "flags", "is_cuda",
})  # fmt: skip
_OF_NUMBERS = CASTS | {"range", "min", "max", "cdiv", "ceil_div"}


class HostModule:
    """A module and the kernels that it launches.

    ``kernels`` has the name expressions of kernels by the variables that hold them, ``modules`` the variables with
    modules whose ``get_function`` returns a kernel. ``text`` is the CUDA code. ``functions`` are the functions of the
    module and the methods of its classes, by name; a name that is there twice has a number.
    """

    def __init__(
        self, root: Node, scope: ModuleScope, kernels: Mapping[str, str], modules: frozenset[str], text: str
    ) -> None:
        self.root, self.scope = root, scope
        self.reserved = _RESERVED | frozenset(_DEFINED.findall(text)) | frozenset(kernels.values())
        self.launches = {
            call.id: kernel
            for call in descendants(root, "call")
            if (kernel := kernel_of(call, scope, kernels, modules)) is not None
        }
        self._pointers = {name: _pointer_positions(text, name) for name in {*self.launches.values()}}
        self._arrays: dict[str, frozenset[str]] = {}

    @cached_property
    def functions(self) -> dict[str, Node]:
        """The functions by name."""
        found: dict[str, Node] = {}
        for one in descendants(self.root, "function_definition"):
            if enclosing_function(one) is None:
                name, count = text_of(one.child_by_field_name("name")), 1
                while f"{name}_{count}" in found if count > 1 else name in found:
                    count += 1
                found[name if count == 1 else f"{name}_{count}"] = one
        return found

    @cached_property
    def _calls(self) -> dict[str, frozenset[str]]:
        return {
            name: frozenset(map(called_name, descendants(one, "call"))) & self.functions.keys()
            for name, one in self.functions.items()
        }

    def reached(self) -> frozenset[str]:
        """Return the functions from which a launch is reached, and those that they call.

        A function that is passed no arrays, such as a test or a benchmark, says which sizes it tries, and nothing about
        those with which others call what it calls; but for a private function.
        """
        if not self.launches:
            return frozenset()
        found = {name for name, one in self.functions.items() if any(True for _ in self.own_launches(one))}
        before = -1
        while len(found) != before:
            before = len(found)
            private = {name for name in found if name.startswith("_") and not name.endswith("__")}
            callers = {name for name, calls in self._calls.items() if not calls.isdisjoint(found)} - found
            found |= {name for name in callers if self.arrays(name) or not self._calls[name].isdisjoint(private)}
        waiting = set(found)
        while waiting:
            waiting = {name for one in waiting for name in self._calls[one]} - found
            found |= waiting
        return frozenset(found)

    def own_launches(self, function: Node) -> Iterator[tuple[LaunchParts, str]]:
        """Yield the launches in a function, or in the module's own statements, with their kernels."""
        for call in descendants(function, "call") if self.launches else ():
            outside = function.type != "module" or enclosing_function(call) is None
            parts = launch_parts(call, self.scope) if call.id in self.launches and outside else None
            if parts is not None:
                yield parts, self.launches[call.id]

    def pointers(self, kernel: str) -> frozenset[int]:
        """Return the positions of the pointers among the parameters of a kernel."""
        return self._pointers.get(kernel, frozenset())

    def arrays(self, name: str) -> frozenset[str]:
        """Return the parameters of a function that are arrays."""
        if name not in self._arrays:
            self._arrays[name] = frozenset()
            function = self.functions[name]
            self._arrays[name] = frozenset(
                name_of(one)
                for one in parameters_of(function)
                if _ARRAY_TYPES.search(text_of(one.child_by_field_name("type"))) is not None
                or self._is_used_as_array(function, name_of(one))
            )
        return self._arrays[name]

    def _is_used_as_array(self, function: Node, name: str) -> bool:
        for one in descendants(function, "identifier"):
            parent = one.parent
            if text_of(one) != name or parent is None:
                continue
            member = parent.child_by_field_name("attribute") if parent.type == "attribute" else None
            if member is not None and parent.child_by_field_name("object") == one and text_of(member) in _ARRAY_MEMBERS:
                return True
            call = parent.parent
            if parent.type != "argument_list" or call is None:
                continue
            if called_name(call).endswith("_like") or self._is_array_of(call, one):
                return True
        return any(
            index in self.pointers(kernel) and text_of(node) == name
            for parts, kernel in self.own_launches(function)
            for index, (node, _) in enumerate(parts.arguments)
        )

    def _is_array_of(self, call: Node, argument: Node) -> bool:
        """Return whether an argument of a call of a function of the module is an array there."""
        function = self.functions.get(called_name(call))
        given = call_arguments(call)[0]
        if function is None or argument not in given:
            return False
        parameters = [name_of(one) for one in parameters_of(function)]
        index = given.index(argument)
        return index < len(parameters) and parameters[index] in self.arrays(called_name(call))

    def numbers(self, function: Node) -> set[str]:
        """Return the names that are used as numbers in a function, and never as objects."""
        found: set[str] = set()
        kinds = ("binary_operator", "comparison_operator", "unary_operator", "call", "tuple")
        for node in descendants(function, *kinds):
            parts = node.named_children
            if node.type == "call":
                parts = call_arguments(node)[0] if called_name(node) in _OF_NUMBERS else []
            if node.type != "tuple" or _is_shape(node):
                found |= {text_of(one) for one in parts if one.type == "identifier"}
        for parts_, kernel in self.own_launches(function):
            pointers = self.pointers(kernel)
            arguments = parts_.arguments if pointers else ()
            found |= {text_of(one) for index, (one, _) in enumerate(arguments) if index not in pointers}
        for node in descendants(function, "attribute", "subscript"):
            owner = node.child_by_field_name("object") or node.child_by_field_name("value")
            found.discard(text_of(owner))
        return found


def _pointer_positions(text: str, kernel: str) -> frozenset[int]:
    name = re.escape(kernel.split("<")[0].split("::")[-1])
    head = re.search(rf"__global__[^;{{}}()]*(?:\([^()]*\)[^;{{}}()]*)?\b{name}\s*\(([^(){{}}]*)\)", text)
    parameters = re.sub(r"<[^<>]*>", "", head[1]).split(",") if head is not None else []
    return frozenset(index for index, one in enumerate(parameters) if "*" in one or "[" in one)


def parameters_of(function: Node) -> list[Node]:
    """Return the parameters of a function, without the object of a method."""
    listed = function.child_by_field_name("parameters")
    found = [one for one in (listed.named_children if listed is not None else ()) if one.type != "comment"]
    return found[1:] if found and text_of(found[0]) in ("self", "cls") else found


def name_of(parameter: Node) -> str:
    """Return the name of a parameter."""
    inner = parameter.child_by_field_name("name") or next(iter(parameter.named_children), None)
    return text_of(parameter if parameter.type == "identifier" else inner)


def _is_shape(node: Node) -> bool:
    """Return whether a tuple is the shape of a new array, or the grid or block of a launch."""
    parent = node.parent
    return parent is not None and parent.type in ("argument_list", "keyword_argument")
