"""The declarations of a Python module: its functions and kernels, classes, variables, and what it imports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from tree_sitter import Node

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.program import (
    FunctionBody,
    HostFunction,
    HostProgram,
    HostStruct,
    HostVariable,
    MemberVariable,
)
from gpuemu_lsp.engine.hostcode.python.lower import PythonLowering
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.syntax import call_arguments, text_of

_BLOCKS = frozenset(
    {"if_statement", "try_statement", "block", "else_clause", "elif_clause", "except_clause", "with_statement"}
)
_CONSTRUCTOR = "__init__"
MODULE = "<module>"
"""Name of the function that stands for the statements of a module."""
_GLOBAL = re.compile(rb"\bglobal\s+([\w, ]+)")
_Types: TypeAlias = "Callable[[Node], Mapping[str, str]]"
_Lower: TypeAlias = "Callable[[PythonLowering, Node, _Types], FunctionBody]"


def definitions(block: Node | None, *, nested: bool = True) -> Iterator[Node]:
    """Yield the functions and classes that statements define, those that a condition defines included."""
    for node in block.named_children if block is not None else ():
        if node.type in _BLOCKS and nested:
            yield from definitions(node)
        inner = node.child_by_field_name("definition") if node.type == "decorated_definition" else node
        if inner is not None and inner.type in ("function_definition", "class_definition"):
            yield inner


def functions_of(root: Node) -> dict[str, Node]:
    """Return the functions of a module by name."""
    return {name_of(node): node for node in definitions(root) if node.type == "function_definition"}


def classes_of(root: Node) -> dict[str, Node]:
    """Return the classes of a module by name."""
    return {name_of(node): node for node in definitions(root) if node.type == "class_definition"}


def methods_of(owner: Node) -> dict[str, Node]:
    """Return the methods of a class by name."""
    body = owner.child_by_field_name("body")
    return {name_of(node): node for node in definitions(body) if node.type == "function_definition"}


def name_of(definition: Node) -> str:
    """Return the name of a function or class."""
    return text_of(definition.child_by_field_name("name"))


def decorators(definition: Node) -> Iterator[Node]:
    """Yield the expressions of the decorators of a function or class."""
    parent = definition.parent
    for child in parent.children if parent is not None and parent.type == "decorated_definition" else ():
        if child.type == "decorator" and child.named_children:
            yield child.named_children[0]


def is_static(method: Node) -> bool:
    """Return whether a method has no object."""
    return any(text_of(each) == "staticmethod" for each in decorators(method))


def python_program(
    scope: ModuleScope,
    kernels: Mapping[str, Node],
    home: ModuleScope | None = None,
    meaning: Callable[[ModuleScope, Node], ir.Expression | None] = lambda scope, node: None,
    types: Callable[[Node], Mapping[str, str]] = lambda function: {},
) -> HostProgram:
    """Return the declarations of a module.

    Parameters
    ----------
    scope
        The module.
    kernels
        Its kernels by their names in the module.
    home
        The module that defines the kernels, if that is another one.
    meaning
        Returns what a name, an attribute or a call stands for, None for one that is lowered as it is written.
    types
        Returns the types of a function's parameters as far as its code shows them.
    """
    return _Reader(scope, kernels, home or scope, meaning, types).read()


@dataclass(slots=True)
class _Reader:
    scope: ModuleScope
    kernels: Mapping[str, Node]
    home: ModuleScope
    meaning: Callable[[ModuleScope, Node], ir.Expression | None]
    types: Callable[[Node], Mapping[str, str]]
    classes: dict[str, Node] = field(default_factory=dict)
    others: dict[str, HostProgram] = field(default_factory=dict)
    """Programs of other modules by path."""

    def read(self) -> HostProgram:
        self.classes = classes_of(self.scope.root)
        program = HostProgram({}, lambda code: None, _global_names, kernels={name: [] for name in self.kernels})
        program.imported = self._imported
        for name, node in self.kernels.items():
            program.functions[name] = [self._function(program, name, node, _kernel_body)]
        for name, node in functions_of(self.scope.root).items():
            program.functions.setdefault(name, [self._function(program, name, node, _function_body)])
        for owner, node in self.classes.items():
            program.structs[owner] = HostStruct(owner, partial(self._members, node))
            for name, method in methods_of(node).items():
                label = owner if name == _CONSTRUCTOR else name
                function = replace_owner(self._function(program, label, method, _method_body), owner)
                program.functions.setdefault(label, []).append(function)
        program.functions[MODULE] = [self._function(program, MODULE, self.scope.root, _function_body)]
        for name in {text_of(node.child_by_field_name("left")) for node in _assignments(self.scope.root)}:
            variable = self._variable(name)
            if variable is not None:
                program.variables[name] = variable
        return program

    def _function(self, program: HostProgram, name: str, node: Node, lower: _Lower) -> HostFunction:
        line = node.start_point[0]
        lowering = self._lowering(self.home if name in self.kernels else self.scope, line)
        body = partial(lower, lowering, node, self.types)
        return HostFunction(name, self.scope.path, line, node.text or b"", body, program, launches=True)

    def _lowering(self, scope: ModuleScope, line: int) -> PythonLowering:
        return PythonLowering(lambda call: None, _Names(scope, self.classes), line, partial(self.meaning, scope))

    def _members(self, owner: Node) -> tuple[MemberVariable, ...]:
        """Return the members that the body of a class assigns or declares."""
        body = owner.child_by_field_name("body")
        lowering = self._lowering(self.scope, 0)
        members = []
        for node in _assignments(body) if body is not None else ():
            value = node.child_by_field_name("right")
            default = lowering.expression(value) if value is not None else None
            members.append(MemberVariable(text_of(node.child_by_field_name("left")), "auto", default=default))
        return tuple(members)

    def _variable(self, name: str) -> HostVariable | None:
        """Return a variable of the module, or of the module that it is imported from, with one value."""
        parts = self.scope.module_value(name)
        if parts is None or len(parts) != 1 or parts[0][0].type in ("function_definition", "class_definition"):
            return None
        value, home = parts[0]
        lowering = self._lowering(home, 0)
        return HostVariable(value.text or b"", lambda: (ir.Declare(name, "auto", lowering.expression(value)),))

    def _imported(self, name: str) -> HostFunction | HostVariable | None:
        """Return a function or variable of another module of the project."""
        parts = self.scope.module_value(name) if self.scope.imported_from(name) else None
        if parts is None or len(parts) != 1:
            return None
        node, home = parts[0]
        if node.type != "function_definition":
            return self._variable(name)
        if home.path not in self.others:
            self.others[home.path] = python_program(home, {})
        return next(iter(self.others[home.path].functions.get(name_of(node), ())), None)


@dataclass(slots=True)
class _Names(Mapping[str, str]):
    """What the names of a module stand for that are not variables or functions: classes and what it imports."""

    scope: ModuleScope
    classes: Mapping[str, Node]

    def __getitem__(self, name: str) -> str:
        if name in self.classes:
            return name
        source = self.scope.imported_from(name)
        if not source or self.scope.module_value(name) is not None:
            raise KeyError(name)
        return source.replace("...", "").replace(".", "::").strip(":") or name

    def __iter__(self) -> Iterator[str]:
        return iter(self.classes)

    def __len__(self) -> int:
        return len(self.classes)


def replace_owner(function: HostFunction, owner: str) -> HostFunction:
    """Return a function as a method of a class."""
    return replace(function, owner=owner, may_be_member=True)


def _assignments(block: Node) -> Iterator[Node]:
    for node in block.named_children:
        if node.type in _BLOCKS:
            yield from _assignments(node)
        for child in node.named_children if node.type == "expression_statement" else ():
            if child.type == "assignment" and _is_name(child.child_by_field_name("left")):
                yield child


def _is_name(node: Node | None) -> bool:
    return node is not None and node.type == "identifier"


def _function_body(lowering: PythonLowering, node: Node, types: _Types) -> FunctionBody:
    return lowering.function(node, types(node))


def _method_body(lowering: PythonLowering, node: Node, types: _Types) -> FunctionBody:
    listed = node.child_by_field_name("parameters")
    first = text_of(listed.named_children[0]) if listed is not None and listed.named_children else ""
    return (lowering if is_static(node) else replace(lowering, this=first)).function(node, types(node))


def _kernel_body(lowering: PythonLowering, node: Node, types: _Types) -> FunctionBody:
    """Return a kernel's parameters; the default of one that a function of the others computes is that function."""
    computed: dict[str, ir.Expression] = {}
    for decorator in decorators(node):
        if text_of(decorator.child_by_field_name("function")).endswith("heuristics"):
            positional, keywords = call_arguments(decorator)
            table = lowering.expression(next(iter((*positional, *keywords.values())), None))
            computed |= dict(zip(table.names, table.items, strict=False)) if isinstance(table, ir.ListValue) else {}
    parameters = lowering.parameters(node)
    return FunctionBody(
        tuple(replace(each, default=computed.get(each.name)) if each.name in computed else each for each in parameters),
        None,
    )


def _global_names(function: HostFunction) -> Iterator[str]:
    """Yield the variables of the module that a function may assign."""
    for match in _GLOBAL.finditer(function.code):
        yield from (name.decode().strip() for name in match[1].split(b","))
