"""What the names of a module stand for, without running it.

A name has a value where one assignment decides it: the only one in its scope, or the last one before its use where all
of them are statements of the same block. Names from other modules of the project are looked up there; those modules are
read, never imported.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from tree_sitter import Node

from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.source.python.source_files import SourceFiles
from gpuemu_lsp.engine.source.python.syntax import (
    call_arguments,
    called_name,
    descendants,
    parameter_name,
    parameters_of,
    parse_module,
    text_of,
)

_SCOPES = frozenset({"function_definition", "lambda", "class_definition", "module"})
_MUTATORS = frozenset({"append", "extend", "insert", "remove", "pop", "clear", "update", "setdefault"})
_MAX_BYTES = 1 << 20
"""Largest module that is read for its constants."""
_MAX_PARENTS = 4
"""Folders above a module in which the modules that it imports are searched for."""
_MAX_IMPORTS = 16


@dataclass(frozen=True, slots=True)
class _Binding:
    """One assignment: ``value`` is None where what is assigned is not known. ``more``: added to the old value."""

    value: Node | None
    statement: Node
    more: bool = False
    module: tuple[str, str] | None = None
    """For an import, the name of the module and of what is imported from it, empty for the module itself."""
    home: ModuleScope | None = None
    """The scope of the names in ``value``, None for that of the statement."""

    def precedes(self, use: Node) -> bool:
        """Return whether the statement has given the name its value at a use in the same scope."""
        inside = self.statement.type == "expression_statement" and use.end_byte <= self.statement.end_byte
        return self.statement.start_byte < use.start_byte and not inside


Parts: TypeAlias = "tuple[tuple[Node, ModuleScope], ...]"
"""The expressions whose values, added, are the value of a name; each with the scope of its own names."""


@dataclass(slots=True)
class ModuleScope:
    """The names of one module. ``base`` is the origin of its first byte in ``files``."""

    root: Node
    path: str = ""
    files: SourceFiles = field(default_factory=SourceFiles)
    base: int = 0
    depth: int = 0
    active: frozenset[int] = frozenset()
    """The functions, by the identifiers of their nodes, that are called where these names are."""
    _bindings: dict[tuple[int, str], list[_Binding]] = field(default_factory=dict)
    _modules: dict[str, ModuleScope | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for node in descendants(self.root, *_COLLECTORS):
            _COLLECTORS[node.type](self, node)

    def lookup(self, name: Node) -> Parts | None:
        """Return what an identifier or attribute stands for, None if that is known only when the program runs."""
        if name.type == "attribute":
            return self._attribute(name)
        text, scope = text_of(name), scope_of(name)
        while scope is not None:
            found = self._bindings.get((scope.id, text))
            # The names of a class body are not those of its methods.
            if found is not None and (scope.type != "class_definition" or scope == scope_of(name)):
                return self._decided(found, name if scope == scope_of(name) else None, scope)
            scope = scope_of(scope)
        return None

    def within_call(self, function: Node, call: Node, caller: ModuleScope) -> ModuleScope:
        """Return the names of this module as its function sees them in one call, whose own names are in ``caller``."""
        inner = copy(self)
        inner._bindings, inner.active = dict(self._bindings), caller.active | {function.id}
        positional, keywords = call_arguments(call)
        for index, parameter in enumerate(parameters_of(function)):
            name, default = parameter_name(parameter), parameter.child_by_field_name("value")
            value = keywords.get(name) or (positional[index] if index < len(positional) else None)
            bound = self._bindings.get((function.id, name), [])
            if bound and (value is not None or default is not None):
                first = replace(bound[0], value=value or default, home=caller if value is not None else self)
                inner._bindings[function.id, name] = [first, *bound[1:]]
        return inner

    def module_value(self, name: str) -> Parts | None:
        """Return what a name of the module stands for once the module has run."""
        found = self._bindings.get((self.root.id, name))
        return self._decided(found, None, self.root) if found else None

    def assigned(self, value: Node) -> str | None:
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

    def imported_from(self, name: str) -> str:
        """Return the module that a name of this module is imported from, or is; empty for any other name."""
        found = self._bindings.get((self.root.id, name), [])
        source = found[0].module if found else None
        if source is None:
            return ""
        return source[0] if source[1] == "load" else ".".join(filter(None, source))

    def imports(self) -> dict[str, str]:
        """Return the names of modules, and of what is imported from them, with their scopes as in C++."""
        bound = ((name, binding.module) for (_, name), listed in self._bindings.items() for binding in listed)
        return {name: "::".join(filter(None, module)).replace(".", "::") for name, module in bound if module}

    def contains(self, node: Node) -> bool:
        """Return whether a node is part of this module's text, not of one that it imports."""
        top: Node | None = node
        while top is not None and top != self.root:
            top = top.parent
        return top is not None

    def function(self, name: str) -> Node | None:
        """Return the only function of the module with a name."""
        found = self._bindings.get((self.root.id, name), [])
        value = found[0].value if len(found) == 1 else None
        return value if value is not None and value.type == "function_definition" else None

    def _decided(self, found: list[_Binding], use: Node | None, scope: Node) -> Parts | None:
        """Return the value at a use in the same scope, or for a use elsewhere the value at the end of the scope."""
        if use is not None:
            found = [one for one in found if one.precedes(use)]
        if not found:
            return None
        if len(found) > 1:
            body = scope if scope.type == "module" else scope.child_by_field_name("body")
            if any(one.statement.parent != body and one.home is None for one in found):
                return None
            if use is None and sum(not one.more for one in found) > 1:
                return None  # a function sees whichever value the name has when it is called
            last = max((index for index, one in enumerate(found) if not one.more), default=0)
            found = found[last:]
        parts: list[tuple[Node, ModuleScope]] = []
        for index, one in enumerate(found):
            if one.module is not None and len(found) == 1:
                module = self._module(one.module[0]) if one.module[1] else None
                return module.module_value(one.module[1]) if module is not None else None
            if one.value is None or one.more != (index > 0):
                return None
            parts.append((one.value, one.home or self))
        return tuple(parts)

    def _attribute(self, node: Node) -> Parts | None:
        owner, name = node.child_by_field_name("object"), text_of(node.child_by_field_name("attribute"))
        if owner is None or owner.type != "identifier":
            return None
        if text_of(owner) in ("self", "cls"):
            enclosing = _enclosing_class(node)
            return self._of_class(enclosing, name) if enclosing is not None else None
        found = self._bindings.get((self.root.id, text_of(owner)), [])
        if len(found) != 1:
            return None
        if found[0].module is not None:
            source, inner = found[0].module
            module = self._module(f"{source.rstrip('.')}.{inner}" if inner and source.strip(".") else source + inner)
            return module.module_value(name) if module is not None else None
        if found[0].value is not None and found[0].value.type == "class_definition":
            return self._of_class(found[0].value, name)
        return None

    def _of_class(self, owner: Node, name: str) -> Parts | None:
        assigned = self._bindings.get((owner.id, f"self.{name}"), [])
        in_body = self._bindings.get((owner.id, name), [])
        if assigned and in_body:
            return None
        return self._decided(assigned or in_body, None, owner)

    def _module(self, name: str) -> ModuleScope | None:
        """Return a module of the project by the name under which this one imports it."""
        if name not in self._modules:
            self._modules[name] = None
            path = self._path_of(name) if self.depth < _MAX_IMPORTS and len(self._modules) <= _MAX_IMPORTS else None
            data = _read(path) if path is not None else None
            if path is not None and data is not None:
                base = self.files.add(path.as_posix(), data)
                root = parse_module(data).root_node
                self._modules[name] = ModuleScope(root, path.as_posix(), self.files, base, self.depth + 1)
        return self._modules[name]

    def _path_of(self, name: str) -> Path | None:
        if not self.path:
            return None
        parts = [part for part in name.split(".") if part]
        above = len(name) - len(name.lstrip("."))
        parents = Path(self.path).parents
        folders = parents[above - 1 : above] if above else parents[:_MAX_PARENTS]
        for folder in folders if parts else ():
            for path in (folder.joinpath(*parts).with_suffix(".py"), folder.joinpath(*parts, "__init__.py")):
                if path.is_file():
                    return path
        return None

    # ---- collection, one function for each kind of node that binds names ---------------------------------------------

    def _bind(self, target: Node | None, binding: _Binding) -> None:
        if target is None:
            return
        if target.type == "identifier":
            self._add(scope_of(target), text_of(target), binding)
        elif target.type == "attribute":
            owner, enclosing = target.child_by_field_name("object"), _enclosing_class(target)
            if enclosing is not None and text_of(owner) in ("self", "cls"):
                self._add(enclosing, f"self.{text_of(target.child_by_field_name('attribute'))}", binding)
        elif target.type != "subscript":
            for name in target.named_children:
                self._bind(name, _Binding(None, binding.statement))

    def _add(self, scope: Node | None, name: str, binding: _Binding) -> None:
        if scope is not None:
            self._bindings.setdefault((scope.id, name), []).append(binding)

    def _assignment(self, node: Node) -> None:
        target, value = node.child_by_field_name("left"), node.child_by_field_name("right")
        while value is not None and value.type == "assignment":  # a = b = "text"
            value = value.child_by_field_name("right")
        statement = _statement(node)
        if value is None or target is None:
            return
        if target.type in ("pattern_list", "tuple_pattern") and value.type in ("expression_list", "tuple"):
            pairs = list(zip(target.named_children, value.named_children, strict=False))
            if len(target.named_children) == len(value.named_children):
                for one, part in pairs:
                    self._bind(one, _Binding(part, statement))
                return
        self._bind(target, _Binding(value, statement))

    def _augmented(self, node: Node) -> None:
        plus = text_of(node.child_by_field_name("operator")) == "+="
        value = node.child_by_field_name("right") if plus else None
        self._bind(node.child_by_field_name("left"), _Binding(value, _statement(node), more=plus))

    def _unknown(self, node: Node) -> None:
        for name in ("left", "alias", "name"):
            self._bind(node.child_by_field_name(name), _Binding(None, _statement(node)))

    def _pattern(self, node: Node) -> None:
        # with open(...) as file
        context = node.parent.named_children[0] if node.parent is not None else None
        for child in node.named_children:
            value = context if child.type == "identifier" else None
            self._bind(child, _Binding(value, _statement(node)))

    def _parameters(self, node: Node) -> None:
        owner = node.parent
        for child in node.named_children if owner is not None else ():
            name = child.child_by_field_name("name")
            name = child if child.type == "identifier" else name or next(iter(child.named_children), None)
            if name is not None and owner is not None:
                self._add(owner, text_of(name), _Binding(None, child))

    def _definition(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        self._add(scope_of(node), text_of(name), _Binding(node, _statement(node)))

    def _global(self, node: Node) -> None:
        # Whatever the function assigns to the name, the value of the module's name is known only when it has run.
        function = scope_of(node)
        for name in node.named_children:
            assigned = [
                one
                for one in descendants(function or node, "assignment", "augmented_assignment")
                if text_of(one.child_by_field_name("left")) == text_of(name)
            ]
            if assigned:
                self._add(self.root, text_of(name), _Binding(None, _statement(node)))

    def _import(self, node: Node) -> None:
        source = text_of(node.child_by_field_name("module_name"))
        for child in node.children_by_field_name("name"):
            inner = child.child_by_field_name("name") if child.type == "aliased_import" else child
            alias = child.child_by_field_name("alias")
            name = text_of(inner)
            module = (source, name) if node.type == "import_from_statement" else (name, "")
            bound = text_of(alias) if alias is not None else name.split(".")[0]
            self._add(scope_of(node), bound, _Binding(None, _statement(node), module=module))

    def _mutation(self, node: Node) -> None:
        function = node.child_by_field_name("function")
        owner = function.child_by_field_name("object") if function is not None else None
        if owner is not None and called_name(node) in _MUTATORS and owner.type == "identifier":
            scope: Node | None = scope_of(owner)
            while scope is not None and (scope.id, text_of(owner)) not in self._bindings:
                scope = scope_of(scope)
            self._add(scope, text_of(owner), _Binding(None, _statement(node), more=True))


_COLLECTORS = {
    "assignment": ModuleScope._assignment,
    "named_expression": ModuleScope._unknown,
    "augmented_assignment": ModuleScope._augmented,
    "for_statement": ModuleScope._unknown,
    "for_in_clause": ModuleScope._unknown,
    "as_pattern_target": ModuleScope._pattern,
    "parameters": ModuleScope._parameters,
    "lambda_parameters": ModuleScope._parameters,
    "function_definition": ModuleScope._definition,
    "class_definition": ModuleScope._definition,
    "global_statement": ModuleScope._global,
    "import_statement": ModuleScope._import,
    "import_from_statement": ModuleScope._import,
    "call": ModuleScope._mutation,
}


def scope_of(node: Node) -> Node | None:
    """Return the function, class or module whose names a node uses; for these themselves, the one around them."""
    parent, child = node.parent, node
    while parent is not None:
        # A decorator or a default value is evaluated outside of the function.
        if parent.type in _SCOPES and (parent.type == "module" or child.type not in ("identifier", "decorator")):
            return parent
        child = parent
        parent = parent.parent
    return None


def _enclosing_class(node: Node) -> Node | None:
    parent = node.parent
    while parent is not None and parent.type != "class_definition":
        parent = parent.parent
    return parent


def _statement(node: Node) -> Node:
    """Return the statement of a block or module that contains a node."""
    parent = node.parent
    while parent is not None and parent.type not in ("module", "block"):
        node, parent = parent, parent.parent
    return node


def _read(path: Path) -> bytes | None:
    try:
        data = file_bytes(path, _MAX_BYTES)
        data.decode()
    except (OSError, UnicodeDecodeError):
        return None
    return data
