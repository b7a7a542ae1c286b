"""What ptxas says about PTX that NVRTC did not write: registers, and the errors of a module that no driver loads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from gpuemu_lsp.engine.compile.assembler import AssemblerError, assemble, ptxas_path
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.compile.ptxas import resources, source_lines
from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.ptx.model import Location
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.source_map import SourceMap

_SECONDS: Final = 120.0
_ERROR = re.compile(r"input, line (?P<line>\d+); (?:error|fatal)\s*:\s*(?P<text>.*)")


def with_assembly(
    artifact: Artifact, source_map: SourceMap, kernel: str, explained: Callable[[str], str] = str
) -> tuple[Artifact, tuple[Finding, ...]]:
    """Return an artifact with its machine code and resource usage, or the errors of ptxas.

    Without a ptxas, and if it cannot be run, the artifact is returned as it is. ``explained`` adds to the text of an
    error what a language knows of it.
    """
    path = ptxas_path()
    if path is None:
        return artifact, ()
    try:
        done = assemble(path, artifact.ptx, artifact.arch, ("--generate-line-info",), _SECONDS)
    except AssemblerError:
        return artifact, ()
    if not done.succeeded:
        found = list(_errors(done.log, artifact, source_map, kernel, explained))
        return artifact, tuple(one for index, one in enumerate(found) if one not in found[:index])
    return replace(artifact, cubin=done.cubin, resources=resources(done.log)), ()


def _errors(
    log: str, artifact: Artifact, source_map: SourceMap, kernel: str, explained: Callable[[str], str]
) -> Iterator[Finding]:
    """Yield a finding for each error with a line; one for all if none has."""
    positions = source_lines(artifact.ptx)
    files = {path: number for number, path in source_map.files.items()}
    matches = [match for match in map(_ERROR.search, log.split("\n")) if match is not None]
    for match in matches:
        place: Place | None = None
        position = positions.get(int(match["line"]))
        if position is not None and position.path in files:
            location = Location(files[position.path], position.line, (position.column or 0) + 1)
            place = source_map.user_place(location)
        text = explained(match["text"].strip().rstrip("."))
        yield make("compile/error", f"ptxas: {text}.", place or source_map.fallback, kernel=kernel, arch=artifact.arch)
    if not matches:
        said = next((line.strip() for line in log.split("\n") if "fatal" in line or "error" in line), "no reason")
        yield make("compile/error", f"ptxas: {said}.", source_map.fallback, kernel=kernel, arch=artifact.arch)
