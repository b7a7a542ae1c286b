"""Artifact reports of a registered kernel as compiled by NVRTC, or of an external PTX file. Runs in a worker."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.compile.assembler import AssemblerError, assemble, ptxas_path
from gpuemu_lsp.engine.compile.model import Artifact, ResourceUsage
from gpuemu_lsp.engine.compile.ptxas import resources
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.jobs.model import ArtifactReport
from gpuemu_lsp.engine.kernel_names import without_arguments
from gpuemu_lsp.engine.lint import lint, report_lines
from gpuemu_lsp.engine.lint.kernel_ptx import is_named
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.report.source_lines import line_bytes
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import SourceFile
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.request import CheckRequest

_PTXAS_SECONDS = 60.0
_PTXAS_LINE = re.compile(r"\bline (\d+)(?:; error|:)")
_RESULT = "Result: "


def artifact_reports(request: CheckRequest, ptx: str | None, *, emit: bool = False) -> Iterator[ArtifactReport]:
    """Yield a report for each architecture and instance of one kernel.

    Parameters
    ----------
    request : CheckRequest
        The kernel; it is compiled, not executed.
    ptx : str or None
        Path of a PTX file to inspect instead of NVRTC's output.
    emit : bool
        Whether the reports carry the PTX.
    """
    archs = [request.options.arch] if request.options.arch else list(request.spec.arch)
    if ptx is not None:
        yield from _of_file(request, ptx)
        return
    for arch in archs:
        prepared = prepare(replace(request, options=replace(request.options, arch=arch)))
        if prepared.artifact is None or prepared.source is None:
            yield ArtifactReport(request.spec.name, arch, "NOT COMPILED", findings=prepared.findings)
            continue
        for entry in dict.fromkeys(prepared.artifact.entries.values()):
            report = _report(request, prepared.artifact, entry, prepared.source)
            yield replace(report, ptx=prepared.artifact.ptx) if emit else report


def _report(request: CheckRequest, artifact: Artifact, entry: str, source: SourceFile) -> ArtifactReport:
    lines = report_lines(artifact, entry, request.spec, source)
    usage: Mapping[str, ResourceUsage] = artifact.resources
    return ArtifactReport(
        kernel=request.spec.name,
        arch=artifact.arch,
        result=lines[-1].removeprefix(_RESULT),
        lines=lines,
        findings=lint(artifact, entry, request.spec, source),
        resources={entry: usage[entry]} if entry in usage else {},
    )


def _of_file(request: CheckRequest, path: str) -> Iterator[ArtifactReport]:
    """Yield the report of the registered kernel's entry in a PTX file."""
    place = Place(path, Range.of(0, 0, 0, 1))
    try:
        text = file_bytes(path).decode("utf-8-sig")
        module = parse(text)
    except (OSError, UnicodeDecodeError) as error:
        yield _unusable(request, place, f"cannot be read: {error}")
        return
    except PtxError as error:
        yield _unusable(request, _line(path, error.line + 1), f"is not PTX: {error}")
        return
    prepared = prepare(request)
    if prepared.source is None:
        yield ArtifactReport(request.spec.name, module.target, "NOT COMPILED", findings=prepared.findings)
        return
    names = [function.name for function in module.functions.values() if function.is_entry]
    wanted = _entries(request, prepared, names)
    if len(wanted) != 1:
        why = f"more than one entry of '{request.spec.name}'" if wanted else f"no entry of '{request.spec.name}'"
        entries = ", ".join(map(_shown, wanted or names)) or "none"
        why = f"has {why}; {'they are' if wanted else 'its entries are'}: {entries}"
        yield _unusable(request, place, why, None if wanted else Cause.NO_ENTRY)
        return
    arch = request.options.arch or module.target.split(",")[0].strip()
    log, trouble = _assemble(text, arch)
    if trouble is not None:
        line = _PTXAS_LINE.search(trouble)
        yield _unusable(request, _line(path, int(line[1])) if line is not None else place, trouble)
        return
    artifact = Artifact(
        path=prepared.source.path,
        arch=arch,
        ptx=text,
        cubin=b"",
        entries={_expression(prepared, request): wanted[0]},
        resources=resources(log),
        toolchain="ptxas",
    )
    yield _report(request, artifact, wanted[0], prepared.source)


def _entries(request: CheckRequest, prepared: PreparedKernel, names: list[str]) -> list[str]:
    """Return the entries that are the kernel: by the mangled name NVRTC gives it, else by its qualified name.

    Another compiler may mangle differently (``extern "C"``, a class in place of a typedef), so that the mangled name
    alone would not do.
    """
    compiled = set(prepared.artifact.entries.values()) if prepared.artifact is not None else set()
    exact = [name for name in names if name in compiled]
    if exact:
        return exact
    function = without_arguments(_expression(prepared, request))
    return [name for name in names if is_named(function, name)]


def _shown(name: str) -> str:
    """Return a mangled name with the name in the source."""
    demangled = demangled_name(name)
    return name if demangled == name else f"{name} ({demangled})"


def _line(path: str, number: int) -> Place:
    """Return a 1-based line of a PTX file, without its indentation."""
    text = line_bytes(path, number - 1)
    start = len(text) - len(text.lstrip())
    return Place(path, Range.of(number - 1, start, number - 1, max(len(text.rstrip()), start + 1)))


def _expression(prepared: PreparedKernel, request: CheckRequest) -> str:
    if prepared.plans:
        return prepared.plans[0].entry
    return request.spec.entry or request.spec.name


def _assemble(text: str, arch: str) -> tuple[str, str | None]:
    """Return ptxas' resource report for a PTX text, and the reason if there is none."""
    program = ptxas_path()
    if program is None:
        return "", "cannot be assembled: ptxas was not found; pip install nvidia-cuda-nvcc-cu12"
    try:
        result = assemble(program, text, arch, seconds=_PTXAS_SECONDS)
    except AssemblerError as error:
        return "", f"cannot be assembled: {error}"
    if not result.succeeded:
        lines = [line for line in result.log.splitlines() if line.strip()]
        # ptxas sorts its errors by kind; the one that comes first in the file is the one to correct first.
        numbered = [(int(match[1]), line) for line in lines if (match := _PTXAS_LINE.search(line))]
        first = min(numbered)[1] if numbered else lines[0] if lines else "ptxas failed"
        message = re.sub(r"^ptxas [^,]+, (line \d+); error\s*: ", r"\1: ", first)
        return "", f"cannot be assembled for {arch}: {message}"
    return result.log, None


def _unusable(request: CheckRequest, place: Place, why: str, cause: Cause | None = None) -> ArtifactReport:
    message = f"{Path(place.path).name} {why}."
    finding: Finding = make("engine/not-executed", message, place, kernel=request.spec.name, cause=cause)
    return ArtifactReport(request.spec.name, request.options.arch or "", "INCOMPLETE", findings=(finding,))
