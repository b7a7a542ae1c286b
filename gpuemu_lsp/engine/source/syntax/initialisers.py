"""Variables with a parenthesised initialiser, which look like function declarations: ``const int half(N / 2);``.

C++ reads ``T name(...)`` as a function where every part can be a parameter declaration ([dcl.ambig.res]). That needs to
know which names are types; here a part is an expression if its tokens say so, or if it is the name of a variable.
"""

from __future__ import annotations

import re

from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, closing, closing_angle, split_top, strip
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable

_TYPE_WORDS = frozenset({
    "void", "bool", "char", "short", "int", "long", "float", "double", "signed", "unsigned", "auto", "const",
    "volatile", "struct", "class", "union", "enum", "typename", "register", "wchar_t", "char8_t", "char16_t",
    "char32_t", "decltype",
})  # fmt: skip
_OPERAND_WORDS = frozenset({
    "true", "false", "nullptr", "sizeof", "alignof", "static_cast", "const_cast", "reinterpret_cast", "dynamic_cast",
    "new", "noexcept", "typeid", "this",
})  # fmt: skip
_LITERAL = re.compile(r"""\.?\d|(?:u8|[uUL])?R?["']""")
_UNARY = re.compile(r"[-+!~&*]|\(")
_BINARY = re.compile(r"[-+/%|^?<>]|[!=]=|\.(?!\.\.)|[*&]\s*(?:\.?\d|\()")
_NO_TYPE = "return|struct|class|enum|union|using|typename|namespace|new|else"
"""Words before a name that do not declare it as a variable."""
_QUALIFIED = re.compile(r"(?:::\s*)?[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*")


class ContextNeededError(Exception):
    """The code before a declaration decides what it is."""


def is_initialiser(code: str, declaration: int, opening: int, macros: MacroTable, before: str | None) -> bool:
    """Return whether the parenthesis at ``opening`` initialises a variable, and does not hold a function's parameters.

    ``declaration`` is the offset of the declaration in ``code``; variables are looked for in ``before``, the code
    before it.

    Raises
    ------
    ContextNeededError
        If ``before`` is None and decides.
    """
    close = closing(code, opening)
    following = strip(code, close, len(code))[0]
    if code[following : following + 1] not in (";", ","):
        return False
    kinds = [_is_expression(part, before, macros) for part in _parts(code[opening + 1 : close - 1])]
    if not kinds or False in kinds:
        return False
    # A constexpr function is defined where it is declared, as a rule.
    return True in kinds or "constexpr" in WORD.findall(code, declaration, opening)


def _is_expression(part: str, before: str | None, macros: MacroTable) -> bool | None:
    """Return whether one part is an expression; None where that depends on the meaning of a name."""
    if part.startswith("..."):
        return False
    if _LITERAL.match(part) or _UNARY.match(part):
        return True
    first = WORD.match(part)
    if first is not None and first[0] in _OPERAND_WORDS:
        return True
    name = _QUALIFIED.match(part)
    if name is None:
        return None
    rest = part[name.end() :].lstrip()
    if not rest:
        return None if first is None or first[0] in _TYPE_WORDS else _is_value(name[0], before, macros)
    if rest.startswith("("):
        # `int(3)` is a conversion, `int(n)` and `f(int)` declare; after a call only an operator may follow.
        after = rest[closing(rest, 0) :].lstrip()
        if after:
            return after[0] not in "(["
        inner = [_is_expression(item, before, macros) for item in _parts(rest[1:-1])]
        return True in inner and False not in inner
    if first is not None and first[0] in _TYPE_WORDS:
        return False
    if rest.startswith("<") and not rest.startswith(("<<", "<=")):
        end = closing_angle(rest, 0)
        if end is not None:
            return _after_template(rest[end:].lstrip(), before, macros)
    if rest.startswith("["):
        return True
    if _BINARY.match(rest):
        return True
    if rest[0] in "*&":
        # `N * M` and `T *m`: the same tokens.
        return _is_value(name[0], before, macros)
    return False


def _after_template(rest: str, before: str | None, macros: MacroTable) -> bool | None:
    """Return whether ``name<...>`` followed by ``rest`` is an expression."""
    if rest.startswith("::"):  # `limits<int>::max()`, `traits<T>::type x`
        rest = rest[2:].lstrip()
        # Without `typename` a qualified name that is called is a function.
        return True if re.match(r"\w+\s*\(", rest) else _is_expression(rest, before, macros)
    if rest.startswith("("):
        return _is_expression("f" + rest, before, macros)
    return True if rest and _BINARY.match(rest) else None if not rest else False


def _parts(text: str) -> list[str]:
    return [text[start:end] for start, end in split_top(text)]


def _is_value(name: str, before: str | None, macros: MacroTable) -> bool | None:
    """Return whether a name is that of a variable, an enumerator or a macro for a value."""
    last = name.split("::")[-1].strip()
    if last in macros.definitions:
        return True if any(_LITERAL.match(body) for body in macros.bodies(last)) else None
    if before is None:
        raise ContextNeededError
    if re.search(rf"\b(?:struct|class|union|enum|typename|using)\s+{last}\b|\btypedef\b[^;]*\b{last}\s*;", before):
        return False
    variable = rf"\b(?!(?:{_NO_TYPE})\b)\w+[\s*&]+{last}\s*(?:=(?!=)|[\[{{(])"
    enumerator = rf"\benum\b[^;{{}}]*\{{[^{{}}]*\b{last}\b"
    return True if re.search(f"{variable}|{enumerator}", before) else None
