"""What the messages of failed builds and calls say: their first and last line, and a compiler's error."""

from __future__ import annotations

import re

_COMPILER_ERROR = re.compile(r"^.*?([^/\s]+(?:\(\d+\)|:\d+(?::\d+)?): (?:fatal )?error: .*)$", re.MULTILINE)
_MISSING = re.compile(
    r"pip install|(?:fatal error: |cannot open source file \")(?:cu(?!te\b|tlass)|nv|thrust/|cub/)\w*"
)
"""Errors about a header of NVIDIA's toolkit that is not installed here, where it would be on a GPU's machine."""


def first_line(text: str) -> str:
    """Return the first line of a message."""
    lines = text.strip().splitlines()
    return lines[0] if lines else "without a message"


def last_line(text: str) -> str:
    """Return the last line of a message: of a compiler's, its reason."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "without a message"


def compiler_error(text: str) -> str:
    """Return the first error of a compiler in what a build has written, empty if it has none."""
    match = _COMPILER_ERROR.search(text)
    return match[1] if match is not None else ""


def is_missing_here(error: str) -> bool:
    """Return whether a compiler's error is about a header that only this machine lacks."""
    return _MISSING.search(error) is not None
