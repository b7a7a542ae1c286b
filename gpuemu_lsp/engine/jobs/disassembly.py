"""PTX, SASS or Triton's representations of one kernel as text, with the source line of each instruction.

Runs in a worker.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.compile.machine_code import machine_code
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.findings import Json, Severity
from gpuemu_lsp.engine.jobs.requests.cuda_strings import compiled_request
from gpuemu_lsp.engine.ptx.instruction_lines import ptx_lines, sass_lines
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.subjects.triton.mlir_lines import mlir_lines
from gpuemu_lsp.engine.workers.wire import from_json

_SECONDS = 20.0


def disassemble(payload: Json) -> Iterator[Json]:
    """Yield ``{artifact: {text, arch, map}}``, or ``{trouble}`` with the reason why there is none."""
    assert isinstance(payload, dict)
    request, _ = compiled_request(from_json(CheckRequest, payload["request"]))
    form, arch = payload["form"], payload["arch"]
    assert arch is None or isinstance(arch, str)
    prepared = prepare(replace(request, options=replace(request.options, arch=arch or request.spec.arch[0])))
    if prepared.artifact is None:
        reasons = [item for item in prepared.findings if item.severity is Severity.ERROR]
        reasons += [item for item in prepared.findings if item.rule == "engine/not-executed"]
        yield {"trouble": reasons[0].message if reasons else f"'{request.spec.name}' was not compiled"}
        return
    artifact = prepared.artifact
    subject, seed = prepared.subject, request.options.seed
    texts = subject.first(prepared.plans[0], seed).representations if subject is not None and prepared.plans else {}
    path = request.spec.source
    if form == "ptx":
        text = texts.get("ptx", artifact.ptx)
        spans = ptx_lines(text, path)
    elif form == "sass":
        try:
            text = _sass(_assembled(texts, artifact))
        except _DisassemblyError as trouble:
            yield {"trouble": str(trouble)}
            return
        spans = sass_lines(text, path)
    else:
        assert isinstance(form, str)
        if form not in texts:
            yield {"trouble": f"only a Triton kernel has {form.upper()}"}
            return
        text = texts[form]
        spans = mlir_lines(text, path)
    yield {"artifact": {"text": text, "arch": artifact.arch, "map": _json(spans)}}


def _assembled(texts: Mapping[str, str], artifact: Artifact) -> bytes:
    """Return the machine code of an artifact; of Triton's PTX that of its own ptxas."""
    if "ttgir" not in texts:  # of CUDA or pyptx
        return machine_code(artifact)
    from gpuemu_lsp.engine.subjects.triton.resources import machine_code as assembled  # imports Triton

    return assembled(texts["ptx"], artifact.arch)


class _DisassemblyError(Exception):
    """No disassembly is available; the message has the reason."""


def _sass(cubin: bytes) -> str:
    if not cubin:
        raise _DisassemblyError("ptxas was not found; pip install nvidia-cuda-nvcc-cu12")
    program = _nvdisasm()
    if program is None:
        raise _DisassemblyError("nvdisasm was not found; pip install nvidia-cuda-nvdisasm")
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "kernel.cubin"
        image.write_bytes(cubin)
        command = [program, "-gi", "-c", str(image)]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _DisassemblyError(f"nvdisasm failed: {error}") from error
    if result.returncode != 0:
        lines = [line for line in result.stderr.splitlines() if line.strip()]
        raise _DisassemblyError(f"nvdisasm failed: {lines[0] if lines else result.returncode}")
    return result.stdout


def _nvdisasm() -> str | None:
    """Return the path of nvdisasm, preferably that of the CUDA wheels, else that of Triton."""
    spec = importlib.util.find_spec("nvidia")
    for location in (spec.submodule_search_locations if spec is not None else None) or ():
        for package in ("cu13", "cuda_nvdisasm", "cu14"):
            candidate = Path(location) / package / "bin" / "nvdisasm"
            if os.access(candidate, os.X_OK):
                return str(candidate)
    triton = importlib.util.find_spec("triton")
    for location in (triton.submodule_search_locations if triton is not None else None) or ():
        candidate = Path(location) / "backends/nvidia/bin/nvdisasm"
        if os.access(candidate, os.X_OK):
            return str(candidate)
    return shutil.which("nvdisasm")


def _json(spans: list[tuple[int, int, int]]) -> list[Json]:
    rows: list[Mapping[str, int]] = [{"line": line, "first": first, "last": last} for line, first, last in spans]
    return [dict(row) for row in rows]
