"""Calls that compile CUDA code from a string or a file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.constants import UnknownText
from gpuemu_lsp.engine.source.python.external_text import path_of
from gpuemu_lsp.engine.source.python.mapped_text import MappedText, joined
from gpuemu_lsp.engine.source.python.model import CudaFile, EmbeddedCuda, UnreadCuda
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.strings import evaluate, items, strings
from gpuemu_lsp.engine.source.python.syntax import call_arguments, called_name, descendants, range_of, text_of


@dataclass(frozen=True, slots=True)
class _Api:
    """Parameters of a function that compiles CUDA code: position and names of the code, names of the others."""

    code: int
    code_names: tuple[str, ...]
    entry: int | None = None
    entry_names: tuple[str, ...] = ()
    option_names: tuple[str, ...] = ("options",)
    file_names: tuple[str, ...] = ()
    """Parameters that have the path of a file in place of code."""


APIS = {
    # CuPy: RawKernel(code, name, options=()), RawModule(*, code, path, options, name_expressions).
    "RawKernel": _Api(0, ("code",), 1, ("name",)),
    "RawModule": _Api(0, ("code",), entry_names=("name_expressions",), file_names=("path",)),
    # PyTorch: load_inline(name, cpp_sources, cuda_sources, functions, extra_cflags, extra_cuda_cflags, ...).
    "load_inline": _Api(2, ("cuda_sources",), option_names=("extra_cuda_cflags",)),
    # PyCUDA: SourceModule(source, nvcc, options, ...).
    "SourceModule": _Api(0, ("source",)),
}
LOAD = _Api(1, ("sources",), option_names=("extra_cuda_cflags",))
"""PyTorch: ``load(name, sources, extra_cflags, extra_cuda_cflags, ...)``, whose sources are files."""
_CUDA_SUFFIXES = (".cu", ".cuh")


def cuda_calls(root: Node, scope: ModuleScope) -> Iterator[EmbeddedCuda | UnreadCuda | CudaFile]:
    """Yield the CUDA code that a module compiles, in the order of the calls that compile it."""
    functions = _get_function_calls(root, scope)
    for call in descendants(root, "call"):
        name = called_name(call)
        api = APIS.get(name)
        if api is None:
            if name == "load" and _is_extension(call, scope):
                yield from _files(call, scope)
            continue
        positional, keywords = call_arguments(call)
        code = _argument(api.code, api.code_names, positional, keywords)
        if code is None:
            file = _argument(None, api.file_names, positional, keywords)
            if file is not None:
                yield from _files(call, scope, file)
            continue  # a class or function of the user's with the same name
        variables = _variables(call, code, scope)
        options = strings(next((keywords[one] for one in api.option_names if one in keywords), None), scope)
        try:
            text = _sources(code, scope)
        except UnknownText as unknown:
            where = range_of(unknown.node) if scope.contains(unknown.node) else range_of(code)
            yield UnreadCuda(name, where, f"`{unknown}` is known only when the program runs", variables)
            continue
        entries = strings(_argument(api.entry, api.entry_names, positional, keywords), scope)
        entries += functions.get(scope.assigned(call) or "", ()) + functions.get(text_of(call), ())
        yield EmbeddedCuda(name, text, range_of(call), tuple(dict.fromkeys(entries)), options, variables)


def named_cuda(name: str, scope: ModuleScope) -> EmbeddedCuda | UnreadCuda | None:
    """Return the code in a variable of the module, which no known call need compile; None if there is no such one."""
    parts = scope.module_value(name)
    if not parts:
        return None
    where = range_of(parts[0][0])
    try:
        return EmbeddedCuda("", joined(_sources(value, home) for value, home in parts), where, variables=(name,))
    except UnknownText as unknown:
        return UnreadCuda("", where, f"`{unknown}` is known only when the program runs", (name,))


def _files(call: Node, scope: ModuleScope, file: Node | None = None) -> Iterator[UnreadCuda | CudaFile]:
    """Yield the CUDA files that a call compiles; those of C++ have no kernels."""
    positional, keywords = call_arguments(call)
    sources = file or _argument(LOAD.code, LOAD.code_names, positional, keywords)
    options = strings(keywords.get(LOAD.option_names[0]) or keywords.get("options"), scope)
    if sources is None:
        return
    for item, home in items(sources, scope) or [(sources, scope)]:
        path = path_of(item, home)
        if path is not None and path.suffix in _CUDA_SUFFIXES:
            yield CudaFile(called_name(call), path.as_posix(), range_of(call), options)
        elif path is None and not text_of(item).rstrip("'\")").endswith((".cpp", ".cc", ".c", ".ptx", ".cubin")):
            where = range_of(item) if home is scope else range_of(call)
            yield UnreadCuda(called_name(call), where, f"`{UnknownText(item)}` is not the path of a file that exists")


def _is_extension(call: Node, scope: ModuleScope) -> bool:
    """Return whether a call of ``load`` is that of ``torch.utils.cpp_extension``."""
    function = call.child_by_field_name("function")
    if function is None or function.type == "identifier":
        return scope.imported_from("load").endswith("cpp_extension")
    owner = text_of(function.child_by_field_name("object"))
    return owner.endswith("cpp_extension") or scope.imported_from(owner).endswith("cpp_extension")


def _variables(call: Node, code: Node, scope: ModuleScope) -> tuple[str, ...]:
    nodes = [code, *(item for item, _ in items(code, scope) or ())]
    names = [text_of(node) for node in nodes if node.type == "identifier"]
    names += [text_of(node.child_by_field_name("attribute")) for node in nodes if node.type == "attribute"]
    assigned = scope.assigned(call)
    return tuple(dict.fromkeys([*names, assigned] if assigned is not None else names))


def _argument(
    position: int | None, names: tuple[str, ...], positional: list[Node], keywords: dict[str, Node]
) -> Node | None:
    for name in names:
        if name in keywords:
            return keywords[name]
    return positional[position] if position is not None and position < len(positional) else None


def _sources(node: Node, scope: ModuleScope) -> MappedText:
    """Return the code of one string, or of a list of strings, which ``load_inline`` joins by line breaks."""
    listed = items(node, scope)
    if listed is None:
        return evaluate(node, scope)
    parts: list[MappedText] = []
    for item, home in listed:
        part = evaluate(item, home)
        parts += [part, MappedText.constant("\n", part.end, part.end)]
    return joined(parts)


def _get_function_calls(root: Node, scope: ModuleScope) -> dict[str, tuple[str, ...]]:
    """Return the kernels that ``module.get_function("name")`` asks for, by the module's name or expression."""
    found: dict[str, tuple[str, ...]] = {}
    for call in descendants(root, "call"):
        function = call.child_by_field_name("function")
        if called_name(call) != "get_function" or function is None or function.type != "attribute":
            continue
        positional, keywords = call_arguments(call)
        names = strings(_argument(0, ("name",), positional, keywords), scope)
        owner = function.child_by_field_name("object")
        if owner is not None and owner.type == "attribute":
            owner = owner.child_by_field_name("attribute")
        found[text_of(owner)] = (*found.get(text_of(owner), ()), *names)
    return found
