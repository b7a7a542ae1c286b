"""Anchors of places: what a place in a text refers to, from which its position in a later text follows."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.check.verdicts.sites import CodeSites
from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.request import CheckRequest


@dataclass(frozen=True, slots=True)
class Anchor:
    """Everything that a place may refer to; its new position is known if all of it has the same new place.

    ``sites`` are instructions with the depth in their inlining chain, ``keys`` keys of gpuemu.toml, ``kernel`` is True
    for the kernel's name, and ``file`` is the place itself in a file whose content belongs to the verdict's identity.
    """

    sites: tuple[tuple[int, int], ...] = ()
    keys: tuple[str, ...] = ()
    kernel: bool = False
    file: Place | None = None


@dataclass(frozen=True, slots=True)
class AnchoredFinding:
    """A finding with the anchors of its place and of its related places.

    ``suppressed``: an ignore comment names its rule on its line. The finding has no ``consequences``; they are here.
    """

    finding: Finding
    anchors: tuple[Anchor, ...]
    suppressed: bool
    consequences: tuple[AnchoredFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class Anchoring:
    """The places of one text that findings may be anchored to.

    ``sites`` returns the sites of the kernel's code, which many findings do not need. ``unchanged`` are files that the
    identity covers.
    """

    request: CheckRequest
    prepared: PreparedKernel
    sites: Callable[[], CodeSites]
    unchanged: Collection[str] = ()

    def anchored(self, finding: Finding) -> AnchoredFinding | None:
        """Return a finding with anchors, None if a place of it has none."""
        anchors = [self._anchor(place) for place in (finding.place, *(one.place for one in finding.related))]
        found = tuple(anchor for anchor in anchors if anchor is not None)
        following = tuple(one for one in map(self.anchored, finding.consequences) if one is not None)
        if len(found) < len(anchors) or len(following) < len(finding.consequences):
            return None
        suppressed = self.prepared.ignores.covers(finding)
        return AnchoredFinding(replace(finding, consequences=()), found, suppressed, following)

    def placed(self, stored: AnchoredFinding) -> Finding | None:
        """Return a stored finding at its place in this text, None if it is not known for certain."""
        places = [place for place in map(self._place, stored.anchors) if place is not None]
        following = tuple(one for one in map(self.placed, stored.consequences) if one is not None)
        if len(places) < len(stored.anchors) or len(following) < len(stored.consequences):
            return None
        related = tuple(
            replace(one, place=place) for place, one in zip(places[1:], stored.finding.related, strict=True)
        )
        finding = replace(stored.finding, place=places[0], related=related, consequences=following)
        return finding if self.prepared.ignores.covers(finding) == stored.suppressed else None

    def _anchor(self, place: Place) -> Anchor | None:
        anchor = Anchor(
            self.sites().sites_at(place),
            tuple(key for key, at in self.request.spec.places.items() if at == place),
            place in self._kernel_places,
            place if place.path in self.unchanged else None,
        )
        return None if anchor == Anchor() else anchor

    def _place(self, anchor: Anchor) -> Place | None:
        found = [self.sites().place_of(site, depth) for site, depth in anchor.sites]
        found += [self.request.spec.places.get(key) for key in anchor.keys]
        found += [*self._kernel_places] if anchor.kernel else []
        found += [anchor.file] if anchor.file is not None else []
        return found[0] if len(set(found)) == 1 else None

    @property
    def _kernel_places(self) -> set[Place]:
        return {plan.place for plan in self.prepared.plans}
