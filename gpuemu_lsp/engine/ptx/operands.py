"""Operands of one instruction: registers, immediates, symbols, addresses, vectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from gpuemu_lsp.engine.ptx.model import Address, Immediate, Negated, Operand, Pair, Register, Symbol, Vector

_INTEGER = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?$")
_FLOAT = re.compile(r"0[fFdD][0-9a-fA-F]+$")
_DECIMAL = re.compile(r"[-+]?\d+\.\d*(?:[eE][-+]?\d+)?$|[-+]?\d+[eE][-+]?\d+$")
_OFFSET = re.compile(r"^(.*?)\s*([+-])\s*(-?\s*(?:0[xX][0-9a-fA-F]+|\d+))$", re.S)
_SPECIAL = re.compile(
    r"(?:%?(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)\.[xyz]|WARP_SZ|%[a-z]\w*)$"
)

Rename = Callable[[str], str]
"""Maps a register name of an inner scope to its unique name."""


class OperandError(ValueError):
    """Text that is no operand."""


def split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    if "{" not in text and "[" not in text and "(" not in text:
        return [part.strip() for part in text.split(",")]
    parts, depth, start = [], 0, 0
    for index, sign in enumerate(text):
        if sign in "{[(":
            depth += 1
        elif sign in "}])":
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    parts.append(text[start:].strip())
    return parts


def operand(text: str, is_register: Callable[[str], bool], rename: Rename) -> Operand:
    """Read one operand.

    Parameters
    ----------
    text
        Its text, trimmed.
    is_register
        Whether a bare name is a declared register of the function.
    rename
        Maps a register's name to its unique name.

    Raises
    ------
    OperandError
        If it is none.
    """
    if not text:
        raise OperandError("an operand is missing")
    first = text[0]
    if first == "[":
        return _address(text, is_register, rename)
    if first == "{":
        if text[-1] != "}":
            raise OperandError(f"'{text}' is not closed")
        inner = text[1:-1].strip()
        return Vector(tuple(operand(part, is_register, rename) for part in split(inner)) if inner else ())
    if first == "!":
        return Negated(Register(rename(text[1:].strip())))
    if "|" in text:
        left, _, right = text.partition("|")
        return Pair(Register(rename(left.strip())), Register(rename(right.strip())))
    number = immediate(text)
    if number is not None:
        return number
    return _name(text, is_register, rename)


@lru_cache(maxsize=4096)
def immediate(text: str) -> Immediate | None:
    """Read a literal (PTX section 4.5), or None."""
    if _INTEGER.match(text):
        return Immediate(_integer(text), "int")
    if _FLOAT.match(text):
        return Immediate(int(text[2:], 16), "f32" if text[1] in "fF" else "f64")
    if _DECIMAL.match(text):
        import struct

        return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), "f64")
    return None


def _integer(text: str) -> int:
    digits = text.rstrip("U")
    sign = -1 if digits.startswith("-") else 1
    digits = digits.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567" and digits.isdigit():
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def _name(text: str, is_register: Callable[[str], bool], rename: Rename) -> Operand:
    if is_register(text) or text == "_" or _SPECIAL.match(text):
        return Register(rename(text))
    found = _OFFSET.match(text)
    if found is not None:
        base = _name(found[1].strip(), is_register, rename)
        offset = int(found[3].replace(" ", ""), 0) * (-1 if found[2] == "-" else 1)
        if isinstance(base, Symbol):
            return Symbol(base.name, base.offset + offset)
        raise OperandError(f"'{text}' adds to a register outside brackets")
    if re.fullmatch(r"[A-Za-z_$%][\w$.]*", text):
        return Symbol(rename(text))
    raise OperandError(f"'{text}' is no operand")


def _address(text: str, is_register: Callable[[str], bool], rename: Rename) -> Operand:
    if text[-1] != "]":
        raise OperandError(f"'{text}' is not closed")
    inner = text[1:-1].strip()
    parts = split(inner)
    if len(parts) > 1:  # texture and tensor coordinates: [tex, {x, y}]
        return Vector(tuple(operand(part, is_register, rename) for part in parts))
    found = _OFFSET.match(inner)
    number = immediate(inner)
    if number is not None:
        return Address(number)
    if found is not None and found[1].strip():
        offset = int(found[3].replace(" ", ""), 0) * (-1 if found[2] == "-" else 1)
        base = operand(found[1].strip(), is_register, rename)
    else:
        offset, base = 0, operand(inner, is_register, rename)
    if isinstance(base, Symbol):
        return Address(Symbol(base.name), base.offset + offset)
    if isinstance(base, (Register, Immediate)):
        return Address(base, offset)
    raise OperandError(f"'{text}' is no address")
