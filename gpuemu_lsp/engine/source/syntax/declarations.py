"""Declarations: the kind, names, execution space and used identifiers of a top-level item."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import Enum

from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, closing, closing_angle, split_top, strip, words_of
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.initialisers import ContextNeededError, is_initialiser
from gpuemu_lsp.engine.source.syntax.items import Item, has_initialiser, is_type_head, without_template

EXECUTION_SPACE_WORDS = frozenset({"__global__", "__device__", "__constant__", "__shared__", "__managed__"})
_ATTRIBUTES = frozenset({
    "__launch_bounds__", "__cluster_dims__", "__maxnreg__", "__block_size__", "__attribute__", "__declspec",
    "__align__", "alignas", "decltype", "noexcept", "requires", "explicit", "throw", "if", "for", "while", "switch",
    "return", "sizeof", "defined", "__pragma", "_Pragma", "asm", "__asm__",
})  # fmt: skip
"""Words that may precede a parenthesis in a function's head without being the function's name."""
_KEYWORDS = frozenset({
    "const", "constexpr", "static", "inline", "extern", "volatile", "unsigned", "signed", "struct", "class", "union",
    "enum", "typename", "auto", "register", "mutable", "virtual", "friend", "__restrict__", "__forceinline__",
    "__noinline__", "final", "override",
})  # fmt: skip
_OPERATOR = re.compile(r"operator\s*(?:\(\s*\)|\[\s*\]|[^\s\w(]+|\s[\w:\s*&]+)\s*(?=\()")

_ELABORATED_VARIABLE = re.compile(
    r"(?:(?:const|static|volatile|extern)\s+)*(?:struct|class|union|enum)\s+(?!class\b|struct\b)(?:\w+\s*::\s*)*(\w+)[\s*&]+(?!final\b)\w+"
    r"(?:\s*\[[^\]]*\])*\s*(?:;|=|,|$)"
)


class DeclarationKind(Enum):
    """Kind of declaration."""

    FUNCTION = "function"
    TYPE = "type"
    ALIAS = "alias"  # typedef, using X = ...
    VARIABLE = "variable"
    USING = "using"  # using namespace X, using X::y, namespace a = b
    INSTANTIATION = "instantiation"
    ASSERTION = "assertion"
    INVOCATION = "invocation"  # a macro invocation that is the whole item
    BRACE = "brace"


@dataclass(frozen=True, slots=True)
class Declaration:
    """Declaration of one item.

    ``names`` are the declared names, ``uses`` all identifiers in the item, ``head_words`` those before its body
    (attributes and types); both include the identifiers that macros among them expand to. ``parameters`` is the byte
    offset of a function's opening parenthesis, ``owner`` the class of a member that is defined outside of it.
    """

    item: Item
    kind: DeclarationKind
    names: frozenset[str]
    uses: frozenset[str]
    head_words: frozenset[str] = field(default=frozenset())
    parameters: int | None = None
    owner: str | None = None

    @property
    def on_device(self) -> bool:
        """Whether it has a device execution or memory space specifier, directly or through a macro."""
        return bool(EXECUTION_SPACE_WORDS & self.head_words)

    @property
    def device_only(self) -> bool:
        """Whether it has a device specifier and not ``__host__``."""
        return self.on_device and "__host__" not in self.head_words

    @property
    def host_only(self) -> bool:
        """Whether ``__host__`` is its only execution space specifier."""
        return "__host__" in self.head_words and not self.on_device


@dataclass(frozen=True, slots=True)
class FunctionSignature:
    """Byte offsets of a function's name and parameter list."""

    name: str
    name_start: int
    name_end: int
    owner: str | None
    open: int
    close: int


@dataclass(frozen=True, slots=True)
class _ItemReading:
    """What the text of an item says of its declaration; ``parameters`` is relative to the item.

    ``initialiser`` are the offsets of a declaration and of its parenthesis, which may also initialise a variable: the
    code before the item decides.
    """

    kind: DeclarationKind
    names: frozenset[str]
    uses: frozenset[str]
    head_words: frozenset[str] = field(default=frozenset())
    parameters: int | None = None
    owner: str | None = None
    initialiser: tuple[int, int] | None = None


_known_readings: Memo[_ItemReading] = Memo(1 << 14)


def read_declaration(code: str, item: Item, macros: MacroTable) -> Declaration:
    """Classify one item of some code and collect its names."""
    start, own = item.start, code[item.start : item.end]
    body = item.body - start if item.body is not None else None
    is_code, words = item.kind == "code", words_of(own)
    if body is not None and body >= len(own):
        # The item was never closed: what its head says is also behind its end.
        found = _read(code[start:], len(own), body, is_code, words, macros)
    else:
        key = own, body, is_code, macros.affecting(words)
        found = _known_readings.get(key, lambda: _read(own, len(own), body, is_code, words, macros))
    parameters = found.parameters + start if found.parameters is not None else None
    if found.initialiser is not None:
        head, opening = found.initialiser
        if is_initialiser(code, start + head, start + opening, macros, code[: start + head]):
            names = _variable_names(own[head:])
            return Declaration(item, DeclarationKind.VARIABLE, names, found.uses, found.head_words)
    return Declaration(item, found.kind, found.names, found.uses, found.head_words, parameters, found.owner)


def _read(
    code: str, size: int, body: int | None, is_code: bool, words: frozenset[str], macros: MacroTable
) -> _ItemReading:
    """Read the item at the beginning of some code; ``words`` are the identifiers in it."""
    uses = macros.expand(words)
    if not is_code:
        return _ItemReading(DeclarationKind.BRACE, frozenset(), uses)
    start = strip(code, without_template(code, 0, size), size)[0]
    end = body if body is not None else size
    head = code[start:end]
    head_words = macros.expand(frozenset(WORD.findall(code, 0, end)))
    first = WORD.match(head)
    word = first[0] if first else ""
    if word == "static_assert" or word == "_Static_assert":
        return _ItemReading(DeclarationKind.ASSERTION, frozenset(), uses, head_words)
    if word == "template" or head.startswith("extern template"):
        return _ItemReading(DeclarationKind.INSTANTIATION, frozenset(), uses, head_words)
    if word == "using":
        alias = re.match(r"using\s+(\w+)[^=;]*=", head)
        if alias:
            return _ItemReading(DeclarationKind.ALIAS, frozenset({alias[1]}), uses, head_words)
        return _ItemReading(DeclarationKind.USING, frozenset(WORD.findall(head)[-1:]), uses, head_words)
    if word == "namespace":
        return _ItemReading(DeclarationKind.USING, frozenset(WORD.findall(head)[1:2]), uses, head_words)
    if word == "concept":
        return _ItemReading(DeclarationKind.ALIAS, frozenset(WORD.findall(head)[1:2]), uses, head_words)
    if word == "typedef":
        return _ItemReading(DeclarationKind.ALIAS, _typedef_names(code, size, start, body), uses, head_words)
    if (
        is_type_head(head)
        and (body is not None or "(" not in head)
        and not (body is None and _names_variable(head, macros))
    ):
        return _ItemReading(DeclarationKind.TYPE, _type_names(code, size, start, body), uses, head_words)
    signature = find_signature(code, start, end)
    if signature is not None and (not has_initialiser(code[start : signature.open])):
        if signature.name_start == start and body is None and signature.owner is None:
            return _ItemReading(DeclarationKind.INVOCATION, frozenset(), uses, head_words)
        # An operator is found through its operand types (see the index of reachable code), not by a name.
        names = frozenset({signature.name} if signature.name != "operator" else ())
        function = _ItemReading(DeclarationKind.FUNCTION, names, uses, head_words, signature.open, signature.owner)
        if body is not None:
            return function
        try:
            if not is_initialiser(code, start, signature.open, macros, None):
                return function
        except ContextNeededError:
            return replace(function, initialiser=(start, signature.open))
    return _ItemReading(DeclarationKind.VARIABLE, _variable_names(head), uses, head_words)


def _names_variable(head: str, macros: MacroTable) -> bool:
    """Return whether a head with a class keyword declares a variable, as ``struct timespec start;`` does."""
    match = _ELABORATED_VARIABLE.match(head)
    # `class EXPORTED Name;` declares a class.
    return match is not None and match[1] not in macros.definitions and not match[1].isupper()


def find_signature(code: str, start: int, end: int) -> FunctionSignature | None:
    """Return the last ``name(...)`` in a function's head that is not an attribute.

    None for a variable with an initialiser: an ``=`` before any such group.
    """
    found: FunctionSignature | None = None
    position = start
    while position < end:
        operator = _OPERATOR.match(code, position, end)
        word = WORD.match(code, position, end)
        if word is not None:
            name, after = word[0], word.end()
            if name == "operator" and operator is not None:
                after = operator.end()
            opening = strip(code, after, end)[0]
            if code[opening : opening + 1] == "<" and name != "operator":
                close = closing_angle(code, opening)
                if close is None or close > end:
                    position = after
                    continue
                opening = strip(code, close, end)[0]
                after = close
            if code[opening : opening + 1] == "(":
                close = closing(code, opening)
                if name not in _ATTRIBUTES and (found is None or code[found.close : position].strip()[:2] != "->"):
                    owner = re.search(r"(\w+)\s*(?:<[^<>]*>\s*)?::\s*~?\s*$", code[start:position])
                    found = FunctionSignature(name, position, word.end(), owner[1] if owner else None, opening, close)
                position = close
            else:
                position = after
            continue
        sign = code[position]
        if sign in "([":
            position = closing(code, position)
            continue
        # After the parameter list `=` is `= default`, `= delete` or `= 0`.
        if sign == "=" and found is None:
            return None
        if sign == ":" and found is not None and code[position - 1] != ":" and code[position + 1 : position + 2] != ":":
            break  # member initialiser list
        if sign == "-" and code[position + 1 : position + 2] == ">" and found is not None:
            break  # trailing return type
        position += 1
    return found


def _type_names(code: str, size: int, start: int, body: int | None) -> frozenset[str]:
    end = body if body is not None else size
    head = code[start:end]
    head = re.split(r"(?<!:):(?!:)", head, maxsplit=1)[0]
    head = re.sub(r"<.*", "", head, flags=re.DOTALL)
    names = [word for word in WORD.findall(head) if word not in _KEYWORDS]
    found = set(names[-1:])
    if body is not None:
        close = closing(code, body)
        if re.search(r"\benum\b", head):
            # Enumerators are names. Identifiers in their values become names too, which at most keeps more code.
            found |= set(WORD.findall(code, body, close))
        found |= set(WORD.findall(code, close, size))
    return frozenset(found)


def _typedef_names(code: str, size: int, start: int, body: int | None) -> frozenset[str]:
    if body is not None:
        close = closing(code, body)
        names = {word for word in WORD.findall(code, start, body) if word not in _KEYWORDS}
        inner = set(WORD.findall(code, body, close)) if re.search(r"\benum\b", code[start:body]) else set()
        return frozenset(names | inner | set(WORD.findall(code, close, size)))
    whole = code[start:size]
    pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", whole)
    if pointer:
        return frozenset({pointer[1]})
    flat = re.sub(r"\[[^\]]*\]|\([^()]*\)", "", whole)
    return frozenset(WORD.findall(flat)[-1:])


def _variable_names(head: str) -> frozenset[str]:
    """Return the names that ``const int A = 1, B[2] = {...};`` declares: the last word of each declarator."""
    names = set()
    for start, end in split_top(head.rstrip(";")):
        declarator = re.split(r"(?<![=!<>])=(?!=)|[\[({]", head[start:end], maxsplit=1)[0]
        words = [word for word in WORD.findall(declarator) if word not in _KEYWORDS]
        names |= set(words[-1:])
    return frozenset(names)
