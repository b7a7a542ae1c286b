"""Functions and classes of a module, and objects of its classes: modules, and the context of an autograd function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tree_sitter import Node

from gpuemu_lsp.engine.plan.wrappers.kernel_accesses import parameter_names
from gpuemu_lsp.engine.plan.wrappers.values import (
    LiteralValue,
    LocalFunction,
    ObjectValue,
    Storage,
    SymbolicTensor,
    UnknownValue,
    Value,
    ValueSequence,
)
from gpuemu_lsp.engine.source.python.syntax import text_of

Methods = Mapping[str, Node]
"""The methods of a class by name."""
_BLOCKS = frozenset(
    {"if_statement", "try_statement", "block", "else_clause", "elif_clause", "except_clause", "with_statement"}
)
CONTEXT = "ctx"
"""The first parameter of the methods of an autograd function, by convention."""


def functions_of(root: Node) -> dict[str, Node]:
    """Return the functions of a module by name, those that a condition defines included."""
    return {text_of(one.child_by_field_name("name")): one for one in _functions(root)}


def _functions(root: Node) -> Iterator[Node]:
    for node in root.named_children:
        if node.type in _BLOCKS:
            yield from _functions(node)
        elif node.type == "decorated_definition":
            inner = node.child_by_field_name("definition")
            if inner is not None and inner.type == "function_definition":
                yield inner
        elif node.type == "function_definition":
            yield node


def classes_of(root: Node) -> dict[str, dict[str, Node]]:
    """Return the methods of the classes at the top level of a module."""
    found: dict[str, dict[str, Node]] = {}
    for node in root.named_children:
        inner = node.child_by_field_name("definition") if node.type == "decorated_definition" else node
        if inner is None or inner.type != "class_definition":
            continue
        methods: dict[str, Node] = {}
        body = inner.child_by_field_name("body")
        for member in body.named_children if body is not None else ():
            method = member.child_by_field_name("definition") if member.type == "decorated_definition" else member
            if method is not None and method.type == "function_definition":
                methods[text_of(method.child_by_field_name("name"))] = method
        found[text_of(inner.child_by_field_name("name"))] = methods
    return found


def is_static(method: Node) -> bool:
    """Return whether a method is decorated as a static one."""
    parent = method.parent
    return parent is not None and any(
        child.type == "decorator" and text_of(child).lstrip("@").strip() == "staticmethod" for child in parent.children
    )


def is_autograd(methods: Methods) -> bool:
    """Return whether a class is an autograd function: its ``forward`` takes the context."""
    forward = methods.get("forward")
    return forward is not None and next(iter(parameter_names(forward)), "") == CONTEXT


def dictionary(keys: Sequence[Value], values: Sequence[Value]) -> Value:
    """Return a dictionary as an object with the attributes of its keys; unknown unless all of them are text."""
    names = [one.value for one in keys if isinstance(one, LiteralValue) and isinstance(one.value, str)]
    if len(names) != len(keys):
        return UnknownValue("a dictionary")
    return ObjectValue({}, dict(zip(names, values, strict=True)))


def attribute_of(owner: ObjectValue, name: str, text: str) -> Value:
    """Return an attribute of an object; ``text`` is the expression."""
    if name in owner.attributes:
        return owner.attributes[name]
    method = owner.methods.get(name)
    if method is not None:
        return LocalFunction(method, {}, None if is_static(method) else owner)
    return UnknownValue(text)


def call_method(owner: ObjectValue, name: str, positional: tuple[Value, ...]) -> bool:
    """Apply a method of PyTorch's classes to an object; False for one that is not known."""
    if name == "save_for_backward":
        owner.attributes["saved_tensors"] = ValueSequence(positional)
    elif name in ("register_buffer", "register_parameter") and len(positional) > 1:
        label = getattr(positional[0], "value", None)
        if isinstance(label, str):
            owner.attributes[label] = positional[1]
    elif name == "update" and all(isinstance(one, ObjectValue) for one in positional):
        for one in positional:
            owner.attributes |= one.attributes if isinstance(one, ObjectValue) else {}
    else:
        return False
    return True


def as_members(owner: ObjectValue) -> None:
    """Make the tensors of a module those of an existing object, whose extents other calls determine."""
    for name, value in owner.attributes.items():
        if isinstance(value, SymbolicTensor):
            owner.attributes[name] = _given(name, value, certain=False)


def gradients(outputs: Value, names: tuple[str, ...]) -> dict[str, Value]:
    """Return the gradients that ``backward`` gets, by parameter: they have the shapes of the outputs."""
    items = outputs.items if isinstance(outputs, ValueSequence) else (outputs,)
    return {
        name: _given(name, one, certain=one.storage.certain)
        for name, one in zip(names, items, strict=False)
        if isinstance(one, SymbolicTensor)
    }


def _given(name: str, tensor: SymbolicTensor, *, certain: bool) -> SymbolicTensor:
    storage = Storage(name, tensor.shape, tensor.dtype, "given", certain, tensor.storage.bounds)
    return SymbolicTensor(storage, tensor.shape, tensor.dtype)
