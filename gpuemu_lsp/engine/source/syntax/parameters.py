"""Parameter lists of functions and templates."""

from __future__ import annotations

import re

from gpuemu_lsp.engine.source.model import Param, TemplateParam
from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, ItemText, SourceText, closing_angle, split_top
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable

_QUALIFIER = re.compile(
    r"\b(?:const|volatile|register|__restrict__|__restrict|restrict|__grid_constant__|struct|class|enum"
    r"|__align__\s*\(\s*\d+\s*\)"
    r"|alignas\s*\([^()]*\))(?!\w)|\[\[.*?\]\]|__attribute__\s*\(\(.*?\)\)",
    re.DOTALL,
)
_RESTRICT = re.compile(r"\b(?:__restrict__|__restrict|restrict)\b")
_CONST = re.compile(r"\bconst\b")
_BUILTIN = frozenset({
    "void", "bool", "char", "short", "int", "long", "unsigned", "signed", "float", "double", "auto", "size_t",
    "wchar_t",
})  # fmt: skip
_DEFAULT = re.compile(r"(?<![=!<>])=(?!=)")
_TEMPLATE = re.compile(r"\btemplate\s*(?=<)")
_INNER = re.compile(r"\(\s*(?P<sign>[*&]+)\s*(?:const\s+)?(?:__restrict__\s*|__restrict\s*)?(?P<name>\w*)\s*\)")


def parameters(text: SourceText | ItemText, start: int, end: int, macros: MacroTable) -> tuple[Param, ...]:
    """Return the parameters between the bytes ``start`` and ``end``, the parentheses excluded."""
    found = []
    for first, last in split_top(text.code[start:end]):
        code = text.code[start + first : start + last]
        if code in ("void", "..."):
            continue
        param = declared(text, code, start + first, start + last, macros)
        found.append(param)
    return tuple(found)


def template_parameters(text: SourceText | ItemText, start: int, end: int) -> tuple[TemplateParam, ...]:
    """Return the parameters of all ``template <...>`` headers between two offsets, the outermost header first."""
    found: list[TemplateParam] = []
    code = text.code
    while match := _TEMPLATE.search(code, start, end):
        close = closing_angle(code, match.end())
        if close is None or close > end:
            break
        inside = code[match.end() + 1 : close - 1]
        found += (_template_parameter(inside[first:last]) for first, last in split_top(inside))
        start = close
    return tuple(found)


def _template_parameter(code: str) -> TemplateParam:
    default = None
    pieces = _split_default(code)
    left = pieces[0].strip()
    if len(pieces) > 1:
        default = pieces[1].strip()
    words = list(WORD.finditer(left))
    pack = "..." if "..." in left else ""
    if left.startswith("template"):
        name = words[-1][0] if words and left.rstrip().endswith(words[-1][0]) else ""
        return TemplateParam("template", "" if name in ("class", "typename") else name, default)
    if not words:
        return TemplateParam(left, "", default)
    last = words[-1]
    named = len(words) > 1 and last[0] not in _BUILTIN and last.end() == len(left) and left[: last.start()].strip()
    if not named or left[: last.start()].rstrip().endswith("::"):
        return TemplateParam(" ".join(left.replace("...", " ").split()) + pack, "", default)
    kind = " ".join(left[: last.start()].replace("...", " ").split())
    return TemplateParam(kind + pack, last[0], default)


def declared(text: SourceText | ItemText, code: str, start: int, end: int, macros: MacroTable) -> Param:
    """Return the name and type of one declarator, ``code``, which lies between two offsets of the text."""
    left = _split_default(code)[0]
    inner = _INNER.search(left)
    if inner and inner["sign"]:
        # float (&x)[4] and float (*f)(float): the declarator is inside the parentheses.
        left = f"{left[: inner.start()]} {inner['sign']} {inner['name']}{_arrays(left[inner.end() :])}"
    qualified = _expand_qualifiers(left, macros)
    arrays = qualified.count("[") - 2 * qualified.count("[[")
    plain = re.sub(r"\[[^\]]*\]", " ", _QUALIFIER.sub(" ", qualified))
    name = _name(plain)
    kind = plain[: len(plain.rstrip()) - len(name)] if name else plain
    base = " ".join(re.sub(r"[*&]|\.\.\.", " ", kind).split())
    depth = plain.count("*") + arrays
    pointee = qualified.split("*", 1)[0] if "*" in qualified else qualified
    return Param(
        name=name,
        type=base,
        pointer=depth > 0,
        const=bool(_CONST.search(pointee)),
        range=text.range(start, end),
        pointer_depth=depth,
        restrict=bool(_RESTRICT.search(qualified)),
    )


def _arrays(code: str) -> str:
    return code if code.lstrip().startswith("[") else ""


def _expand_qualifiers(code: str, macros: MacroTable) -> str:
    """Expand macros whose bodies are qualifiers and ``*`` only; macros of types stay as written."""

    def body(match: re.Match[str]) -> str:
        bodies = list(macros.bodies(match[0]))
        if bodies and not any(_QUALIFIER.sub("", text).strip("* ") for text in bodies):
            return max(bodies, key=len)
        return match[0]

    return WORD.sub(body, code)


def _name(plain: str) -> str:
    """Return the declared name: the last word, unless it is part of the type."""
    words = list(WORD.finditer(plain))
    if not words or plain[words[-1].end() :].strip():
        return ""
    last = words[-1]
    before = plain[: last.start()].rstrip()
    if not before or before.endswith("::") or last[0] in _BUILTIN:
        return ""
    if before in ("typename", "const") or before.endswith("typename"):
        return ""
    return last[0]


def _split_default(code: str) -> list[str]:
    for match in _DEFAULT.finditer(code):
        before = code[: match.start()]
        if before.count("(") == before.count(")"):
            return [before, code[match.end() :]]
    return [code]
