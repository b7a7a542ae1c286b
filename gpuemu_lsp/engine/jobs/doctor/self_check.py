"""Self-check of the installation: compile, emulate and compare small kernels. Runs in a worker."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.compile.toolchain import ToolchainError, toolchain
from gpuemu_lsp.engine.device import available
from gpuemu_lsp.engine.findings import Finding, Json, Severity, collect
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

_HEADERS = {
    "cuda_fp16.h": "nvidia-cuda-runtime-cu12",
    "cuda_bf16.h": "nvidia-cuda-runtime-cu12",
    "cooperative_groups.h": "nvidia-cuda-runtime-cu12 nvidia-cuda-cccl-cu12",
    "mma.h": "nvidia-cuda-nvcc-cu12",
    "cuda/std/cstdint": "nvidia-cuda-cccl-cu12",
}
_KERNEL = """\
__global__ void twice(const float* x, float* y, int n) {
    __shared__ float kept[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    kept[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = 2.0f * kept[threadIdx.x];
}
"""
_REFERENCE = "def reference(inputs, **kwargs):\n    return 2.0 * inputs['x']\n"


@dataclass(frozen=True, slots=True)
class Component:
    """The result for one component.

    ``there`` says that it works, ``needed`` that checks depend on it; ``remedy`` is the advice if it does not work.
    """

    name: str
    there: bool
    detail: str
    remedy: str = ""
    needed: bool = True

    def record(self) -> dict[str, Json]:
        """Return the result as JSON."""
        return {
            "name": self.name,
            "there": self.there,
            "needed": self.needed,
            "detail": self.detail,
            "remedy": self.remedy if not self.there else "",
        }


def self_check() -> Iterator[Component]:
    """Yield a result for every component, in the order in which a check uses them."""
    try:
        yield Component("compiler", True, toolchain())
    except ToolchainError as error:
        yield Component("compiler", False, "not usable", str(error))
        return
    yield from map(_header, _HEADERS)
    yield from _run()
    there, detail = available()
    remedy = "not needed: checks run in the emulator; a CUDA driver and cupy-cuda12x make it available"
    yield Component("GPU", there, detail, remedy, needed=False)


def _header(name: str) -> Component:
    """Compile a file that includes a CUDA header."""
    request = CompileRequest("/doctor.cu", f"#include <{name}>\n__global__ void k() {{}}\n", expressions=("k",))
    result = compile_source(request)
    if result.artifact is not None:
        return Component(f"<{name}>", True, "compiles")
    errors = [finding.message for finding in result.findings if finding.severity is Severity.ERROR]
    reason = errors[0] if errors else "does not compile"
    return Component(f"<{name}>", False, reason.partition("\n")[0], f"pip install {_HEADERS[name]}")


def _run() -> Iterator[Component]:
    """Check a correct kernel and one with a planted bug."""
    with tempfile.TemporaryDirectory(prefix="gpuemu-doctor-") as folder:
        (Path(folder) / "reference.py").write_text(_REFERENCE, encoding="utf-8")
        findings, report = _checked(Path(folder), _KERNEL)
        registers = [usage.registers for usage in report.resources.values()] if report is not None else []
        yield Component("ptxas", bool(registers), f"{registers[0]} registers" if registers else "no resources reported")
        passed = report is not None and report.status == "passed"
        detail = (
            "ran a kernel and compared it" if passed else "; ".join(item.message for item in findings) or "did not run"
        )
        yield Component("emulator", passed, detail, "please report this with the output of gpuemu status")
        findings, report = _checked(Path(folder), _KERNEL.replace("2.0f", "2.5f"))
        detected = any(item.rule == "numeric/tolerance-exceeded" for item in findings)
        yield Component(
            "checker", detected, "found a planted bug" if detected else "missed a planted bug", "please report this"
        )


def _checked(folder: Path, text: str) -> tuple[list[Finding], KernelReport | None]:
    (folder / "twice.cu").write_text(text, encoding="utf-8")
    spec = KernelSpec("twice", (folder / "twice.cu").as_posix(), (folder / "reference.py").as_posix())
    findings: list[Finding] = []
    report = None
    for event in check_kernel(CheckRequest(spec, CheckOptions(cases=4), root=folder.as_posix())):
        if isinstance(event, Finding):
            collect(findings, event)
        elif isinstance(event, KernelReport):
            report = event
    return [item for item in findings if item.severity is not Severity.HINT], report
