"""Demangler for kernel signatures: parameter types with typedefs and macros resolved by the compiler.

Supported is the part of the Itanium C++ ABI (section 5.1) that kernel signatures use: builtin types, pointers,
qualifiers, named types, template arguments and substitutions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

_BUILTIN = {
    "v": "void",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "f": "float",
    "d": "double",
}


def parameter_types(name: str) -> tuple[str, ...] | None:
    """Return the parameter types of a mangled function as C text (``const float*``).

    None for an unmangled name (``extern "C"``), which does not encode them, and for an unsupported one.
    """
    if not name.startswith("_Z"):
        return None
    try:
        return _Demangler(name[2:]).function()
    except (_UnsupportedError, IndexError):
        return None


def template_arguments_of(name: str) -> tuple[str, ...] | None:
    """Return the template arguments of a mangled function as C text; empty for one that is not an instance.

    None for an unmangled name, and for an unsupported one.
    """
    if not name.startswith("_Z"):
        return None
    try:
        reader = _Demangler(name[2:])
        reader.function()
    except (_UnsupportedError, IndexError, ValueError):
        return None
    return reader.arguments


class _UnsupportedError(Exception):
    """A part of the ABI that this module does not implement."""


@dataclass(slots=True)
class _Demangler:
    """The rest of a mangled name, and the substitutions and template arguments seen so far."""

    text: str
    at: int = 0
    substitutions: list[str] = field(default_factory=list)
    arguments: tuple[str, ...] = ()

    def function(self) -> tuple[str, ...]:
        is_template = self._name()
        if is_template:
            self._type()  # a function template's name is followed by its return type
        found = []
        while self.at < len(self.text) and self.text[self.at] not in ".@":
            found.append(self._type())
        return () if found == ["void"] else tuple(found)

    def _name(self) -> bool:
        """Parse the function's own name; return whether it is a template instance."""
        if self.text[self.at] != "N":
            name = self._source_name()
            return self._template(name)
        self.at += 1
        prefix, is_template = "", False
        while self.text[self.at] != "E":
            if prefix and not is_template:
                self.substitutions.append(prefix)
            is_template = False
            if self.text[self.at] == "I":
                self.arguments = self._arguments()
                is_template = True
                prefix += f"<{', '.join(self.arguments)}>"
            else:
                prefix = f"{prefix}::{self._part()}" if prefix else self._part()
        self.at += 1
        return is_template

    def _template(self, name: str) -> bool:
        if self.at < len(self.text) and self.text[self.at] == "I":
            self.substitutions.append(name)
            self.arguments = self._arguments()
            return True
        return False

    def _part(self) -> str:
        if self.text[self.at] == "L":
            self.at += 1  # internal linkage
        return self._source_name()

    def _source_name(self) -> str:
        if self.text[self.at] == "L":
            self.at += 1
        start = self.at
        while self.text[self.at].isdigit():
            self.at += 1
        if start == self.at:
            raise _UnsupportedError
        length = int(self.text[start : self.at])
        name = self.text[self.at : self.at + length]
        self.at += length
        return "(anonymous)" if name.startswith("_GLOBAL__N") else name

    def _arguments(self) -> tuple[str, ...]:
        self.at += 1
        found = []
        while self.text[self.at] != "E":
            if self.text[self.at] == "L":
                found.append(self._literal())
            else:
                found.append(self._type())
        self.at += 1
        return tuple(found)

    def _literal(self) -> str:
        """Parse a value of an integer type, or of an enumeration, which is converted to it."""
        self.at += 1
        builtin = self.text[self.at] in _BUILTIN
        name = self._type()
        end = self.text.index("E", self.at)
        value = self.text[self.at : end].replace("n", "-")
        self.at = end + 1
        return value if builtin else f"({name}){value}"

    def _type(self) -> str:
        sign = self.text[self.at]
        if sign in _BUILTIN:
            self.at += 1
            return _BUILTIN[sign]
        if sign in "PRKVr":
            self.at += 1
            inner = self._type()
            wrapped = {"P": f"{inner}*", "R": f"{inner}&", "K": f"const {inner}", "V": f"volatile {inner}", "r": inner}
            return self._remember(wrapped[sign])
        if sign == "S":
            return self._instance(self._substitution())
        if sign == "T":
            return self._remember(self.arguments[self._index()])
        if sign == "N":
            return self._nested()
        if sign.isdigit():
            return self._instance(self._remember(self._source_name()))
        raise _UnsupportedError

    def _nested(self) -> str:
        self.at += 1
        prefix = ""
        while self.text[self.at] != "E":
            if self.text[self.at] == "S":
                prefix = self._substitution()
                continue
            if self.text[self.at] == "I":
                prefix += f"<{', '.join(self._arguments())}>"
            else:
                prefix = f"{prefix}::{self._part()}" if prefix else self._part()
            self.substitutions.append(prefix)
        self.at += 1
        return prefix

    def _instance(self, name: str) -> str:
        if self.at < len(self.text) and self.text[self.at] == "I":
            return self._remember(f"{name}<{', '.join(self._arguments())}>")
        return name

    def _substitution(self) -> str:
        if self.text[self.at + 1] == "t":  # std::
            self.at += 2
            return self._remember(f"std::{self._source_name()}")
        return self.substitutions[self._index()]

    def _index(self) -> int:
        """Parse the number of ``S_``, ``S0_``, ``T_``, ``T0_``, ...: base 36, one less than the index."""
        end = self.text.index("_", self.at)
        digits = self.text[self.at + 1 : end]
        self.at = end + 1
        return int(digits, 36) + 1 if digits else 0

    def _remember(self, text: str) -> str:
        self.substitutions.append(text)
        return text
