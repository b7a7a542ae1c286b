"""Preparation of an entry of a .ptx: its text is parsed and assembled, its plans resolved, its code linted."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.lint import lint
from gpuemu_lsp.engine.plan.resolve import resolve
from gpuemu_lsp.engine.ptx import PtxError, parse
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.subjects.assembly import with_assembly
from gpuemu_lsp.engine.subjects.language import PreparedKernel, SourceRequest
from gpuemu_lsp.engine.subjects.one_code_kernel import OneCodeKernel, facts_of
from gpuemu_lsp.engine.subjects.ptx.line_numbers import with_own_lines
from gpuemu_lsp.engine.subjects.source_map import SourceMap
from gpuemu_lsp.engine.subjects.unregistered import softened


def prepare_ptx(kernel: SourceRequest) -> PreparedKernel:
    """Prepare an entry. It runs as the text is: ``arch`` of the entry in gpuemu.toml does not change the target."""
    spec, place = kernel.spec, kernel.place
    started = time.perf_counter()
    source = read(spec.source, kernel.text)
    try:
        module = parse(kernel.text)
    except PtxError as error:
        line = Place(spec.source, Range.of(error.line, 0, error.line, _length(kernel.text, error.line)))
        return PreparedKernel((make("compile/error", f"{error.reason}.", line),), place, source)
    entries = {declaration.qualified_name: declaration.name for declaration in source.kernels}
    artifact = Artifact(spec.source, module.target, with_own_lines(module, spec.source), b"", entries, {}, "")
    source_map = SourceMap({1: spec.source}, lambda path: kernel.text if path == spec.source else None, place)
    artifact, errors = with_assembly(artifact, source_map, spec.name)
    result = resolve(spec, source, entries, partial(facts_of, artifact.ptx))
    hints = result.findings if kernel.request.registered else tuple(map(softened, result.findings))
    if errors or not result.plans:
        return PreparedKernel((*errors, *hints), place, source, artifacts=() if errors else (artifact,))
    own = entries[result.entries[0]]
    prepared = PreparedKernel(
        findings=hints,
        place=place,
        source=source,
        plans=result.plans,
        artifacts=(artifact,),
        resources={module.target: artifact.resources[own]} if own in artifact.resources else {},
        compile_ms=(time.perf_counter() - started) * 1e3,
    )
    findings = (*hints, *lint(artifact, own, spec, source))
    return replace(prepared, findings=findings, subject=OneCodeKernel(artifact, prepared.source_map))


def _length(text: str, line: int) -> int:
    lines = text.split("\n")
    return max(1, len(lines[line].encode())) if line < len(lines) else 1
