"""Parser of variable and parameter declarations (PTX ISA section 5)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuemu_lsp.engine.ptx.errors import UnlocatedSyntaxError, shown
from gpuemu_lsp.engine.ptx.initializers import initial_image, item_count
from gpuemu_lsp.engine.ptx.literals import integer
from gpuemu_lsp.engine.ptx.model import Variable

_INTEGERS = {f"{kind}{bits}": bits // 8 for kind in "bus" for bits in (8, 16, 32, 64)}
_FLOATS = {"f16": 2, "bf16": 2, "f16x2": 4, "bf16x2": 4, "tf32": 4, "f32": 4, "f64": 8}
_NARROW = {"e4m3": 1, "e5m2": 1, "e4m3x2": 2, "e5m2x2": 2, "ue8m0": 1}
SIZES = {**_INTEGERS, **_FLOATS, **_NARROW, "b128": 16, "pred": 1}
"""Size in bytes of each fundamental type (PTX ISA section 5.2); a predicate, which has no size, counts as one."""

_OPAQUE = frozenset({"texref", "samplerref", "surfref"})
_SPACES = frozenset({"global", "const", "shared", "local", "param", "tex"})
_LINKAGE = frozenset({"visible", "extern", "weak", "common"})
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_DIRECTIVE = re.compile(r"\s*\.(\w+)(?:::\w+)?(?:\s*\[\s*\d+\s*\])?", re.ASCII)
_ALIGNMENT = re.compile(r"\s*\.align\s+(\d{1,9})(?=\s)", re.ASCII)
_ATTRIBUTE = re.compile(r"\s*\.attribute\s*\([^()]*(?:\([^()]*\)[^()]*)*\)")
_POINTER = re.compile(r"\s*\.ptr\b(?:\s*\.(?:global|const|shared|local)\b)?(?:\s*\.align\s+\d+(?=\s))?", re.ASCII)
_NAME = re.compile(r"\s*([A-Za-z_$%][\w$]*)\s*((?:\[[^\[\]]*\]\s*)*)\s*", re.ASCII)
_BRACKETS = re.compile(r"\[\s*([^\[\]]*?)\s*\]")


@dataclass(slots=True)
class _DeclarationWords:
    """Directives before a variable's name."""

    space: str
    type: str = ""
    alignment: int = 0
    lanes: int = 1
    extern: bool = False
    managed: bool = False


def variable(text: str, space: str = "") -> Variable:
    """Parse ``.visible .global .align 4 .b8 name[16] = {1, 2}``, without the semicolon.

    Parameters
    ----------
    text
        The declaration.
    space
        The state space if the text has none.

    Raises
    ------
    SyntaxProblem
        If the text is not a declaration.
    """
    head, equals, value = text.partition("=")
    words, position = _words(head, space)
    if not words.space:
        raise UnlocatedSyntaxError(f"expected a state space such as .global in {shown(head)}")
    if words.type in _OPAQUE:
        element = 8
    elif words.type in SIZES:
        element = SIZES[words.type] * words.lanes
    else:
        raise UnlocatedSyntaxError(f"expected a type such as .b32 in {shown(head)}")
    named = _NAME.match(head, position)
    if named is None and words.space == "param" and not head[position:].strip():
        return Variable("_", words.space, words.type, element, words.alignment)  # unnamed, in a prototype
    if named is None or named.end() != len(head):
        raise UnlocatedSyntaxError(f"expected a name in {shown(text)}")
    extents = tuple(integer(extent) if extent else 0 for extent in _BRACKETS.findall(named[2]))
    if any(extent < 0 for extent in extents):
        raise UnlocatedSyntaxError(f"negative array size in {shown(head)}")
    if extents and extents[0] == 0 and equals:
        extents = (item_count(value), *extents[1:])
    size = element
    for extent in extents:
        size *= extent
    image: bytes | None = None
    relocations: tuple[tuple[int, str, int], ...] = ()
    if equals:
        lists = (*extents, words.lanes) if words.lanes > 1 else extents
        image, relocations = initial_image(value, words.type, SIZES.get(words.type, 8), lists, size)
    return Variable(
        name=named[1],
        space=words.space,
        type=words.type,
        size=size,
        alignment=words.alignment,
        init=image,
        relocations=relocations,
        extern=words.extern,
        is_array=bool(extents),
        managed=words.managed,
    )


def _words(head: str, space: str) -> tuple[_DeclarationWords, int]:
    words = _DeclarationWords(space)
    position = 0
    while True:
        if match := _ALIGNMENT.match(head, position):
            words.alignment = int(match[1])
        elif match := _ATTRIBUTE.match(head, position):
            words.managed |= ".managed" in match[0]
        elif match := _POINTER.match(head, position):
            pass
        elif match := _DIRECTIVE.match(head, position):
            _take(words, match[1], head)
        else:
            return words, position
        position = match.end()


def _take(words: _DeclarationWords, word: str, head: str) -> None:
    if word in _SPACES:
        words.space = "global" if word == "tex" else word
    elif word == "reg":
        words.space = "reg"
    elif word in _VECTORS:
        words.lanes = _VECTORS[word]
    elif word in SIZES or word in _OPAQUE:
        words.type = word
    elif word in _LINKAGE:
        words.extern = words.extern or word == "extern"
    else:
        raise UnlocatedSyntaxError(f"unknown directive '.{word}' in {shown(head)}")
