"""Slices of a PTX module: what some of its kernels need, and a digest of it that edits elsewhere do not change.

One NVRTC program has all kernels of a file. A slice has the text of the given kernels, of the functions that they may
call and of the variables that these use. It is a module of its own, which can be emulated, inspected and compared
without its neighbours.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\""
    r"|^[ \t]*\.(?P<line>version|target|address_size|file)\b[^\n]*|[{};]",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_FUNCTION = re.compile(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?(?P<name>[\w$]+)")
_SECTION = re.compile(r"\s*\.section\s+(?P<name>[.\w]+)")
_NAME = re.compile(r"(?<![\w$.%])[A-Za-z_$%][\w$]*")
_STRING_LABEL = re.compile(r"^[ \t]*(?P<label>[\w$]+):[ \t]*\n(?P<bytes>(?:[ \t]*\.b8[^\n]*\n)*)", re.MULTILINE)
_DEBUG_STRINGS = ".debug_str"


@dataclass(frozen=True, slots=True)
class _Item:
    """A top-level statement. ``kind`` is ``head``, ``file``, ``strings``, ``function``, ``variable`` or ``section``."""

    kind: str
    text: str
    names: tuple[str, ...] = ()


class ModuleText:
    """The text of a PTX module, split into its top-level statements."""

    def __init__(self, text: str) -> None:
        self._items = tuple(_items(text))

    @cached_property
    def _defining(self) -> Mapping[str, tuple[int, ...]]:
        """Numbers of the items that declare or define a name."""
        found: dict[str, tuple[int, ...]] = {}
        for number, item in enumerate(self._items):
            for name in item.names:
                found[name] = (*found.get(name, ()), number)
        return found

    @cached_property
    def debug_sections(self) -> str:
        """The sections with debug information, which no slice has."""
        return "".join(item.text for item in self._items if item.kind in ("section", "strings"))

    def slice(self, entries: Iterable[str]) -> str:
        """Return the module reduced to what ``entries`` need; line information and its strings are kept."""
        chosen = self._reachable(entries)
        code = "".join(self._items[number].text for number in chosen)
        parts = []
        for number, item in enumerate(self._items):
            if number in chosen or item.kind in ("head", "file"):
                parts.append(item.text)
            elif item.kind == "strings":
                parts.append(_used_strings(item.text, code))
        return "".join(parts)

    def needed_names(self, entries: Iterable[str]) -> frozenset[str]:
        """Return the names of the functions and variables that ``entries`` need, with their own."""
        return frozenset(name for number in self._reachable(entries) for name in self._items[number].names)

    def _reachable(self, entries: Iterable[str]) -> frozenset[int]:
        waiting, seen = list(entries), set[str]()
        chosen: set[int] = set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            for number in self._defining.get(name, ()):
                if number not in chosen:
                    chosen.add(number)
                    used = set(_NAME.findall(_COMMENT.sub("", self._items[number].text)))
                    waiting += used & self._defining.keys() - seen
        return frozenset(chosen)


@lru_cache(maxsize=2)  # the kernels of a file are cut out of one text in turn
def module_text(text: str) -> ModuleText:
    """Return the split text of a module."""
    return ModuleText(text)


def code_identity(text: str, entries: Sequence[str]) -> str:
    """Return a digest of what ``entries`` execute: equal digests mean equal code, whatever its source lines are.

    Comments, ``.loc``, ``.file`` and debug sections are left out. So are the numbers that the compiler gives labels,
    strings and local memory in the order of the module, and the file's name in internal names: an edit of another
    kernel changes them. Nothing else is normalised, since equal digests must mean equal behaviour.
    """
    module = ModuleText(text)
    numbers = _CanonicalNumbers()
    functions: list[tuple[bool, str]] = []
    variables: list[str] = []
    for number in module._reachable(entries):
        item = module._items[number]
        if item.kind == "function":
            functions.append((item.names[0] not in entries, _without_lines(item.text)))
        else:
            variables.append(_without_lines(item.text))
    # Strings are numbered in the order of their uses, so the functions come first, each set in an order of its own.
    parts = [_without_lines(item.text) for item in module._items if item.kind == "head"]
    parts += [*entries, *(numbers.apply(code) for _, code in sorted(functions))]
    parts += sorted(numbers.apply(code) for code in variables)
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=20)
    return digest.hexdigest()


_LINES = re.compile(r"^[ \t]*(?:\.loc\b[^\n]*|\$L__(?:tmp|func_begin|func_end)\d+:[ \t]*)\n", re.MULTILINE)
_DEBUG_SECTION = re.compile(r"^[ \t]*\.section\b[^{}]*\{[^{}]*\}", re.MULTILINE)
_FILE = re.compile(r"^[ \t]*\.file\b[^\n]*", re.MULTILINE)
_SPACE = re.compile(r"\s+")
_BLOCK_LABEL = re.compile(r"\$L__BB\d+_")
_LOCAL_DEPOT = re.compile(r"__local_depot\d+")
_COUNTED = re.compile(r"(?<![\w$])(?:\$str(?:\$\d+)?|__unnamed_\d+)(?![\w$])")
_INTERNAL = re.compile(r"(?P<length>\d+)(?:_INTERNAL_|_GLOBAL__N_)")


def without_source_lines(text: str) -> str:
    """Return a module without comments and line information; its code has the same line numbers.

    Equal results are assembled to equal instructions. Unlike :func:`code_identity`, all names are kept.
    """
    for pattern in (_COMMENT, _LINES, _FILE, _DEBUG_SECTION):
        text = pattern.sub(lambda match: "\n" * match[0].count("\n"), text)
    return text


def _without_lines(text: str) -> str:
    code = _LINES.sub("", _COMMENT.sub("", text))
    code = _LOCAL_DEPOT.sub("__local_depot", _BLOCK_LABEL.sub("$L__BB_", _SPACE.sub(" ", code)))
    return canonical_name(code)


def canonical_name(code: str) -> str:
    """Return a mangled name, or code, without the names of internal namespaces.

    They contain the file's name and that of its first kernel.
    """
    parts, end = [], 0
    # Each search begins behind the last name: it may end in digits, before the length of the next one.
    while (match := _INTERNAL.search(code, end)) is not None:
        parts.append(code[end : match.start()] + "I_")
        end = match.end("length") + int(match["length"])
    return "".join((*parts, code[end:]))


@dataclass(slots=True)
class _CanonicalNumbers:
    """Numbers strings in the order of first use."""

    numbers: dict[str, int] = field(default_factory=dict)

    def apply(self, code: str) -> str:
        return _COUNTED.sub(lambda match: f"$str_{self.numbers.setdefault(match[0], len(self.numbers))}", code)


def _items(text: str) -> Iterator[_Item]:
    """Yield the top-level statements in order; what follows the last one is not yielded."""
    start = depth = 0
    initialiser = False
    for match in _TOKEN.finditer(text):
        token = match[0]
        if match["line"] and not depth:
            yield _Item("file" if match["line"] == "file" else "head", text[start : match.end()])
            start = match.end()
        elif token == "{":
            if not depth:
                initialiser = "=" in _COMMENT.sub("", text[start : match.start()])
            depth += 1
        elif token == "}":
            depth = max(depth - 1, 0)
            if not depth and not initialiser:
                yield _item(text[start : match.end()])
                start = match.end()
        elif token == ";" and not depth:
            yield _item(text[start : match.end()])
            start, initialiser = match.end(), False


def _item(text: str) -> _Item:
    section = _SECTION.match(_COMMENT.sub("", text))
    if section is not None:
        return _Item("strings" if section["name"] == _DEBUG_STRINGS else "section", text)
    declaration = _COMMENT.sub("", text).partition("{")[0]
    function = _FUNCTION.search(declaration)
    if function is not None:
        return _Item("function", text, (function["name"],))
    return _Item("variable", text, tuple(_NAME.findall(declaration.partition("=")[0])))


def _used_strings(section: str, code: str) -> str:
    """Return a debug string section without the names of functions that ``code`` does not mention."""
    used = set(re.findall(r"\bfunction_name\s+([\w$.]+)", code))
    if not used:
        return ""
    if _DEBUG_STRINGS in used:  # offsets into the whole section
        return section
    return _STRING_LABEL.sub(lambda match: match[0] if match["label"] in used else "", section)
