"""Calls that compile CUDA code from a string."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.mapped_text import MappedText, joined
from gpuemu_lsp.engine.source.python.model import EmbeddedCuda, UnreadCuda
from gpuemu_lsp.engine.source.python.module_scope import (
    ModuleScope,
    call_arguments,
    called_name,
    descendants,
    range_of,
    text_of,
)
from gpuemu_lsp.engine.source.python.strings import UnknownText, evaluate, strings


@dataclass(frozen=True, slots=True)
class _Api:
    """Parameters of a function that compiles CUDA code: position and name of the code, names of the others."""

    code: int
    code_names: tuple[str, ...]
    entry: int | None = None
    entry_names: tuple[str, ...] = ()
    option_names: tuple[str, ...] = ("options",)


APIS = {
    # CuPy: RawKernel(code, name, options=()), RawModule(*, code, options, name_expressions).
    "RawKernel": _Api(0, ("code",), 1, ("name",)),
    "RawModule": _Api(0, ("code",), entry_names=("name_expressions",)),
    # PyTorch: load_inline(name, cpp_sources, cuda_sources, functions, extra_cflags, extra_cuda_cflags, ...).
    "load_inline": _Api(2, ("cuda_sources",), option_names=("extra_cuda_cflags",)),
    # PyCUDA: SourceModule(source, nvcc, options, ...).
    "SourceModule": _Api(0, ("source",)),
}


def cuda_calls(root: Node, scope: ModuleScope) -> Iterator[EmbeddedCuda | UnreadCuda]:
    """Yield the CUDA code in strings of a module, in the order of the calls that compile it."""
    functions = _get_function_calls(root, scope)
    for call in descendants(root, "call"):
        name = called_name(call)
        api = APIS.get(name)
        if api is None:
            continue
        positional, keywords = call_arguments(call)
        code = _argument(api.code, api.code_names, positional, keywords)
        if code is None:
            continue  # a class or function of the user's with the same name
        variables = _variables(call, code, scope)
        try:
            text = _sources(code, scope)
        except UnknownText as unknown:
            reason = f"`{unknown}` is known only when the program runs"
            yield UnreadCuda(name, range_of(call), reason, variables)
            continue
        entries = strings(_argument(api.entry, api.entry_names, positional, keywords), scope)
        entries += functions.get(scope.name_of(call) or "", ()) + functions.get(text_of(call), ())
        options = strings(next((keywords[one] for one in api.option_names if one in keywords), None), scope)
        yield EmbeddedCuda(name, text, range_of(call), tuple(dict.fromkeys(entries)), options, variables)


def named_cuda(name: str, scope: ModuleScope) -> EmbeddedCuda | UnreadCuda | None:
    """Return the code in a variable of the module, which no known call need compile; None if there is no such one."""
    value = scope.module_value(name)
    if value is None:
        return None
    try:
        return EmbeddedCuda("", _sources(value, scope), range_of(value), variables=(name,))
    except UnknownText as unknown:
        return UnreadCuda("", range_of(value), f"`{unknown}` is known only when the program runs", (name,))


def _variables(call: Node, code: Node, scope: ModuleScope) -> tuple[str, ...]:
    value = scope.value(code) if code.type == "identifier" else code
    parts = value.named_children if value is not None and value.type in ("list", "tuple") else []
    names = [text_of(node) for node in (code, *parts) if node.type == "identifier"]
    assigned = scope.name_of(call)
    return (*names, assigned) if assigned is not None else tuple(names)


def _argument(
    position: int | None, names: tuple[str, ...], positional: list[Node], keywords: dict[str, Node]
) -> Node | None:
    for name in names:
        if name in keywords:
            return keywords[name]
    return positional[position] if position is not None and position < len(positional) else None


def _sources(node: Node, scope: ModuleScope) -> MappedText:
    """Return the code of one string, or of a list of strings, which ``load_inline`` joins by line breaks."""
    value = scope.value(node) if node.type == "identifier" else node
    if value is None or value.type not in ("list", "tuple"):
        return evaluate(node, scope)
    parts: list[MappedText] = []
    for item in value.named_children:
        if item.type == "comment":
            continue
        part = evaluate(item, scope)
        parts += [part, MappedText.constant("\n", part.end, part.end)]
    return joined(parts)


def _get_function_calls(root: Node, scope: ModuleScope) -> dict[str, tuple[str, ...]]:
    """Return the kernels that ``module.get_function("name")`` asks for, by the module's name."""
    found: dict[str, tuple[str, ...]] = {}
    for call in descendants(root, "call"):
        function = call.child_by_field_name("function")
        if called_name(call) != "get_function" or function is None or function.type != "attribute":
            continue
        positional, keywords = call_arguments(call)
        names = strings(_argument(0, ("name",), positional, keywords), scope)
        owner = text_of(function.child_by_field_name("object"))
        found[owner] = (*found.get(owner, ()), *names)
    return found
