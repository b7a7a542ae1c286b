"""Calls that compile CUDA code from a string or a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.constants import UnknownText
from gpuemu_lsp.engine.source.python.external_text import path_of
from gpuemu_lsp.engine.source.python.mapped_text import MappedText, joined
from gpuemu_lsp.engine.source.python.model import CudaFile, EmbeddedCuda, UnreadCuda
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.strings import evaluate, items, strings
from gpuemu_lsp.engine.source.python.syntax import (
    call_arguments,
    called_name,
    descendants,
    enclosing_function,
    range_of,
    text_of,
)


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
_MAX_WRAPPERS = 3
"""Functions of the project, each of which calls the next, around a call that compiles."""


def cuda_calls(root: Node, scope: ModuleScope) -> Iterator[EmbeddedCuda | UnreadCuda | CudaFile]:
    """Yield the CUDA code that a module compiles, in the order of the calls that compile it.

    A function that compiles what it is passed, as wrappers of ``load_inline`` do, is read for each call of it.
    """
    reader, entries = _Reader(), _get_function_calls(root, scope)
    results = [(call, list(reader.compiled(call, scope, entries))) for call in descendants(root, "call")]
    for call, compiled in results:
        function = enclosing_function(call)
        # What a function does not know by itself is known, or not, where it is called.
        known_by_callers = function is not None and function.id in reader.called
        yield from (each for each in compiled if not (known_by_callers and isinstance(each, UnreadCuda)))


@dataclass(slots=True)
class _Reader:
    """What calls compile, themselves or by the functions of the project that they call."""

    called: set[int] = field(default_factory=set)
    """The functions that were read for a call of them, by the identifiers of their nodes."""
    _open: dict[int, tuple[Node, ...]] = field(default_factory=dict)
    """The calls in a function that compile code which its parameters decide."""

    def compiled(
        self, call: Node, scope: ModuleScope, entries: Mapping[str, tuple[str, ...]], depth: int = 0
    ) -> Iterator[EmbeddedCuda | UnreadCuda | CudaFile]:
        """Yield what a call compiles; ``entries`` are the kernels of ``get_function`` where the call is."""
        name = called_name(call)
        if name in APIS:
            yield from _in_string(call, APIS[name], scope, entries)
        elif name == "load" and _is_extension(call, scope):
            yield from _files(call, scope)
        elif depth < _MAX_WRAPPERS:
            yield from self._by_function(call, scope, entries, depth)

    def _by_function(
        self, call: Node, scope: ModuleScope, entries: Mapping[str, tuple[str, ...]], depth: int
    ) -> Iterator[EmbeddedCuda | UnreadCuda | CudaFile]:
        callee = call.child_by_field_name("function")
        parts = scope.lookup(callee) if callee is not None and callee.type in ("identifier", "attribute") else None
        if parts is None or len(parts) != 1 or parts[0][0].type != "function_definition":
            return
        function, home = parts[0]
        open_calls = self._open_calls(function, home, depth)
        if not open_calls:
            return
        self.called.add(function.id)
        inner = home.within_call(function, call, scope)
        named = _get_function_calls(function, inner)
        at_call = tuple(filter(None, [scope.assigned(call)]))
        asked = tuple(kernel for owner in (*at_call, text_of(call)) for kernel in entries.get(owner, ()))
        for nested in open_calls:
            for each in self.compiled(nested, inner, named, depth + 1):
                each = replace(each, range=range_of(call))
                if not isinstance(each, CudaFile):
                    variables = (*_names_of_arguments(call), *at_call)
                    each = replace(each, variables=tuple(dict.fromkeys(variables)))
                if isinstance(each, EmbeddedCuda):
                    api = "RawKernel" if _returns_kernel(function) else each.api
                    each = replace(each, api=api, entries=tuple(dict.fromkeys((*each.entries, *asked))))
                yield each

    def _open_calls(self, function: Node, home: ModuleScope, depth: int) -> tuple[Node, ...]:
        if function.id not in self._open:
            self._open[function.id] = ()  # a function may call itself
            self._open[function.id] = tuple(
                nested
                for nested in descendants(function, "call")
                if any(isinstance(each, UnreadCuda) for each in self.compiled(nested, home, {}, depth + 1))
            )
        return self._open[function.id]


def _returns_kernel(function: Node) -> bool:
    """Return whether a function returns one kernel of what it compiles, as ``RawKernel`` does."""
    returned = (child for node in descendants(function, "return_statement") for child in node.named_children)
    return any(node.type == "call" and called_name(node) == "get_function" for node in returned)


def _names_of_arguments(call: Node) -> list[str]:
    positional, keywords = call_arguments(call)
    return [text_of(node) for node in (*positional, *keywords.values()) if node.type == "identifier"]


def _in_string(
    call: Node, api: _Api, scope: ModuleScope, functions: Mapping[str, tuple[str, ...]]
) -> Iterator[EmbeddedCuda | UnreadCuda | CudaFile]:
    """Yield the code that a call of a known function compiles; nothing for one of the user's with its name."""
    name = called_name(call)
    positional, keywords = call_arguments(call)
    code = _argument(api.code, api.code_names, positional, keywords)
    if code is None:
        file = _argument(None, api.file_names, positional, keywords)
        if file is not None:
            yield from _files(call, scope, file)
        return
    variables = _variables(call, code, scope)
    options = strings(next((keywords[one] for one in api.option_names if one in keywords), None), scope)
    try:
        text = _sources(code, scope)
    except UnknownText as unknown:
        where = range_of(unknown.node) if scope.contains(unknown.node) else range_of(code)
        yield UnreadCuda(name, where, f"`{unknown}` is known only when the program runs", variables)
        return
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
