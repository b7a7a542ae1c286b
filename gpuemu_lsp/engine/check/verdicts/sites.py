"""Numbering of the instructions of a kernel, which two compilations with the same code identity share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Place
from gpuemu_lsp.engine.ptx.model import Function, Location, Module, inlining_chain
from gpuemu_lsp.engine.ptx.slicing import canonical_name
from gpuemu_lsp.engine.ptx.traversal import instructions_of
from gpuemu_lsp.engine.subjects.source_map import SourceMap


@dataclass(frozen=True, slots=True)
class CodeSites:
    """Source locations of all instructions of a module, in an order that does not depend on its text.

    A *site* is the number of an instruction in that order.
    """

    locations: tuple[Location | None, ...]
    source_map: SourceMap

    @staticmethod
    def of(module: Module, source_map: SourceMap) -> CodeSites:
        """Return the sites of a module that was cut for one kernel."""
        functions = sorted({id(one): one for one in module.functions.values()}.values(), key=_order)
        locations = tuple(item.location for function in functions for item in instructions_of(function))
        return CodeSites(locations, source_map)

    def sites_at(self, place: Place) -> tuple[tuple[int, int], ...]:
        """Return the sites whose source locations contain ``place``, each with its depth in the inlining chain."""
        known: dict[tuple[int, int, int], bool] = {}
        found = []
        for site, location in enumerate(self.locations):
            for depth, one in enumerate(inlining_chain(location)):
                key = (one.file, one.line, one.column)
                if key not in known:
                    same_line = one.line - 1 == place.range.start.line
                    known[key] = same_line and self.source_map.user_place(one) == place
                if known[key]:
                    found.append((site, depth))
        return tuple(found)

    def place_of(self, site: int, depth: int) -> Place | None:
        """Return the place of one location of a site's inlining chain, None if it is not in the user's code."""
        chain = inlining_chain(self.locations[site]) if site < len(self.locations) else []
        return self.source_map.user_place(chain[depth]) if depth < len(chain) else None

    def lines(self) -> Iterator[tuple[str, int]]:
        """Yield the path and 0-based line of every location, in the order of sites."""
        for location in self.locations:
            for one in inlining_chain(location):
                yield self.source_map.files.get(one.file, ""), one.line - 1

    @property
    def line_structure(self) -> str:
        """A digest of which instructions share a line; equal if lines have only moved."""
        numbers: dict[tuple[str, int], int] = {}
        structure = []
        for location in self.locations:
            chain = inlining_chain(location)
            lines = [(self.source_map.files.get(one.file, ""), one.line) for one in chain]
            structure.append([numbers.setdefault(line, len(numbers)) for line in lines])
        return hashlib.blake2b(repr(structure).encode(), digest_size=16).hexdigest()


def _order(function: Function) -> tuple[bool, str]:
    return not function.is_entry, canonical_name(function.name)
