"""The one error of this room."""

from __future__ import annotations


class PtxError(ValueError):
    """PTX that cannot be read. ``line`` is the 0-based line of the text, ``reason`` the message without it."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(f"PTX line {line + 1}: {reason}")
        self.reason = reason
        self.line = line


class UnlocatedSyntaxError(ValueError):
    """What is wrong with a piece of text whose line the caller knows. Never leaves this room: it becomes a PtxError."""


def shown(text: str) -> str:
    """Shorten a piece of PTX for a message."""
    flat = " ".join(text.split())
    return f"'{flat[:60]}...'" if len(flat) > 60 else f"'{flat}'"
