"""A mapping that can go back to what it held: behind a side path only what was known before it is known."""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Journal(Generic[K, V]):
    """A mapping that keeps note of its changes. Going back costs what has changed since, however much it holds."""

    def __init__(self) -> None:
        self._known: dict[K, V] = {}
        self._before: list[tuple[K, V | None]] = []

    def get(self, key: K) -> V | None:
        """Return what a key stands for, None for nothing."""
        return self._known.get(key)

    def put(self, key: K, value: V) -> None:
        """Let a key stand for a value."""
        self._before.append((key, self._known.get(key)))
        self._known[key] = value

    def drop(self, key: K) -> None:
        """Forget a key."""
        value = self._known.pop(key, None)
        if value is not None:
            self._before.append((key, value))

    def clear(self) -> None:
        """Forget everything, and every mark."""
        self._known.clear()
        self._before.clear()

    @property
    def mark(self) -> int:
        """The present state, for :meth:`back`, as long as nothing is cleared."""
        return len(self._before)

    def back(self, mark: int) -> None:
        """Undo all changes since a mark; it may be gone back to again later."""
        while len(self._before) > mark:
            key, value = self._before.pop()
            if value is None:
                self._known.pop(key, None)
            else:
                self._known[key] = value
