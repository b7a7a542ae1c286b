"""Triton kernels and their launches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.model import TritonKernel, TritonLaunch, TritonParam
from gpuemu_lsp.engine.source.python.syntax import (
    call_arguments,
    descendants,
    enclosing_function,
    range_of,
    text_of,
)

_JIT = re.compile(r"@\s*(?:triton\s*\.\s*)?jit\b")
_AUTOTUNE = re.compile(r"@\s*(?:triton\s*\.\s*)?autotune\b")
_HEURISTICS = re.compile(r"@\s*(?:triton\s*\.\s*)?heuristics\b")


def triton_kernels(root: Node) -> tuple[tuple[TritonKernel, ...], tuple[TritonLaunch, ...]]:
    """Return the functions with ``@triton.jit`` and the launches of a module, in the order of the text."""
    nodes = list(descendants(root, "decorated_definition", "call", "identifier"))
    kernels = list(_kernels(one for one in nodes if one.type == "decorated_definition"))
    names = {kernel.name for kernel in kernels}
    launches = tuple(one for one in _launches(one for one in nodes if one.type == "call") if one.kernel in names)
    launched = {launch.kernel for launch in launches}
    identifiers = (one for one in nodes if one.type == "identifier")
    launched |= {text_of(one) for one in identifiers if text_of(one) in names and is_launched(one)}
    return tuple(replace(kernel, launched=kernel.name in launched) for kernel in kernels), launches


def is_jit(function: Node) -> bool:
    """Return whether a function is decorated with ``triton.jit``."""
    parent = function.parent
    return parent is not None and any(
        child.type == "decorator" and _JIT.match(text_of(child)) for child in parent.children
    )


def is_launched(name: Node) -> bool:
    """Return whether the identifier of a kernel is launched, compiled, or bound to another name that may be."""
    parent = name.parent
    if parent is None:
        return False
    if parent.type == "subscript":
        return parent.child_by_field_name("value") == name
    if parent.type == "attribute" and parent.child_by_field_name("object") == name:
        call = parent.parent
        return call is not None and call.type == "call" and text_of(parent).rpartition(".")[2] in ("warmup", "run")
    value = parent if parent.type == "conditional_expression" else name
    statement = value.parent
    return statement is not None and statement.type == "assignment" and statement.child_by_field_name("right") == value


def _kernels(definitions: Iterable[Node]) -> Iterator[TritonKernel]:
    for decorated in definitions:
        function = decorated.child_by_field_name("definition")
        if function is None or function.type != "function_definition":
            continue
        decorators = tuple(text_of(child) for child in decorated.children if child.type == "decorator")
        name, params = function.child_by_field_name("name"), function.child_by_field_name("parameters")
        if not any(map(_JIT.match, decorators)) or name is None or params is None:
            continue
        yield TritonKernel(
            text_of(name),
            tuple(filter(None, map(_param, params.named_children))),
            range_of(name),
            range_of(decorated),
            decorators,
            any(map(_AUTOTUNE.match, decorators)),
            any(map(_HEURISTICS.match, decorators)),
        )


def _param(node: Node) -> TritonParam | None:
    kind = node.child_by_field_name("type")
    value = node.child_by_field_name("value")
    if node.type == "identifier":
        name: Node | None = node
    else:
        # A typed parameter has no field for its name; the name is its first child.
        name = node.child_by_field_name("name") or (node.named_children[0] if node.named_children else None)
    if name is None or name.type != "identifier":
        return None
    constexpr = kind is not None and "constexpr" in text_of(kind)
    return TritonParam(text_of(name), constexpr, range_of(name), text_of(value) if value is not None else None)


def _launches(calls: Iterable[Node]) -> Iterator[TritonLaunch]:
    for call in calls:
        function = call.child_by_field_name("function")
        if function is None or function.type != "subscript":
            continue
        kernel = function.child_by_field_name("value")
        grid = function.children_by_field_name("subscript")
        if kernel is None or kernel.type != "identifier" or not grid:
            continue
        positional, keywords = call_arguments(call)
        outer = enclosing_function(call)
        yield TritonLaunch(
            text_of(kernel),
            ", ".join(map(text_of, grid)),
            tuple(map(text_of, positional)),
            {name: text_of(value) for name, value in keywords.items()},
            range_of(call),
            text_of(outer.child_by_field_name("name")) if outer is not None else None,
        )
