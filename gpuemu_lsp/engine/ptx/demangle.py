"""Demangling of symbols to qualified names (Itanium C++ ABI, section 5.1).

Template arguments and parameters are not part of the result: ``_ZN2nn4geluIfEET_S1_`` is ``nn::gelu``. Types are
therefore skipped rather than decoded, and substitutions need no table.
"""

from __future__ import annotations

import re
from functools import lru_cache

_DEEPEST = 64
_HIDDEN = re.compile(r"_INTERNAL_\w*|_GLOBAL__N\w*|__v?\d+|CUB_\d\w*|THRUST_\d\w*")
"""Namespaces that sources do not spell: unnamed ones, and inline version namespaces of libraries."""
_STANDARD = {"t": "std", "a": "allocator", "b": "basic_string", "s": "string", "i": "istream", "o": "ostream"}


@lru_cache(maxsize=4096)
def demangled_name(symbol: str) -> str:
    """Return the qualified name of a symbol; a symbol that is not mangled or not supported is returned unchanged."""
    if not symbol.startswith("_Z"):
        return symbol
    parts = _ManglingReader(symbol).parts(2)
    shown = [part for part in parts if part and not _HIDDEN.fullmatch(part)]
    return "::".join(shown) if shown else symbol


class _ManglingReader:
    def __init__(self, text: str) -> None:
        self._text = text

    def parts(self, at: int) -> list[str]:
        """Return the components of the name that begins at ``at``."""
        if self._at(at) == "Z":  # local entity: its name follows the encoding of the function
            return self.parts(self._skip_list(at + 1, 0))
        nested = self._at(at) == "N"
        found: list[str] = []
        at += nested
        while at < len(self._text):
            sign = self._at(at)
            if sign.isdigit():
                name, at = self._source_name(at)
                found.append(name)
            elif sign == "S" and self._at(at + 1) == "t":
                found.append("std")
                at += 2
                continue
            elif sign == "I":
                at = self._skip_list(at + 1, 0)
            elif sign == "L" or (nested and not found and sign in "rVKRO"):
                at += 1
                continue
            elif sign in "CD" and self._at(at + 1).isdigit() and found:
                found.append(found[-1] if sign == "C" else f"~{found[-1]}")
                at += 2
            elif sign == "U" and self._at(at + 1) == "l":
                found.append("lambda")
                at = self._after(self._skip_list(at + 2, 0), "_")
            elif sign.islower() and sign != "v" and (nested or not found):
                found.append("operator")
                at += 2
            else:
                break
            if not nested and self._at(at) != "I":
                break
        return found

    def _at(self, index: int) -> str:
        return self._text[index : index + 1]

    def _after(self, at: int, sign: str) -> int:
        found = self._text.find(sign, at)
        return len(self._text) if found < 0 else found + 1

    def _source_name(self, at: int) -> tuple[str, int]:
        start = at
        while self._at(at).isdigit() and at - start < 6:
            at += 1
        length = int(self._text[start:at])
        return self._text[at : at + length], at + length

    def _skip_list(self, at: int, depth: int) -> int:
        """Return the index after the ``E`` that ends a list of types, names or template arguments."""
        while at < len(self._text) and depth < _DEEPEST:
            if self._at(at) == "E":
                return at + 1
            at = self._skip_one(at, depth)
        return len(self._text)

    def _skip_one(self, at: int, depth: int) -> int:
        sign, following = self._at(at), self._at(at + 1)
        if sign.isdigit():
            return self._source_name(at)[1]
        if sign == "L":
            return self._skip_literal(at + 1, depth)
        if sign == "U" and following == "l":
            return self._after(self._skip_list(at + 2, depth + 1), "_")
        if sign in "NIXJFZ":
            return self._skip_list(at + 1, depth + 1)
        if sign == "S" and following in _STANDARD:
            return at + 2
        if sign in "STA" or (sign == "D" and following == "v") or (sign == "U" and following == "t"):
            return self._after(at + 1, "_")
        return at + 2 if sign == "D" else at + 1

    def _skip_literal(self, at: int, depth: int) -> int:
        if self._text.startswith("_Z", at):
            return self._skip_list(at + 2, depth + 1)
        return self._after(self._skip_one(at, depth), "E")
