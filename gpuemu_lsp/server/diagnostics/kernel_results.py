"""The last verdict on every kernel, for hover and code lenses."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuemu_lsp.engine.check.model import CheckRequest, KernelReport
from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.source.model import KernelDecl
from gpuemu_lsp.server.checks.requests import kernel_id
from gpuemu_lsp.server.documents.parsed_files import means


@dataclass(frozen=True, slots=True)
class Verdict:
    """A report, what it was about, what was found, and the session's revision it holds for."""

    request: CheckRequest
    report: KernelReport
    findings: tuple[Finding, ...]
    revision: int


@dataclass(slots=True)
class Verdicts:
    """Verdicts and, newer than those while a file is being typed, resources."""

    _checked: dict[tuple[str, str], Verdict] = field(default_factory=dict)
    _compiled: dict[tuple[str, str], Verdict] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._compiled)

    def put(self, verdict: Verdict, executed: bool) -> None:
        """Remember a verdict; one of a compilation only tells the resources."""
        key = verdict.request.spec.source, kernel_id(verdict.request.spec)
        self._compiled[key] = verdict
        if executed:
            self._checked[key] = verdict

    def named(self, path: str | None, name: str) -> Verdict | None:
        """Return the last verdict on an entry of gpuemu.toml; ``path`` None is any file."""
        for verdict in [*self._checked.values(), *self._compiled.values()]:
            if verdict.report.name == name and path in (None, verdict.request.spec.source):
                return verdict
        return None

    def checks_of(self, path: str, decl: KernelDecl, alone: bool) -> list[Verdict]:
        """Return the verdicts on one kernel function; several entries of gpuemu.toml may mean the same one."""
        return _meaning(self._checked, path, decl, alone)

    def resources_of(self, path: str, decl: KernelDecl, alone: bool) -> dict[str, ResourceUsage]:
        """Return what ptxas gave the kernel, per architecture."""
        return {
            arch: usage
            for verdict in _meaning(self._compiled, path, decl, alone)
            for arch, usage in verdict.report.resources.items()
        }

    def forget(self, path: str, keep: frozenset[str]) -> None:
        """Drop what is known of kernels that a file no longer has."""
        for known in (self._checked, self._compiled):
            for key in [key for key in known if key[0] == path and key[1] not in keep]:
                del known[key]


def _meaning(known: dict[tuple[str, str], Verdict], path: str, decl: KernelDecl, alone: bool) -> list[Verdict]:
    return [
        verdict
        for (source, _), verdict in sorted(known.items(), key=lambda item: item[0])
        if source == path and means(verdict.request.spec, decl, alone)
    ]
