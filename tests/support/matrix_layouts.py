"""Layouts of ``mma`` fragments, shape by shape as in the tables of the PTX manual (section 9.7.14.5).

Transcribed from the manual, independently of the emulator's single rule for all shapes. Each function takes a lane and
an element number i, and returns (row, column).
"""

from __future__ import annotations


def _halves(i: int, group: int, low: range, more: range = range(0)) -> int:
    return group if i in low or i in more else group + 8


def a(shape: str, bits: int, lane: int, i: int) -> tuple[int, int]:
    g, t = lane >> 2, lane % 4
    match shape, bits:
        case "m16n8k8", 16:
            return _halves(i, g, range(2)), t * 2 + (i & 1)
        case "m16n8k16", 16:
            return _halves(i, g, range(2), range(4, 6)), t * 2 + (i & 1) + (8 if i >= 4 else 0)
        case "m16n8k4", 32:
            return (g, g + 8)[i], t
        case "m16n8k8", 32:
            return (g, g + 8)[i % 2], t + (4 if i >= 2 else 0)
        case "m8n8k4", 64:
            return g, t
        case "m16n8k4", 64:
            return (g, g + 8)[i], t
        case "m16n8k8", 64:
            return (g, g + 8)[i % 2], t + (4 if i >= 2 else 0)
        case "m16n8k16", 64:
            return (g, g + 8)[i % 2], t + 4 * (i // 2)
        case "m8n8k16", 8:
            return g, t * 4 + i
        case "m16n8k16", 8:
            return _halves(i, g, range(4)), t * 4 + (i & 3)
        case "m16n8k32", 8:
            return _halves(i, g, range(4), range(8, 12)), t * 4 + (i & 3) + (16 if i >= 8 else 0)
        case "m8n8k32", 4:
            return g, t * 8 + i
        case "m16n8k32", 4:
            return _halves(i, g, range(8)), t * 8 + (i & 7)
        case "m16n8k64", 4:
            return _halves(i, g, range(8), range(16, 24)), t * 8 + (i & 7) + (32 if i >= 16 else 0)
        case "m8n8k128", 1:
            return g, t * 32 + i
        case "m16n8k128", 1:
            return _halves(i, g, range(32)), t * 32 + (i & 31)
        case "m16n8k256", 1:
            return _halves(i, g, range(32), range(64, 96)), t * 32 + (i & 31) + (128 if i >= 64 else 0)
    raise AssertionError((shape, bits))


def b(shape: str, bits: int, lane: int, i: int) -> tuple[int, int]:
    g, t = lane >> 2, lane % 4
    match shape, bits:
        case "m16n8k8", 16:
            return t * 2 + i, g
        case "m16n8k16", 16:
            return t * 2 + (i & 1) + (8 if i >= 2 else 0), g
        case ("m16n8k4", 32) | ("m8n8k4", 64) | ("m16n8k4", 64):
            return t, g
        case "m16n8k8", 32:
            return t + (4 if i else 0), g
        case (("m16n8k8" | "m16n8k16"), 64):
            return t + 4 * i, g
        case (("m8n8k16" | "m16n8k16"), 8):
            return t * 4 + i, g
        case "m16n8k32", 8:
            return t * 4 + (i & 3) + (16 if i >= 4 else 0), g
        case (("m8n8k32" | "m16n8k32"), 4):
            return t * 8 + i, g
        case "m16n8k64", 4:
            return t * 8 + (i & 7) + (32 if i >= 8 else 0), g
        case (("m8n8k128" | "m16n8k128"), 1):
            return t * 32 + i, g
        case "m16n8k256", 1:
            return t * 32 + (i & 31) + (128 if i >= 32 else 0), g
    raise AssertionError((shape, bits))


def c(shape: str, lane: int, i: int) -> tuple[int, int]:
    g, t = lane >> 2, lane % 4
    if shape.startswith("m8"):
        return g, t * 2 + i
    return (g if i < 2 else g + 8), t * 2 + (i & 1)
