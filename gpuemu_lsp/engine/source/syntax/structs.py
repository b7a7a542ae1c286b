"""Definitions of structs and other type names, as far as the layout of a kernel's by-value argument needs them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from gpuemu_lsp.engine.source.model import KernelDecl, StructDecl, StructField
from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, SourceText, closing, closing_angle, split_top, strip
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.declarations import Declaration, DeclarationKind, read_declaration
from gpuemu_lsp.engine.source.syntax.items import Item, class_members, conditionals, without_template
from gpuemu_lsp.engine.source.syntax.parameters import declared, template_parameters
from gpuemu_lsp.engine.source.syntax.parsed_source import ParsedSource

_SINGLE_BASE = re.compile(r"(?:public\s+)?(?P<base>[A-Za-z_][\w:]*)")
_ACCESS = re.compile(r"\b(?:private|protected)\s*:")
_MEMBER_ALIAS = re.compile(r"using\s+(?P<name>\w+)\s*=\s*(?P<type>[^;*&]+);")
_KEYWORD = re.compile(r"(?P<typedef>typedef\s+)?(?P<kind>struct|class|union|enum(?:\s+(?:class|struct))?)\b")
_ALIGN = re.compile(
    r"\b(?:__align__|alignas)\s*\(\s*(?P<bytes>[^()]*)\s*\)|__attribute__\s*\(\(.*?\)\)|\[\[.*?\]\]", re.DOTALL
)
_BASE = re.compile(r"(?<!:):(?!:)(?P<base>.*)", re.DOTALL)
_INITIALISER = re.compile(r"(?<![=!<>])=(?!=)|\{")
_ARRAY = re.compile(r"\[([^\[\]]*)\]")
_BIT_FIELD = re.compile(r"(?<!:):(?!:)\s*\w")
_USING = re.compile(r"using\s+\w+\s*=\s*(?P<type>[^;]+);?$", re.DOTALL)
_TYPEDEF = re.compile(r"typedef\s+(?P<type>[^;()\[\]]+?)\s+\w+\s*;?$", re.DOTALL)
_FUNCTION_POINTER = re.compile(r"[^(]*\(\s*[\w:]*\*")
_MAX_DEPTH = 4
_TYPES = (DeclarationKind.TYPE, DeclarationKind.ALIAS)
_CUDA_TYPE = re.compile(
    r"(?:u|un)?(?:signed|char|short|int|long|longlong|float|double)[1-4]?|u?int(?:8|16|32|64)?_t|size_t|void|bool|dim3"
    r"|_*(?:nv_)?(?:b?float16|half)2?|cuda\w+|curand\w+|cu\w*Complex"
)
"""Types of C, and of CUDA's headers."""


def takes_structs(files: Sequence[ParsedSource], kernels: Iterable[KernelDecl]) -> bool:
    """Return whether a kernel takes a type by value that one of the files declares, or may be instantiated for one."""
    kernels = tuple(kernels)
    types = [param.type for kernel in kernels for param in kernel.params if not param.pointer]
    if any(param.name in types for kernel in kernels for param in kernel.template):
        return any(item.kind is DeclarationKind.TYPE for file in files for item in file.declarations)
    words = {word for text in types for word in WORD.findall(text)}
    declared = (item.names for file in files for item in file.declarations if item.kind in _TYPES)
    return any(names & words for names in declared)


def missing_types(files: Sequence[ParsedSource], kernels: Iterable[KernelDecl]) -> frozenset[str]:
    """Return the types of parameters that a file without user headers lacks: a file that includes it has them."""
    kernels = tuple(kernels)
    if len(files) > 1:
        return frozenset()
    types = {param.type for kernel in kernels for param in kernel.params}
    types -= {param.name for kernel in kernels for param in kernel.template}
    types -= {name for item in files[0].declarations if item.kind in _TYPES for name in item.names}
    return frozenset(text for text in types if text.isidentifier() and not _CUDA_TYPE.fullmatch(text))


def structs(files: Iterable[ParsedSource], macros: MacroTable) -> dict[str, StructDecl]:
    """Return the structs and enums of a file and its headers by name, without scopes; the first of equal names."""
    found: dict[str, StructDecl] = {}
    for file in files:
        for declaration in file.declarations:
            for one in _types(file.text, declaration, macros, _MAX_DEPTH):
                found.setdefault(one.name, one)
    return found


def type_names(files: Iterable[ParsedSource]) -> dict[str, str]:
    """Return the C text behind ``using A = T;`` and ``typedef T A;`` by name; no pointers, arrays or functions."""
    found: dict[str, str] = {}
    for file in files:
        for declaration in file.declarations:
            if declaration.kind is DeclarationKind.ALIAS and declaration.item.body is None:
                code = file.text.code[declaration.item.start : declaration.item.end]
                match = _USING.match(code) or _TYPEDEF.match(code)
                if match and "*" not in match["type"] and "&" not in match["type"]:
                    for name in declaration.names:
                        found.setdefault(name, " ".join(match["type"].split()))
    return found


def _types(text: SourceText, declaration: Declaration, macros: MacroTable, depth: int) -> Iterator[StructDecl]:
    item, code = declaration.item, text.code
    if declaration.kind not in (DeclarationKind.TYPE, DeclarationKind.ALIAS) or item.body is None:
        return
    start = strip(code, without_template(code, item.start, item.end), item.end)[0]
    match = _KEYWORD.match(code, start)
    if match is None:
        return
    head = code[match.end() : item.body]
    alignments = [found["bytes"] for found in _ALIGN.finditer(head) if found["bytes"]]
    head = _ALIGN.sub(" ", head)
    base = _BASE.search(head)
    name = " ".join(head[: base.start()].split() if base else head.split())
    # typedef struct { ... } P;
    behind = code[closing(code, item.body) : item.end].strip(" \t\n;")
    name = name or (behind if match["typedef"] else "")
    if not name.isidentifier():
        return
    if match["kind"].startswith("enum"):
        underlying = " ".join(base["base"].split()) if base else "int"
        yield StructDecl(name, "enum", (StructField("", underlying),))
        return
    fields: list[StructField] = []
    parents = " ".join(base["base"].split()) if base else ""
    single = _SINGLE_BASE.fullmatch(parents)
    problem = f"it derives from `{parents}`" if base and single is None else None
    if match["kind"] == "union":
        problem = "it is a union"
    members = tuple(class_members(code, macros, item.body, closing(code, item.body), conditionals(text)))
    for member in members:
        inner = read_declaration(text.code, member, macros)
        if depth and inner.kind is DeclarationKind.TYPE:
            yield from _types(text, inner, macros, depth - 1)
        try:
            fields += _fields(text, inner, name, macros)
        except _UnsupportedMemberError as error:
            problem = problem or str(error)
    templates = template_parameters(text, item.start, start)
    aliases = tuple(
        (found["name"], " ".join(found["type"].split()))
        for member in members
        if (found := _MEMBER_ALIAS.match(code[member.start : member.end])) is not None
    )
    parent = single["base"] if single is not None else ""
    plain = match["kind"] != "class" and not any(
        _is_special(code[member.start : member.end], name, member.body is None) for member in members
    )
    plain = plain and not _ACCESS.search(code, item.body, closing(code, item.body))
    made = StructDecl(name, match["kind"], tuple(fields), templates, tuple(alignments), problem, aliases, parent, plain)
    yield made
    if match["typedef"] and behind.isidentifier() and behind != name:
        yield replace(made, name=behind)


def _is_special(code: str, name: str, is_data: bool) -> bool:
    """Return whether a member is a constructor, destructor or assignment, or has an initialiser."""
    if re.search(rf"\b{name}\s*\(|\boperator\s*=(?!=)", code):
        return True
    return is_data and "=" in code and not code.startswith(("using", "static"))


class _UnsupportedMemberError(Exception):
    """A member whose place in the struct is not computed; the message continues "it"."""


def _fields(text: SourceText, declaration: Declaration, struct: str, macros: MacroTable) -> Iterator[StructField]:
    """Yield the data members that one item of a class declares."""
    item, code = declaration.item, text.code[declaration.item.start : declaration.item.end]
    if "virtual" in declaration.head_words:
        raise _UnsupportedMemberError("it has virtual functions")
    if declaration.kind is DeclarationKind.TYPE and item.body is not None:
        if text.code[closing(text.code, item.body) : item.end].strip(" \t\n;") or not declaration.names:
            raise _UnsupportedMemberError("it has a member of a type that is defined in it")
        return
    shown = " ".join(code.split()).rstrip(";")
    is_macro = declaration.kind is DeclarationKind.INVOCATION and not code.startswith(struct)
    if is_macro or (item.body is None and _FUNCTION_POINTER.match(code)):
        raise _UnsupportedMemberError(f"it has the member `{shown}`")
    if declaration.kind is not DeclarationKind.VARIABLE or "static" in declaration.head_words or not code.strip(" ;"):
        return
    if code.startswith(("friend", "using", "static_assert")):
        return
    if "alignas" in declaration.head_words or "__align__" in declaration.head_words:
        raise _UnsupportedMemberError(f"it has the aligned member `{shown}`")
    yield from _declarators(text, item, code.rstrip("; \n\t"), shown, macros)


def _declarators(text: SourceText, item: Item, code: str, shown: str, macros: MacroTable) -> Iterator[StructField]:
    base = ""
    for position, (start, end) in enumerate(split_top(code)):
        part = _INITIALISER.split(code[start:end], maxsplit=1)[0]
        if "(" in part or "&" in part:
            raise _UnsupportedMemberError(f"it has the member `{shown}`")
        if _BIT_FIELD.search(part):
            raise _UnsupportedMemberError(f"it has the bit-field `{shown}`")
        sizes = tuple(" ".join(size.split()) for size in _ARRAY.findall(part))
        plain = _ARRAY.sub(" ", part)
        param = declared(text, plain if not position else f"{base} {plain}", item.start, item.end, macros)
        if not param.name:
            raise _UnsupportedMemberError(f"it has the member `{shown}`")
        if not position:
            base = plain[: plain.index("*")] if "*" in plain else plain.rstrip()[: -len(param.name)]
        yield StructField(param.name, param.type, param.pointer_depth, param.const, sizes)


def template_arguments(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the name and the template arguments of ``Params<float, 4>``."""
    opening = text.find("<")
    end = closing_angle(text, opening) if opening > 0 else None
    if end is None:
        return text, ()
    inside = text[opening + 1 : end - 1]
    return text[:opening].strip(), tuple(" ".join(inside[a:b].split()) for a, b in split_top(inside))
