"""Integer and floating-point constants (PTX ISA section 4.5)."""

from __future__ import annotations

import re
import struct
from functools import lru_cache

from gpuemu_lsp.engine.ptx.errors import UnlocatedSyntaxError, shown
from gpuemu_lsp.engine.ptx.model import Immediate

# Lengths are bounded: a valid literal has at most 64 binary digits, and int() is quadratic in the length.
_INTEGER = re.compile(r"([-+~]?)\s*(0[xX][0-9a-fA-F]{1,32}|0[bB][01]{1,128}|0[0-7]{0,40}|[1-9][0-9]{0,40})U?", re.ASCII)
_BITS = re.compile(r"([-+]?)\s*0(?:[fF]([0-9a-fA-F]{8})|[dD]([0-9a-fA-F]{16}))")
_DECIMAL = re.compile(
    r"[-+]?(?:[0-9]{1,40}\.[0-9]{0,40}(?:[eE][-+]?[0-9]{1,4})?|[0-9]{1,40}[eE][-+]?[0-9]{1,4})", re.ASCII
)
_WARP_SIZE = "WARP_SZ"


@lru_cache(maxsize=4096)
def literal(text: str) -> Immediate | None:
    """Return the value of a literal; None if ``text`` is not a literal.

    Decimal floating-point literals are f64 (section 4.5.2); their users convert them to the instruction's type.
    """
    if match := _INTEGER.fullmatch(text):
        return Immediate(_signed(match[1], _magnitude(match[2])), "int")
    if match := _BITS.fullmatch(text):
        kind, digits = ("f32", match[2]) if match[2] else ("f64", match[3])
        sign = (1 << (4 * len(digits) - 1)) if match[1] == "-" else 0
        return Immediate(int(digits, 16) ^ sign, kind)
    if _DECIMAL.fullmatch(text):
        return Immediate(int.from_bytes(struct.pack("<d", float(text)), "little"), "f64")
    return Immediate(32, "int") if text == _WARP_SIZE else None


def integer(text: str) -> int:
    """Return the value of an integer literal.

    Raises
    ------
    SyntaxProblem
        If ``text`` is not an integer literal.
    """
    value = literal(text.strip())
    if value is None or value.kind != "int":
        raise UnlocatedSyntaxError(f"expected an integer, found {shown(text)}")
    return value.bits


def float_value(immediate: Immediate) -> float:
    """Return the numeric value of an immediate."""
    if immediate.kind == "int":
        return float(immediate.bits)
    code, width = ("<f", 4) if immediate.kind == "f32" else ("<d", 8)
    return float(struct.unpack(code, immediate.bits.to_bytes(width, "little"))[0])


def _magnitude(digits: str) -> int:
    if digits[0] == "0" and len(digits) > 1 and digits[1] in "01234567":
        return int(digits, 8)
    return int(digits, 0)


def _signed(sign: str, value: int) -> int:
    return -value if sign == "-" else ~value if sign == "~" else value
