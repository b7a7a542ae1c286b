"""Compilation and artifact checks of a .cu text, as in the check pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import Artifact, CompileRequest
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.lint import lint, report_lines
from gpuemu_lsp.engine.project.model import ArtifactChecks, KernelSpec
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.model import SourceFile

PATH = "/kernels/fused.cu"
TOML = "/kernels/gpuemu.toml"


@lru_cache(maxsize=64)
def built(text: str, expression: str, options: tuple[str, ...] = (), path: str = PATH) -> tuple[Artifact, SourceFile]:
    """Read and compile a text."""
    source = read(path, text)
    request = CompileRequest(path, source.device_view, "sm_80", (expression,), options, headers=source.headers)
    result = compile_source(request)
    assert result.artifact is not None, result.log
    return result.artifact, source


def spec_of(
    checks: ArtifactChecks | None,
    options: tuple[str, ...] = (),
    places: Mapping[str, Place] | None = None,
    path: str = PATH,
) -> KernelSpec:
    """Make a kernel's configuration."""
    return KernelSpec("fused", path, None, compile_options=options, artifact_checks=checks, places=places or {})


def findings(
    text: str, checks: ArtifactChecks | None, expression: str = "k", options: tuple[str, ...] = (), path: str = PATH
) -> tuple[Finding, ...]:
    """Lint a kernel."""
    artifact, source = built(text, expression, options, path)
    return lint(artifact, artifact.entries[expression], spec_of(checks, options, path=path), source)


def report(text: str, checks: ArtifactChecks | None, expression: str = "k") -> tuple[str, ...]:
    """Return a kernel's artifact report."""
    artifact, source = built(text, expression)
    return report_lines(artifact, artifact.entries[expression], spec_of(checks), source)


def toml_place(line: int) -> Place:
    """Return a place in gpuemu.toml."""
    return Place(TOML, Range.of(line, 0, line, 5))


def shown(text: str, place: Place) -> str:
    """Return the text that a finding marks."""
    line = text.encode().split(b"\n")[place.range.start.line]
    assert place.range.start.line == place.range.end.line
    return line[place.range.start.column : place.range.end.column].decode()
