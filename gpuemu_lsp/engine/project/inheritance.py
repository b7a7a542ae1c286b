"""Inheritance between ``[[kernels]]`` entries: ``like = "gelu"``.

An entry with ``like`` is completed before anything is checked, so that the checks and records see only complete
entries:

* every key that the entry does not set comes from the base entry, which may itself have ``like``; ``name`` and ``like``
  are never inherited;
* tables (``dims``, ``args``, ``launch``, ``tolerances``, ``invariants``, ``artifact_checks``) are merged key by key. A
  value within a table, also an inline table such as one dimension or argument, is replaced as a whole: an argument with
  the base's ``in`` and its own ``out`` would mean nothing.

Inherited values keep their positions: :meth:`.tree.TomlTree.inherit` maps the derived entry's path of a value to where
the value is written, and findings on it point there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuemu_lsp.engine.project.keys import KERNEL
from gpuemu_lsp.engine.project.message_text import closest, did_you_mean, shorten
from gpuemu_lsp.engine.project.tree import Path, TomlTree
from gpuemu_lsp.engine.project.value_kinds import DTYPES, Table

_NEVER_INHERITED = ("name", "like")
_MAX_INHERITED = 200_000
"""Largest number of inherited values in one file: many entries derived from a huge one would exhaust the memory."""

_MAX_SHOWN = 3
"""Names shown of a cycle."""


@dataclass(frozen=True, slots=True)
class CompletedEntries:
    """The ``[[kernels]]`` entries with what they inherit.

    ``problems`` holds, for each index whose ``like`` cannot be followed, a message and the name that it may stand for.
    ``incomplete`` are those indices and the entries derived from them; they cannot be used.
    """

    entries: list[Any]
    problems: Mapping[int, tuple[str, str | None]]
    incomplete: frozenset[int]


def complete(entries: list[Any], tree: TomlTree) -> CompletedEntries:
    """Resolve every ``like``; the positions of inherited values are added to ``tree``."""
    return _Completion(entries, tree).result()


class _Completion:
    """The state of one pass over the entries of a file."""

    def __init__(self, entries: list[Any], tree: TomlTree) -> None:
        self._entries = list(entries)
        self._tree = tree
        self._by_name: dict[str, int] = {}
        self._problems: dict[int, tuple[str, str | None]] = {}
        self._incomplete: set[int] = set()
        self._done: set[int] = set()
        self._inherited = 0
        for index, entry in enumerate(entries):
            if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                self._by_name.setdefault(entry["name"], index)

    def result(self) -> CompletedEntries:
        for index in range(len(self._entries)):
            self._complete(index)
        return CompletedEntries(self._entries, self._problems, frozenset(self._incomplete))

    def _complete(self, index: int) -> None:
        # A loop and not a recursion: a chain may be as long as the file.
        chain: dict[int, None] = {}
        current: int | None = index
        while current is not None and current not in self._done:
            if current in chain:
                self._report_cycle(list(chain)[list(chain).index(current) :])
                break
            chain[current] = None
            current = self._base(current)
        for derived in reversed(chain):
            base = self._base(derived)
            if base is not None and derived not in self._problems:
                self._inherit(derived, base)
            if base in self._incomplete or derived in self._problems:
                self._incomplete.add(derived)
            self._done.add(derived)

    def _base(self, index: int) -> int | None:
        """Return the index of the entry that ``like`` names; record why there is none."""
        entry = self._entries[index]
        if not isinstance(entry, dict) or "like" not in entry:
            return None
        like = entry["like"]
        base = self._by_name.get(like) if isinstance(like, str) else None
        if base is None:
            # A value that is not a string is reported by the check of the key itself.
            others = [name for name, other in self._by_name.items() if other != index]
            close = closest(like, others) if isinstance(like, str) else None
            message = f"There is no kernel `{shorten(str(like))}` in this file.{did_you_mean(close)}"
            self._problems[index] = message, close
        return base

    def _report_cycle(self, cycle: list[int]) -> None:
        names = [self._entries[index]["name"] for index in cycle]
        for position, index in enumerate(cycle):
            if len(cycle) == 1:
                self._problems[index] = "`like` names its own entry; name another one.", None
                continue
            # Of a long cycle only the next names: all of them would be as long as the file, in every message.
            following = [names[(position + step) % len(names)] for step in range(min(len(names), _MAX_SHOWN) + 1)]
            route = " -> ".join(f"`{shorten(name)}`" for name in following)
            end = " -> ..." if len(names) > _MAX_SHOWN else "."
            self._problems[index] = f"`like` leads back to this entry: {route}{end}", None

    def _inherit(self, index: int, base: int) -> None:
        """Replace the entry by a copy with the base's keys, and add the positions of the values taken over."""
        own, other = self._entries[index], self._entries[base]
        path, base_path = ("kernels", index), ("kernels", base)
        taken = [(path + found[2:], found) for found in self._tree.below(base_path) if _is_inherited(own, found[2:])]
        self._inherited += len(taken)
        if self._inherited > _MAX_INHERITED:
            self._problems[index] = f"The entries of this file inherit more than {_MAX_INHERITED} values.", None
            return
        self._entries[index] = _merged(own, other)
        for new, written in taken:
            self._tree.inherit(new, written)


def _merged(own: Mapping[str, Any], base: Mapping[str, Any]) -> dict[str, Any]:
    merged = {key: value for key, value in base.items() if key not in _NEVER_INHERITED}
    for key, value in own.items():
        inherited = merged.get(key)
        if isinstance(value, dict) and isinstance(inherited, dict):
            kept = {name: item for name, item in inherited.items() if not _sets(key, value, name)}
            # The base's keys come first, in their order, so that a derived entry differs in nothing but its own keys.
            order = [*inherited, *value]
            both = {**kept, **value}
            merged[key] = {name: both[name] for name in dict.fromkeys(order) if name in both}
        else:
            merged[key] = value
    return merged


def _is_inherited(own: Mapping[str, Any], key: Path) -> bool:
    """Whether a derived entry takes the value at a path below the base entry."""
    name = str(key[0])
    if name in _NEVER_INHERITED:
        return False
    if name not in own:
        return True
    return len(key) > 1 and isinstance(own[name], dict) and not _sets(name, own[name], str(key[1]))


def _sets(key: str, table: Mapping[str, Any], name: str) -> bool:
    """Whether a table sets a key, for dtypes also in another spelling."""
    known = KERNEL.key(key)
    if known is not None and isinstance(known.kind, Table) and known.kind.names == "dtype" and name in DTYPES:
        return any(DTYPES.get(other) == DTYPES[name] for other in table)
    return name in table
