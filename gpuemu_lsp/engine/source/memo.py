"""Bounded memory of pure functions of text, by which reading a file again costs what has changed in it.

A language server reads the same file after every edit, and a check reads it once per kernel. Nearly all of it is as
before, but may have moved, so results are remembered by content, relative to where it begins. There is no notion of an
edit, and therefore no state that could disagree with the text: a file that is read for the first time and one that was
edited into the same text give the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Memo(Generic[_T]):
    """Results of a function by its arguments; at most ``limit`` entries, the least recently used are forgotten.

    The results are shared and must not be modified. Concurrent calls may compute a result twice.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._known: dict[Hashable, _T] = {}

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: Hashable, compute: Callable[[], _T]) -> _T:
        """Return the result for a key; ``compute`` is called if it is not known."""
        try:
            # To the end of the order. Another thread may remove it in between.
            result = self._known[key] = self._known.pop(key)
        except KeyError:
            result = compute()
        else:
            return result
        while len(self._known) >= self._limit:
            self._known.pop(next(iter(self._known)), None)
        self._known[key] = result
        return result

    def clear(self) -> None:
        """Forget all results."""
        self._known.clear()
