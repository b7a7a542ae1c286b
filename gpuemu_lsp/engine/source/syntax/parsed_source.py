"""One source file split into top-level items, each with its declaration."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuemu_lsp.engine.source.preprocessor.expansion import expansions_at
from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, SourceText, strip
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.declarations import Declaration, DeclarationKind, read_declaration
from gpuemu_lsp.engine.source.syntax.items import ItemList, split_items


@dataclass(frozen=True, slots=True)
class ParsedSource:
    """The checked file or one of its user headers: text, items, and one declaration per item in the same order."""

    path: str
    text: SourceText
    items: ItemList
    declarations: tuple[Declaration, ...]


def parse_source(path: str, text: SourceText, macros: MacroTable) -> ParsedSource:
    """Split a text into items and read their declarations."""
    items = split_items(text, macros)
    declarations = (read_declaration(text.code, item, macros) for item in items.items)
    return ParsedSource(path, text, items, tuple(_with_generated_names(text, item, macros) for item in declarations))


def _with_generated_names(text: SourceText, declaration: Declaration, macros: MacroTable) -> Declaration:
    """Give an item that is only a macro invocation the names that its expansion declares."""
    item = declaration.item
    word = WORD.match(text.code, item.start)
    if declaration.kind is not DeclarationKind.INVOCATION or word is None or word[0] not in macros.definitions:
        return declaration
    opening = strip(text.code, word.end(), item.end)[0]
    names: set[str] = set()
    for expansion in expansions_at(text.code, opening, macros.definitions[word[0]]):
        inner = SourceText(expansion)
        for generated in split_items(inner, macros).items:
            names |= read_declaration(inner.code, generated, macros).names
    return replace(declaration, names=frozenset(names))
