"""Values and names in messages: shortened, on one line, in TOML syntax."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

_MAX_SHOWN = 40


def shorten(text: str) -> str:
    """Return a text on one line, shortened for a message."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHOWN else f"{line[:_MAX_SHOWN]}..."


def show(value: Any) -> str:
    """Describe a value: ``the string "32"``, ``a table``."""
    match value:
        case bool():
            return f"the boolean {toml(value)}"
        case str():
            return f'the string "{shorten(value)}"'
        case int():
            return str(value) if abs(value) <= 2**64 else "a number beyond 64 bits"
        case float():
            return toml(value)
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "a table"
        case _:
            return "a date or time"


def toml(value: Any) -> str:
    """Write a value as TOML."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case list():
            return f"[{', '.join(toml(item) for item in value)}]"
        case dict():
            return "{ " + ", ".join(f"{name} = {toml(item)}" for name, item in value.items()) + " }"
        case _:
            return str(value)


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is closest to a mistyped one, None if none is close."""
    by_lower = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None


def did_you_mean(suggestion: str | None) -> str:
    """Return ``" Did you mean `x`?"``, or nothing."""
    return "" if suggestion is None else f" Did you mean `{suggestion}`?"
