"""Constants of a file, as C expressions by name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, closing, split_top
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.declarations import DeclarationKind
from gpuemu_lsp.engine.source.syntax.parsed_source import ParsedSource

_DECLARATION = re.compile(
    r"\s*(?:(?:const|constexpr|static|inline|unsigned|signed|long|short|int|char|bool|float|double|auto|size_t|std::size_t"
    r"|u?int(?:_fast|_least)?\d+_t|std::u?int\d+_t|uint|ssize_t|ptrdiff_t|dim3|uint3|const\s+dim3)\b\s*)+(?=[A-Za-z_])"
    r"|\s*(?!(?:return|else|using|typedef|case|goto|new|delete|throw)\b)[A-Za-z_]\w*\s+(?=[A-Za-z_]\w*\s*=(?!=))"
)
"""Types of size variables, or any type name before an initialised variable: ``u32 n = 4``."""
_DECLARATOR = re.compile(r"\s*(\w+)\s*(?:=\s*(?P<value>.+)|(?P<open>[({])(?P<inner>.*)[)}])\s*$", re.DOTALL)
_UNREADABLE = "dim3(?)"
"""A ``dim3`` of unknown value. Without an entry its name would be taken for a scalar size."""
_EXPRESSION = re.compile(r"[\w\s+\-*/%()<>&|~^?:.,']+$")
_ARITHMETIC = re.compile(r"\d|^\w+$|[\w)]\s*(?:[-+*/%|]|<<|>>)\s*[\w(]")
"""A number, a name, or an operator between two operands: ``(M * M_TILES)``."""
_MAX_TEXT = 200


def file_constants(files: Iterable[ParsedSource], macros: MacroTable) -> dict[str, str]:
    """Return macros, constants and enumerators of a file and its headers as C text; earlier files take precedence.

    A macro with different definitions is not a constant.
    """
    found = {}
    for name, definitions in macros.definitions.items():
        bodies = {macro.body for macro in definitions}
        if len(bodies) == 1 and definitions[0].parameters is None and _is_expression(definitions[0].body):
            found[name] = definitions[0].body
    for file in files:
        for name, value in _declared_constants(file):
            found.setdefault(name, value)
    return found


def _declared_constants(file: ParsedSource) -> Iterator[tuple[str, str]]:
    for declaration in file.declarations:
        item = declaration.item
        code = file.text.code[item.start : item.end]
        is_dim3 = (
            declaration.kind is DeclarationKind.FUNCTION and item.body is None and "dim3" in declaration.head_words
        )
        if (is_dim3 or declaration.kind is DeclarationKind.VARIABLE) and {
            "const",
            "constexpr",
        } & declaration.head_words:
            declared = _declared(code.rstrip("; \n\r\t"))
            yield from ((name, value) for name, value in declared.items() if value is not None)
        elif (
            declaration.kind in (DeclarationKind.TYPE, DeclarationKind.ALIAS)
            and item.body is not None
            and re.search(r"\benum\b", code)
        ):
            inner = file.text.code[item.body + 1 : closing(file.text.code, item.body) - 1]
            yield from _enumerators(inner).items()


def _declared(statement: str) -> dict[str, str | None]:
    """Return the names that a declaration declares, each with its initialiser if that is an evaluable expression."""
    head = _DECLARATION.match(statement)
    if head is None or len(statement) > 4000:
        return {}
    rest = statement[head.end() :]
    is_dim3 = "dim3" in head[0] or "uint3" in head[0]
    may_be = is_dim3 or "auto" in head[0]
    found: dict[str, str | None] = {}
    for start, end in split_top(rest):
        match = _DECLARATOR.match(rest[start:end])
        if match is None:
            if WORD.fullmatch(rest, start, end):
                found[rest[start:end]] = "dim3()" if is_dim3 else None
            continue
        value = match["value"] if match["value"] is not None else match["inner"]
        value = " ".join(value.split())
        if is_dim3:
            value = _dim3_text(value if match["value"] is not None else f"dim3({value})")
        elif match["open"] == "(" and "," in value:
            continue
        found[match[1]] = value if _is_value(value) else _UNREADABLE if may_be else None
    return found


def _dim3_text(value: str) -> str:
    """Return a ``dim3`` initialiser as ``dim3(...)``; the name of another variable stays."""
    if value.startswith("{"):
        return f"dim3({value[1:-1].strip()})"
    return value if WORD.fullmatch(value) or dim3_parts(value) is not None else f"dim3({value})"


def dim3_parts(text: str) -> tuple[str, ...] | None:
    """Return the expressions in ``dim3(a, b)`` or ``{a, b}``; None for other text."""
    match = re.fullmatch(r"\s*(?:dim3\s*)?(?P<open>[({])(?P<inner>.*)[)}]\s*", text, re.DOTALL)
    if match is None or not ("dim3" in text.split("(", 1)[0].split("{", 1)[0] or match["open"] == "{"):
        return None
    inner = match["inner"]
    return tuple(inner[start:end] for start, end in split_top(inner))


def _enumerators(inner: str) -> dict[str, str]:
    # An enumerator without a value is its predecessor plus one (C++17 [dcl.enum]).
    found, previous = {}, ""
    for start, end in split_top(inner):
        name, _, value = (part.strip() for part in inner[start:end].partition("="))
        if not WORD.fullmatch(name):
            break
        found[name] = value or (f"{previous} + 1" if previous else "0")
        previous = name
    return found


def _is_value(text: str) -> bool:
    return 0 < len(text) <= _MAX_TEXT and bool(_EXPRESSION.match(text.replace("{", "(").replace("}", ")")))


def _is_expression(body: str) -> bool:
    """Return whether a macro's body may be an integer expression rather than an attribute or code."""
    return _is_value(body) and not body.startswith("__") and bool(_ARITHMETIC.search(body))
