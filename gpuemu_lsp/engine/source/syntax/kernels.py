"""``__global__`` functions: names, templates, parameters, launch bounds, dynamic shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.model import KernelDecl
from gpuemu_lsp.engine.source.preprocessor.expansion import expansions, invocation_pattern
from gpuemu_lsp.engine.source.preprocessor.lexer import (
    WORD,
    ItemText,
    SourceText,
    closing,
    moved,
    split_top,
    strip,
    words_of,
)
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.declarations import Declaration, DeclarationKind, FunctionSignature, find_signature
from gpuemu_lsp.engine.source.syntax.items import without_template
from gpuemu_lsp.engine.source.syntax.parameters import parameters, template_parameters
from gpuemu_lsp.engine.source.syntax.parsed_source import ParsedSource, parse_source

_MAX_DEPTH = 3
"""Levels of macros that are expanded in search of kernels."""
_GLOBAL = re.compile(r"\b__global__\b")
_LINKAGE = re.compile(r'\bextern\s*"\s*"')
_BOUNDS = re.compile(r"\b__launch_bounds__\s*(?=\()")
_SHARED = re.compile(
    r"\bextern\s+(?:volatile\s+)?__shared__\s+(?:(?:__align__|alignas)\s*\([^()]*\)\s*)?(?P<type>[\w:\s<>,]+?)\s*"
    r"(?:(?:__align__|alignas)\s*\([^()]*\)\s*)?\b\w+\s*\[\s*\]"
)


def kernels(file: ParsedSource, macros: MacroTable) -> tuple[KernelDecl, ...]:
    """Return the kernel definitions of one file in order; overloads and alternatives under ``#else`` count each."""
    return tuple(_all_kernels(file, macros, _MAX_DEPTH))


def instances(file: ParsedSource) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the explicit instantiations of kernels, with their template arguments."""
    code, found = file.text.code, []
    for declaration in file.declarations:
        item = declaration.item
        is_definition = code.startswith("template", item.start)  # not `extern template`
        if (
            declaration.kind is DeclarationKind.INSTANTIATION
            and is_definition
            and "__global__" in declaration.head_words
        ):
            signature = find_signature(code, item.start + len("template"), item.end)
            if signature is not None:
                inside = code[signature.name_end : signature.open].strip()[1:-1]
                arguments = tuple(" ".join(inside[first:last].split()) for first, last in split_top(inside))
                found.append((signature.name, arguments))
    return tuple(found)


def dynamic_shared(file: ParsedSource, found: tuple[KernelDecl, ...]) -> Mapping[str, str]:
    """Map kernels to the element type of the ``extern __shared__`` array they declare."""
    shared = {}
    kernel_names = {kernel.name for kernel in found}
    for declaration in file.declarations:
        for name in declaration.names:
            if name in kernel_names:
                item = declaration.item
                match = _SHARED.search(file.text.code, item.start, item.end)
                if match:
                    shared[name] = " ".join(match["type"].split())
    return shared


def _all_kernels(file: ParsedSource, macros: MacroTable, depth: int) -> Iterator[KernelDecl]:
    for declaration in file.declarations:
        if declaration.kind is DeclarationKind.FUNCTION and "__global__" in declaration.head_words:
            yield from _kernels(file.text, declaration, macros)
        elif declaration.kind is DeclarationKind.INVOCATION and "__global__" in declaration.uses and depth:
            yield from _from_macro(file, declaration, macros, depth - 1)


def _from_macro(file: ParsedSource, declaration: Declaration, macros: MacroTable, depth: int) -> Iterator[KernelDecl]:
    """Yield the kernels that ``MAKE_KERNEL(add, float)`` expands to; all their ranges are the invocation."""
    item = declaration.item
    whole = file.text.range(item.start, item.end)
    for expansion in expansions(file.text.code, item.start, item.end, macros, invocation_pattern(_GLOBAL, macros)):
        inner = parse_source(file.path, SourceText(expansion.text), macros)
        for kernel in _all_kernels(inner, macros, depth):
            yield replace(
                kernel,
                qualified_name="::".join((*item.scope, kernel.qualified_name)),
                params=tuple(replace(param, range=whole) for param in kernel.params),
                name_range=whole,
                range=whole,
                extern_c=kernel.extern_c or item.extern_c,
            )


_known_kernels: Memo[KernelDecl | None] = Memo(1 << 12)


def _kernels(text: SourceText, declaration: Declaration, macros: MacroTable) -> Iterator[KernelDecl]:
    item, start = declaration.item, declaration.item.start
    if item.body is None:
        return
    own = code = text.code[start : item.end]
    if item.body >= item.end:
        code = text.code[start:]  # never closed: what its head says is also behind its end
    linkage = item.extern_c or _macro_linkage(declaration, macros, text.code)
    key = code, item.body - start, len(own), linkage, item.scope, macros.affecting(words_of(code))
    found = _known_kernels.get(key, lambda: _read_kernel(*key[:5], macros))
    if found is not None:
        origin = text.range(start, start).start
        params = tuple(replace(param, range=moved(param.range, origin)) for param in found.params)
        name_range, whole = moved(found.name_range, origin), moved(found.range, origin)
        yield replace(found, params=params, name_range=name_range, range=whole)


def _read_kernel(
    code: str, body: int, end: int, linkage: bool, scope: tuple[str, ...], macros: MacroTable
) -> KernelDecl | None:
    """Read the kernel at the beginning of some code, with ranges relative to it."""
    text = ItemText(code)
    start = strip(code, without_template(code, 0, end), end)[0]
    signature = find_signature(code, start, body)
    if signature is None:
        return None
    bounds = _BOUNDS.search(code, 0, body)
    return KernelDecl(
        name=signature.name,
        qualified_name="::".join((*scope, signature.name + _specialised(code, signature))),
        template=template_parameters(text, 0, start),
        params=parameters(text, signature.open + 1, signature.close - 1, macros),
        name_range=text.range(signature.name_start, signature.name_end),
        range=text.range(0, end),
        extern_c=linkage or bool(_LINKAGE.search(code, 0, body)),
        max_threads=_first_number(code, bounds.end()) if bounds else None,
    )


def _specialised(code: str, signature: FunctionSignature) -> str:
    """Return the ``<float>`` of an explicit specialisation, without which the name is the primary template's."""
    return " ".join(code[signature.name_end : signature.open].split())


def _macro_linkage(declaration: Declaration, macros: MacroTable, code: str) -> bool:
    words = WORD.findall(code, declaration.item.start, declaration.parameters or declaration.item.start)
    return any(_LINKAGE.search(body) for word in words for body in macros.bodies(word))


def _first_number(code: str, opening: int) -> int | None:
    inside = code[opening + 1 : closing(code, opening) - 1]
    first = next(iter(split_top(inside)), (0, 0))
    digits = inside[first[0] : first[1]].rstrip("uUlL")
    return int(digits) if digits.isdigit() else None
