"""Attributes of other packages that a session replaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Replace or add an attribute of a module or class inside a ``with`` statement."""
    inherited = name not in vars(owner)
    # Looked up only if it is there: some owners compute attributes, or fail, when asked for one that they lack.
    previous = None if inherited else getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, previous)
