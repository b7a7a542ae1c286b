"""Parser of operands: registers, immediates, symbols, addresses, vectors (PTX ISA section 6)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.engine.ptx.errors import UnlocatedSyntaxError, shown
from gpuemu_lsp.engine.ptx.expressions import constant
from gpuemu_lsp.engine.ptx.literals import literal
from gpuemu_lsp.engine.ptx.model import Address, Immediate, Negated, Operand, Pair, Register, Symbol, Vector


@dataclass(frozen=True, slots=True)
class RegisterSum:
    """``%r1+4`` outside of brackets: a register plus a constant (units of the register), computed in a new register."""

    register: Register
    offset: int


Lookup: TypeAlias = Callable[[str], "Operand | None"]
"""Function from a name to its register, vector of registers or variable; None if undeclared."""

_NAME = r"[A-Za-z_$%][\w$]*"
_IDENTIFIER = re.compile(_NAME, re.ASCII)
_SPECIAL = re.compile(r"%[a-z]\w*(?:\.[xyzw])?", re.ASCII)
_COMPONENT = re.compile(rf"({_NAME})\.([xyzwrgba])", re.ASCII)
_SUM = re.compile(rf"({_NAME})\s*([+-].*)", re.ASCII | re.S)
_COMMA_IN_BRACKETS = re.compile(r"\[[^\]]*,")
_OPENING, _CLOSING = "{[(", "}])"
_DEEPEST = 4


def split(text: str) -> list[str]:
    """Split at commas outside of brackets; pieces keep their spaces.

    Raises
    ------
    SyntaxProblem
        If the brackets do not match.
    """
    if "{" not in text and "(" not in text and not _COMMA_IN_BRACKETS.search(text):
        return text.split(",")
    pieces, stack, start = [], [], 0
    for index, sign in enumerate(text):
        if sign in _OPENING:
            stack.append(_CLOSING[_OPENING.index(sign)])
        elif sign in _CLOSING:
            if not stack or stack.pop() != sign:
                raise UnlocatedSyntaxError(f"unmatched '{sign}' in {shown(text)}")
        elif sign == "," and not stack:
            pieces.append(text[start:index])
            start = index + 1
    if stack:
        raise UnlocatedSyntaxError(f"expected '{stack[-1]}' in {shown(text)}")
    pieces.append(text[start:])
    return pieces


def operand_or_sum(text: str, lookup: Lookup) -> Operand | RegisterSum:
    """Parse one operand of an instruction, which may be the sum of a register and a constant.

    Raises
    ------
    SyntaxProblem
        If the text is not an operand.
    """
    match = _SUM.fullmatch(text.strip())
    base = lookup(match[1]) if match else None
    if match is not None and isinstance(base, Register):
        return RegisterSum(base, _offset(match[2]))
    return operand(text, lookup)


def operand(text: str, lookup: Lookup, depth: int = 0) -> Operand:
    """Parse one operand.

    Raises
    ------
    SyntaxProblem
        If the text is not an operand.
    """
    text = text.strip()
    first = text[:1]
    if first == "%" or first.isalpha() or first in ("_", "$"):
        return _named(text, lookup)
    if first == "[":
        return _address(_inside(text, "]"), lookup, depth)
    if first == "{":
        return Vector(_elements(_inside(text, "}"), lookup, depth))
    if first == "!" and _IDENTIFIER.fullmatch(text[1:].strip()):
        return Negated(_register(text[1:], lookup))
    number = literal(text) or constant(text)
    if number is not None:
        return number
    raise UnlocatedSyntaxError(f"expected an operand, found {shown(text)}" if text else "expected an operand")


def _named(text: str, lookup: Lookup) -> Operand:
    if "|" in text:
        first, _, second = text.partition("|")
        return Pair(_register(first, lookup), _register(second, lookup))
    if _IDENTIFIER.fullmatch(text):
        return _name(text, lookup)
    if match := _SUM.fullmatch(text):
        base = _name(match[1], lookup)
        if isinstance(base, Symbol):
            return Symbol(base.name, base.offset + _offset(match[2]))
        if isinstance(base, Immediate) and (number := constant(text)) is not None:  # WARP_SZ - 1
            return number
        raise UnlocatedSyntaxError(f"expected brackets around a sum with a register: {shown(text)}")
    if match := _COMPONENT.fullmatch(text):
        found = lookup(match[1])
        index = "xyzw".find(match[2]) if match[2] in "xyzw" else "rgba".find(match[2])
        if isinstance(found, Vector) and index < len(found.elements):
            return found.elements[index]
    if _SPECIAL.fullmatch(text):
        return Register(text)
    raise UnlocatedSyntaxError(f"expected an operand, found {shown(text)}")


def _name(text: str, lookup: Lookup) -> Operand:
    found = lookup(text)
    if found is not None:
        return found
    if text[0] == "%" or text == "_":
        return Register(text)
    return literal(text) or Symbol(text)


def _register(text: str, lookup: Lookup) -> Register:
    text = text.strip()
    found = _name(text, lookup) if _IDENTIFIER.fullmatch(text) else None
    if not isinstance(found, Register):
        raise UnlocatedSyntaxError(f"expected a register, found {shown(text)}")
    return found


def _address(inner: str, lookup: Lookup, depth: int) -> Operand:
    parts = split(inner)
    if len(parts) > 1:  # texture and tensor coordinates: [tex, {x, y}]
        return Vector(_elements(inner, lookup, depth))
    inner = inner.strip()
    offset = 0
    match = _SUM.fullmatch(inner)
    if match:
        inner, offset = match[1], _offset(match[2])
    base = operand(inner, lookup, depth + 1)
    if isinstance(base, Symbol):
        return Address(Symbol(base.name), base.offset + offset)
    if isinstance(base, Register | Immediate):
        return Address(base, offset)
    raise UnlocatedSyntaxError(f"expected an address, found {shown(inner)}")


def _elements(inner: str, lookup: Lookup, depth: int) -> tuple[Operand, ...]:
    if depth >= _DEEPEST:
        raise UnlocatedSyntaxError("brackets are nested too deeply")
    return tuple(operand(part, lookup, depth + 1) for part in split(inner)) if inner.strip() else ()


def _inside(text: str, closing: str) -> str:
    if text[-1] != closing or len(text) < 2:
        raise UnlocatedSyntaxError(f"expected '{closing}' at the end of {shown(text)}")
    return text[1:-1]


def _offset(text: str) -> int:
    """Return the value of ``+4`` or ``-(2*4)``."""
    value = constant(text)
    if value is None:
        raise UnlocatedSyntaxError(f"expected a constant, found {shown(text)}")
    return value.bits
