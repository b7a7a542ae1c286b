"""The last result of every kernel, for hovers, code lenses and inlay hints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Finding, Json
from gpuemu_lsp.engine.source.model import KernelDecl
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.server.documents.parsed_files import function_of, kernel_id, refers_to


@dataclass(frozen=True, slots=True)
class KernelResult:
    """Report and findings of a check or compilation, with its request."""

    request: CheckRequest
    report: KernelReport
    findings: tuple[Finding, ...]

    @property
    def stored(self) -> bool:
        """Whether failing cases are in the project's store, so that they can be reproduced and minimised."""
        writable = not any(finding.rule == "engine/not-stored" for finding in self.findings)
        return writable and self.request.options.store_root is not None


@dataclass(slots=True)
class KernelResults:
    """Results of the last check of every kernel and, newer than those while a text is edited, of compilations."""

    _checked: dict[tuple[str, str], KernelResult] = field(default_factory=dict)
    _compiled: dict[tuple[str, str], KernelResult] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._compiled)

    def put(self, result: KernelResult, executed: bool) -> None:
        """Store a result; that of a mere compilation updates only the resource usage."""
        key = result.request.spec.source, kernel_id(result.request.spec)
        self._compiled[key] = result
        if executed:
            self._checked[key] = result

    @property
    def failing(self) -> int:
        """Number of kernels whose last check found an error."""
        return sum(result.report.status in ("failed", "error") for result in self._checked.values())

    def of_file(self, path: str) -> list[KernelResult]:
        """Return the results of the checks of a file."""
        return [result for (source, _), result in self._checked.items() if source == path]

    def named(self, path: str | None, name: str) -> KernelResult | None:
        """Return the last result of an entry of gpuemu.toml; ``path`` None is any file."""
        for result in [*self._checked.values(), *self._compiled.values()]:
            if result.report.name == name and path in (None, result.request.spec.source):
                return result
        return None

    def of_kernels(
        self, path: str, kernels: Sequence[KernelDecl]
    ) -> list[tuple[tuple[KernelResult, ...], dict[str, ResourceUsage]]]:
        """Return, for each kernel function of a file, its results and its resource usage by architecture.

        There is a result for each entry of gpuemu.toml that refers to the function; the usage is that of the last
        compilation.
        """
        checked, compiled = (_by_name(results, path) for results in (self._checked, self._compiled))
        alone = len(kernels) == 1
        found = []
        for decl in kernels:
            usage = {
                arch: item
                for result in _referring(compiled, decl, alone)
                for arch, item in result.report.resources.items()
            }
            found.append((_referring(checked, decl, alone), usage))
        return found

    def of_entries(
        self, path: str, entries: Sequence[str]
    ) -> tuple[tuple[KernelResult, ...], dict[str, ResourceUsage]]:
        """Return the results of some entries of a file by their ids, and their resource usage by architecture."""
        keys = [(path, identity) for identity in sorted(entries)]
        compiled = [self._compiled[key] for key in keys if key in self._compiled]
        usage = {arch: item for result in compiled for arch, item in result.report.resources.items()}
        return tuple(self._checked[key] for key in keys if key in self._checked), usage

    def drop(self, path: str, keep: frozenset[str]) -> None:
        """Drop the results of a file, except those of the kernels in ``keep``."""
        for results in (self._checked, self._compiled):
            for key in [key for key in results if key[0] == path and key[1] not in keep]:
                del results[key]


def _by_name(results: Mapping[tuple[str, str], KernelResult], path: str) -> dict[str, list[KernelResult]]:
    """Return the results of a file, sorted, by the name of the function that each refers to."""
    found: dict[str, list[KernelResult]] = {}
    for (source, _), result in sorted(results.items(), key=lambda item: item[0]):
        if source == path:
            found.setdefault(function_of(result.request.spec), []).append(result)
    return found


def _referring(results: Mapping[str, list[KernelResult]], decl: KernelDecl, alone: bool) -> tuple[KernelResult, ...]:
    if alone:
        of_all = (result for found in results.values() for result in found)
        return tuple(result for result in of_all if refers_to(result.request.spec, decl, alone))
    names = dict.fromkeys((decl.name, decl.qualified_name))
    return tuple(result for name in names for result in results.get(name, ()))


def number_text(value: Json) -> str:
    """Return a value of a finding with 7 significant digits, as many as a float32 needs to be recognised.

    NaN and infinities are written as in the messages of findings.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
    return f"{value:.7g}" if isinstance(value, float) else "?" if value is None else str(value)
