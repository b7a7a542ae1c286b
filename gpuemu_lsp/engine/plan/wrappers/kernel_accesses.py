"""What a Triton kernel does with its parameters: loads, stores, and addresses that depend on loaded values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.syntax import call_arguments, called_name, descendants, text_of

_PASSES = 3
"""Traversals of a body: a pointer that a loop advances is known after the second."""
_MAX_DEPTH = 6
_LOADS = frozenset({"load"})
_STORES = frozenset({"store"})
_OPERATIONS = frozenset({"binary_operator", "comparison_operator"})
_OF_NUMBERS = frozenset({"*", "/", "//", "%", "<<", ">>", "<", "<=", ">", ">="})
"""Operators that have no pointer among their operands in Triton's language."""

_EXTENTS = frozenset({"arange", "zeros", "full", "reshape", "view", "broadcast_to"})
"""Functions whose arguments are extents."""

_Origins = frozenset[tuple[str, bool]]
"""Parameters that a value comes from; True for a value loaded through the parameter."""
_NONE: _Origins = frozenset()
_Call: TypeAlias = "tuple[int, int, tuple[tuple[str, _Origins], ...]]"
"""A function by the id of its node, the depth of the call, and the origins of its arguments by parameter."""


@dataclass(slots=True)
class KernelAccesses:
    """Parameters by what the kernel does with them.

    ``indices`` are those whose elements are part of an address or of the bounds of a loop. ``unknown`` are passed to
    functions of other modules. ``numbers`` are multiplied, divided or compared by size, which pointers are not.
    ``bounds`` are compared by size as they are: ``offsets < n``. The elements of ``masks`` are part of a mask, those of
    ``ordered`` are compared by size, which those of a mask are not. ``lengths`` are extents of tensors of the language:
    ``tl.arange(0, BLOCK)``.
    """

    loaded: set[str] = field(default_factory=set)
    stored: set[str] = field(default_factory=set)
    atomic: set[str] = field(default_factory=set)
    indices: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    masks: set[str] = field(default_factory=set)
    ordered: set[str] = field(default_factory=set)
    numbers: set[str] = field(default_factory=set)
    bounds: set[str] = field(default_factory=set)
    lengths: set[str] = field(default_factory=set)
    indexed: dict[str, set[str]] = field(default_factory=dict)
    """By parameter of ``indices``, those whose addresses its elements are part of."""

    def uses(self, name: str) -> bool:
        """Return whether the kernel does anything with a parameter that may access memory."""
        return any(name in names for names in (self.loaded, self.stored, self.atomic, self.indices, self.unknown))


def kernel_accesses(function: Node, functions: Mapping[str, Node]) -> KernelAccesses:
    """Return the accesses of a kernel; ``functions`` are those of its module, which it may call."""
    found = KernelAccesses()
    names = parameter_names(function)
    _Body(found, functions, {name: frozenset({(name, False)}) for name in names}, 0, {}).run(function)
    return found


def parameter_names(function: Node) -> list[str]:
    """Return the names of the parameters of a function, without ``*`` and ``**``."""
    params = function.child_by_field_name("parameters")
    found = []
    for node in params.named_children if params is not None else ():
        name = node if node.type == "identifier" else node.child_by_field_name("name")
        if name is None and node.type == "typed_parameter":
            name = node.named_children[0]
        if name is not None and name.type == "identifier":
            found.append(text_of(name))
    return found


class _Body:
    """The flow of values through one function."""

    def __init__(
        self,
        found: KernelAccesses,
        functions: Mapping[str, Node],
        names: dict[str, _Origins],
        depth: int,
        traversed: dict[_Call, _Origins],
    ) -> None:
        self._found = found
        self._functions = functions
        self._names = names
        self._depth = depth
        self._traversed = traversed

    def run(self, function: Node) -> _Origins:
        """Traverse the body; return the origins of what it returns."""
        returned = _NONE
        body = function.child_by_field_name("body")
        for _ in range(_PASSES if body is not None else 0):
            assert body is not None
            returned = self._statements(body, returned)
        return returned

    def _statements(self, body: Node, returned: _Origins) -> _Origins:
        for node in descendants(
            body, "assignment", "augmented_assignment", "for_statement", "expression_statement", "return_statement"
        ):
            if node.type in ("assignment", "augmented_assignment"):
                value = self._origins(node.child_by_field_name("right"))
                self._bind(node.child_by_field_name("left"), value)
            elif node.type == "for_statement":
                self._bind(node.child_by_field_name("left"), self._origins(node.child_by_field_name("right")))
            elif node.type == "return_statement":
                for child in node.named_children:
                    returned |= self._origins(child)
            elif node.named_children and node.named_children[0].type == "call":
                self._origins(node.named_children[0])
        return returned

    def _bind(self, target: Node | None, value: _Origins) -> None:
        if target is None:
            return
        for name in descendants(target, "identifier"):
            self._names[text_of(name)] = self._names.get(text_of(name), _NONE) | value

    def _origins(self, node: Node | None) -> _Origins:
        if node is None:
            return _NONE
        if node.type == "identifier":
            return self._names.get(text_of(node), _NONE)
        if node.type == "call":
            return self._call(node)
        if node.type == "attribute":
            return self._origins(node.child_by_field_name("object"))
        result = _NONE
        for child in node.named_children:
            result |= self._origins(child)
        operators = {child.type for child in node.children if not child.is_named}
        if node.type in _OPERATIONS and operators & _OF_NUMBERS:
            direct = {one for one, loaded in result if not loaded}
            self._found.numbers |= direct
            if node.type == "comparison_operator":
                self._found.bounds |= direct
                self._found.ordered |= {one for one, loaded in result if loaded}
            return frozenset((one, loaded) for one, loaded in result if loaded)
        return result

    def _call(self, node: Node) -> _Origins:
        positional, keywords = call_arguments(node)
        name, function = called_name(node), node.child_by_field_name("function")
        arguments = [self._origins(one) for one in positional]
        by_name = {key: self._origins(one) for key, one in keywords.items()}
        everything = frozenset().union(*arguments, *by_name.values())
        owner = (
            function.child_by_field_name("object") if function is not None and function.type == "attribute" else None
        )
        named = owner is not None and owner.type in ("identifier", "attribute")
        if owner is not None and owner.type == "identifier" and (name in _LOADS or name in _STORES):
            described = self._origins(owner)
            if described:
                return self._access(name, described)
        library = named and text_of(owner).split(".")[0] in ("tl", "triton", "language", "libdevice")
        if library and (name in _LOADS or name in _STORES or name.startswith("atomic_")):
            pointer = arguments[0] if arguments else by_name.get("pointer", _NONE)
            mask = by_name.get("mask", arguments[1] if name in _LOADS and len(arguments) > 1 else _NONE)
            self._found.masks |= {one for one, loaded in mask if loaded}
            return self._access(name, pointer)
        if library and name in _EXTENTS:
            # Of ``HALF // 2`` too, whose origins are none, as it is a number.
            read = [name for one in (*positional, *keywords.values()) for name in descendants(one, "identifier")]
            self._found.lengths |= {one for name in read for one, _ in self._names.get(text_of(name), _NONE)}
        if library and name.endswith("make_tensor_descriptor"):
            return arguments[0] if arguments else by_name.get("base", _NONE)
        called = self._functions.get(name) if owner is None else None
        if called is not None and self._depth < _MAX_DEPTH:
            names = parameter_names(called)
            inner = dict(zip(names, arguments, strict=False)) | by_name
            # Each pass of a body would traverse the functions that it calls again, and those the ones that they call.
            call = called.id, self._depth, tuple(sorted(inner.items()))
            if call not in self._traversed:
                body = _Body(self._found, self._functions, inner, self._depth + 1, self._traversed)
                self._traversed[call] = body.run(called)
            return self._traversed[call]
        foreign = owner is None or (owner.type == "identifier" and text_of(owner) not in self._names)
        if foreign and not library and name not in _BUILTINS:
            self._found.unknown |= {one for one, loaded in everything if not loaded}
        return everything | (self._origins(owner) if owner is not None and not library else _NONE)

    def _access(self, name: str, pointer: _Origins) -> _Origins:
        direct = {one for one, loaded in pointer if not loaded}
        for index in {one for one, loaded in pointer if loaded}:
            self._found.indices.add(index)
            self._found.indexed.setdefault(index, set()).update(direct)
        if name not in _STORES:
            self._found.loaded |= direct
        if name not in _LOADS:
            self._found.stored |= direct
        if name.startswith("atomic_"):
            self._found.atomic |= direct
        return frozenset((one, True) for one in direct)


_BUILTINS = frozenset({"range", "min", "max", "float", "int", "len", "print", "abs", "sum", "zip", "isinstance"})
