"""A PyTorch model next to its CUDA version in one file, as in KernelBench.

The file has ``class Model`` with the forward pass in PyTorch, ``class ModelNew`` whose forward pass calls a function of
an extension, and ``get_inputs()``. Nothing of it is executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tree_sitter import Node

from gpuemu_lsp.engine.findings import Range
from gpuemu_lsp.engine.source.python.constants import UnknownText, constant
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.syntax import call_arguments, called_name, descendants, enclosing_function, text_of

MODEL, NEW_MODEL = "Model", "ModelNew"
_ANSWER = re.compile(rf"^class\s+({NEW_MODEL})\b", re.MULTILINE)
_SAME_VALUES = frozenset({"contiguous", "cuda", "float", "double", "half", "to", "cpu", "detach", "clone", "type"})
"""Methods of a tensor whose result has the same elements."""
_CONSTRUCTORS = frozenset({"rand", "randn", "ones", "zeros", "empty", "randint", "full", "rand_like", "randn_like"})


@dataclass(frozen=True, slots=True)
class ModelPair:
    """A model and the function of an extension that computes its forward pass.

    ``arguments`` are the parameters of ``Model.forward`` that the function gets, in the order of the call, None for
    anything else. ``shapes`` has the sizes of the inputs by parameter: names of the module, or numbers. ``sizes`` has
    the values of these names, ``fixed`` those among them on which the model's own arguments depend.
    """

    function: str
    parameters: tuple[str, ...]
    arguments: tuple[str | None, ...]
    shapes: dict[str, tuple[str | int, ...]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    fixed: frozenset[str] = frozenset()


def answer_name(text: str) -> Range | None:
    """Return the place of the name of the class that answers a benchmark's task, None if a module has none."""
    answer = _ANSWER.search(text)
    if answer is None:
        return None
    line, start = text.count("\n", 0, answer.start()), text.rfind("\n", 0, answer.start()) + 1
    return Range.of(line, answer.start(1) - start, line, answer.end(1) - start)


def find_model_pair(scope: ModuleScope) -> ModelPair | None:
    """Return the pair of a module, None if it has none, or ``ModelNew`` does more than call one function."""
    forward, new_forward = _forward(scope, MODEL), _forward(scope, NEW_MODEL)
    if forward is None or new_forward is None:
        return None
    call = _same_values(_returned(new_forward), scope)
    if call is None or call.type != "call":
        return None
    names, new_names = _parameters(forward), _parameters(new_forward)
    renamed = dict(zip(new_names, names, strict=False))
    positional, _ = call_arguments(call)
    arguments = [_same_values(one, scope) for one in positional]
    given = tuple(renamed.get(text_of(one)) if one is not None else None for one in arguments)
    shapes: dict[str, tuple[str | int, ...]] = {}
    sizes: dict[str, int] = {}
    for name, (tensor, home) in zip(names, _inputs(scope), strict=False):
        shape = _shape(tensor, home, sizes)
        if shape is not None:
            shapes[name] = shape
    init = scope.function("get_init_inputs")
    used = {text_of(one) for one in descendants(init, "identifier")} if init is not None else set()
    return ModelPair(called_name(call), names, given, shapes, sizes, frozenset(used & sizes.keys()))


def _forward(scope: ModuleScope, owner: str) -> Node | None:
    for node in descendants(scope.root, "class_definition"):
        if text_of(node.child_by_field_name("name")) == owner:
            for function in descendants(node, "function_definition"):
                if text_of(function.child_by_field_name("name")) == "forward":
                    return function
    return None


def _parameters(function: Node) -> tuple[str, ...]:
    found = function.child_by_field_name("parameters")
    names = []
    for child in found.named_children if found is not None else ():
        name = child.child_by_field_name("name")
        names.append(text_of(child if child.type == "identifier" else name or child.named_children[0]))
    return tuple(names[1:])


def _returned(function: Node) -> Node | None:
    found = [one for one in descendants(function, "return_statement") if enclosing_function(one) == function]
    return found[0].named_children[0] if len(found) == 1 and found[0].named_children else None


def _same_values(node: Node | None, scope: ModuleScope) -> Node | None:
    """Return the expression behind names and methods such as ``contiguous`` that do not change the elements."""
    for _ in range(8):
        if node is None:
            return None
        if node.type == "call":
            function = node.child_by_field_name("function")
            owner = function.child_by_field_name("object") if function is not None else None
            if owner is None or called_name(node) not in _SAME_VALUES or text_of(owner) == "torch":
                return node
            node = owner
        elif node.type == "parenthesized_expression":
            node = node.named_children[0]
        elif node.type == "identifier":
            parts = scope.lookup(node)
            if parts is None or len(parts) != 1 or parts[0][0] == node:
                return node
            node = parts[0][0]
        else:
            return node
    return None


def _inputs(scope: ModuleScope) -> Iterator[tuple[Node, ModuleScope]]:
    function = scope.function("get_inputs")
    value = _same_values(_returned(function), scope) if function is not None else None
    for item in value.named_children if value is not None and value.type in ("list", "tuple") else ():
        found = _same_values(item, scope)
        if found is not None:
            yield found, scope


def _shape(node: Node, scope: ModuleScope, sizes: dict[str, int]) -> tuple[str | int, ...] | None:
    """Return the sizes of a tensor that a function of PyTorch makes; the values of names are added to ``sizes``."""
    if node.type != "call" or called_name(node) not in _CONSTRUCTORS:
        return None
    positional, keywords = call_arguments(node)
    if called_name(node) == "randint":
        positional = positional[-1:]
    whole = keywords.get("size", positional[0] if positional else None)
    if whole is not None and whole.type in ("tuple", "list"):
        positional = [one for one in whole.named_children if one.type != "comment"]
    shape: list[str | int] = []
    for one in positional:
        try:
            value = constant(one, scope)
        except UnknownText:
            return None
        if not isinstance(value, int) or value < 1:
            return None
        if one.type == "identifier":
            sizes[text_of(one)] = value
            shape.append(text_of(one))
        else:
            shape.append(value)
    return tuple(shape)
