"""Artifact reports of a registered kernel as compiled by NVRTC, or of an external PTX file. Runs in a worker."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.engine.check.model import CheckRequest
from gpuemu_lsp.engine.check.prepare import PreparedKernel, prepare
from gpuemu_lsp.engine.compile.model import Artifact, ResourceUsage
from gpuemu_lsp.engine.compile.ptxas import resources
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.jobs.model import ArtifactReport
from gpuemu_lsp.engine.lint import lint, report_lines
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import SourceFile

_PTXAS_SECONDS = 60.0
_RESULT = "Result: "


def artifact_reports(request: CheckRequest, ptx: str | None) -> Iterator[ArtifactReport]:
    """Yield a report for each architecture and instance of one kernel.

    Parameters
    ----------
    request : CheckRequest
        The kernel; it is compiled, not executed.
    ptx : str or None
        Path of a PTX file to inspect instead of NVRTC's output.
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
            yield _report(request, prepared.artifact, entry, prepared.source)


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
        text = Path(path).read_bytes().decode("utf-8")
        module = parse(text)
    except (OSError, UnicodeDecodeError) as error:
        yield _unusable(request, place, f"cannot be read: {error}")
        return
    except PtxError as error:
        yield _unusable(request, place, f"is not PTX: {error}")
        return
    names = [function.name for function in module.functions.values() if function.is_entry]
    wanted = _entry(request, names)
    if wanted is None:
        yield _unusable(request, place, f"has no entry for '{request.spec.name}'; it has: {', '.join(names) or 'none'}")
        return
    prepared = prepare(request)
    if prepared.source is None:
        yield ArtifactReport(request.spec.name, module.target, "NOT COMPILED", findings=prepared.findings)
        return
    arch = request.options.arch or module.target.split(",")[0].strip()
    log, trouble = _assemble(text, arch)
    if trouble is not None:
        yield _unusable(request, place, trouble)
        return
    artifact = Artifact(
        path=prepared.source.path,
        arch=arch,
        ptx=text,
        cubin=b"",
        entries={_expression(prepared, request): wanted},
        resources=resources(log),
        toolchain="ptxas",
    )
    yield _report(request, artifact, wanted, prepared.source)


def _entry(request: CheckRequest, names: list[str]) -> str | None:
    """Return the kernel's entry, by its name as it is or mangled (Itanium ABI: length, then name)."""
    if len(names) == 1:
        return names[0]
    function = (request.spec.entry or request.spec.name).split("<")[0].split("::")[-1].strip()
    matching = [name for name in names if name == function or f"{len(function)}{function}" in name]
    return matching[0] if len(matching) == 1 else None


def _expression(prepared: PreparedKernel, request: CheckRequest) -> str:
    if prepared.plans:
        return prepared.plans[0].entry
    return request.spec.entry or request.spec.name


def _assemble(text: str, arch: str) -> tuple[str, str | None]:
    """Return ptxas' resource report for a PTX text, and the reason if there is none."""
    program = _ptxas()
    if program is None:
        return "", "cannot be assembled: ptxas was not found; pip install nvidia-cuda-nvcc-cu12"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(text, encoding="utf-8")
        command = [program, "-v", f"--gpu-name={arch}", "-o", os.devnull, str(source)]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=_PTXAS_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return "", f"cannot be assembled: {error}"
    if result.returncode != 0:
        lines = [line for line in (result.stderr + result.stdout).splitlines() if line.strip()]
        return "", f"cannot be assembled for {arch}: {lines[0] if lines else 'ptxas failed'}"
    return result.stderr + result.stdout, None


def _ptxas() -> str | None:
    """Return the path of ptxas, preferably that of the CUDA wheels."""
    spec = importlib.util.find_spec("nvidia")
    for location in (spec.submodule_search_locations if spec is not None else None) or ():
        for package in ("cuda_nvcc", "cu13"):
            candidate = Path(location) / package / "bin" / "ptxas"
            if os.access(candidate, os.X_OK):
                return str(candidate)
    return shutil.which("ptxas")


def _unusable(request: CheckRequest, place: Place, why: str) -> ArtifactReport:
    message = f"{Path(place.path).name} {why}."
    finding: Finding = make("engine/not-executed", message, place, kernel=request.spec.name)
    return ArtifactReport(request.spec.name, request.options.arch or "", "INCOMPLETE", findings=(finding,))
