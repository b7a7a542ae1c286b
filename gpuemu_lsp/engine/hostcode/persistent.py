"""A mapping of which changed copies share nearly all entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
_MAX_RECENT = 24


class PersistentMap(Mapping[K, V]):
    """An immutable mapping; :meth:`set` returns a changed one, and takes a time that does not depend on its length.

    The last changes are kept apart from the entries before, which changed copies share.
    """

    __slots__ = ("_base", "_recent")

    def __init__(self, base: Mapping[K, V] | None = None, recent: Mapping[K, V] | None = None) -> None:
        self._base: Mapping[K, V] = base if base is not None else {}
        self._recent: Mapping[K, V] = recent if recent is not None else {}

    def set(self, key: K, value: V) -> PersistentMap[K, V]:
        """Return the mapping with another value of a key."""
        return self.updated({key: value})

    def updated(self, changes: Mapping[K, V]) -> PersistentMap[K, V]:
        """Return the mapping with other values of some keys."""
        recent = {**self._recent, **changes}
        return (
            PersistentMap(self._base, recent) if len(recent) <= _MAX_RECENT else PersistentMap({**self._base, **recent})
        )

    def differing(self, other: PersistentMap[K, V]) -> Iterator[K]:
        """Yield the keys of another mapping whose value may not be the same in this one."""
        shared = self._base is other._base
        yield from dict.fromkeys((*self._recent, *other._recent)) if shared else other

    def __getitem__(self, key: K) -> V:
        """Return the value of a key."""
        recent = self._recent
        return recent[key] if key in recent else self._base[key]

    def __contains__(self, key: object) -> bool:
        """Return whether there is a value of a key."""
        return key in self._recent or key in self._base

    def __iter__(self) -> Iterator[K]:
        """Yield the keys in the order in which they were set first."""
        yield from self._base
        yield from (key for key in self._recent if key not in self._base)

    def __len__(self) -> int:
        """Return the number of keys."""
        return sum(1 for _ in self)
