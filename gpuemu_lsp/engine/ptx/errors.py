"""Errors of the PTX parser."""

from __future__ import annotations


class PtxError(ValueError):
    """PTX that cannot be parsed. ``line`` is 0-based; ``reason`` is the message without it."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(f"PTX line {line + 1}: {reason}")
        self.reason = reason
        self.line = line


class UnlocatedSyntaxError(ValueError):
    """A syntax error whose line only the caller knows; the parser converts it to a :class:`PtxError`."""


def shown(text: str) -> str:
    """Return a piece of PTX in quotes, shortened for a message."""
    flat = " ".join(text.split())
    return f"'{flat[:60]}...'" if len(flat) > 60 else f"'{flat}'"
