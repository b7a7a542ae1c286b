"""Duration of a quick check: in a warm worker, as a ratio to NVRTC's compile time, and of a cold command.

    python -m benchmarks.quick_check [--json] [--repeat N]

Each repetition checks a new text (a variable is added), as after an edit: no cache has an entry for it, and the PTX
differs and is translated again. NVRTC compiles the same device view with the same options in this process, warm. The
daemon's figure is that of the whole command ``gpuemu-lsp --check FILE --daemon``, from start to end, in a project
with this kernel alone. All figures are medians.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.pool import Pool

ROOT = Path(__file__).parent.parent
KERNELS = {"gelu": "elementwise", "matmul_tiled": "tiled product", "softmax": "reduction", "layernorm": "reduction"}


def nvrtc_ms(request: CheckRequest, salt: str) -> float:
    """Return NVRTC's compile time of one request's device view, in ms."""
    from gpuemu_lsp.engine.compile.compiler import compile_source
    from gpuemu_lsp.engine.compile.model import CompileRequest
    from gpuemu_lsp.engine.plan.resolve import resolve
    from gpuemu_lsp.engine.source import read

    path = request.spec.source
    source = read(path, Path(path).read_text() + salt)
    entries = resolve(request.spec, source).entries
    started = time.perf_counter()
    compile_source(CompileRequest(path=path, text=source.device_view, expressions=entries))
    return (time.perf_counter() - started) * 1e3


def check_ms(request: CheckRequest, salt: str, pool: Pool) -> float:
    """Return the duration of one quick check in a warm pool, in ms."""
    edited = replace(request, text=Path(request.spec.source).read_text() + salt)
    started = time.perf_counter()
    run = run_requests([edited], (), request.root, pool)
    elapsed = (time.perf_counter() - started) * 1e3
    assert run.kernels[0].status == "passed", run.findings
    return elapsed


def cold_seconds(name: str) -> float:
    """Return the duration of the command line for one kernel, in seconds."""
    started = time.perf_counter()
    command = [sys.executable, "-m", "gpuemu_lsp", "--check", name, "--format", "json"]
    subprocess.run(command, cwd=ROOT / "kernels", check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def project_of(request: CheckRequest, folder: Path) -> Path:
    """Write a project with one kernel of the corpus; return its folder."""
    source, entries = Path(request.spec.source), Path(request.spec.source).parent / "gpuemu.toml"
    blocks = re.split(r"(?m)^(?=\[\[kernels\]\])", entries.read_text())
    entry = next(block for block in blocks if f'name = "{request.spec.name}"' in block)
    root = folder / request.spec.name
    shutil.copytree(source.parent.parent / "reference", folder / "reference", dirs_exist_ok=True)
    root.mkdir()
    (root / "gpuemu.toml").write_text(entry)
    shutil.copy(source, root)
    return root


def command_ms(root: Path, source: Path, salt: str) -> float:
    """Return the duration of the command through the daemon of a project, in ms."""
    (root / source.name).write_text(source.read_text() + salt)
    command = [str(Path(sys.executable).parent / "gpuemu-lsp"), "--check", source.name, "--daemon", "--format", "json"]
    started = time.perf_counter()
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1e3


def measure(repeat: int) -> dict[str, object]:
    """Run all measurements; return medians."""
    targets = collect(list(KERNELS), CheckOptions(), ROOT / "kernels")
    rows = []
    with tempfile.TemporaryDirectory() as folder, Pool(FUNCTIONS, size=1, preload=PRELOAD) as pool:
        for request in targets.requests:
            alone, whole, warm = [], [], []
            root = project_of(request, Path(folder))
            for _ in range(repeat + 1):
                salt = f"\n__device__ int salt_{time.time_ns()}"
                alone.append(nvrtc_ms(request, salt + "a;\n"))
                whole.append(check_ms(request, salt + "b;\n", pool))
                warm.append(command_ms(root, Path(request.spec.source), salt + "c;\n"))
            nvrtc, check = statistics.median(alone[1:]), statistics.median(whole[1:])
            daemon = statistics.median(warm[1:])
            rows.append(
                {
                    "kernel": request.spec.name,
                    "class": KERNELS[request.spec.name],
                    "dtypes": len(request.spec.dtypes or ("float32",)),
                    "nvrtc_ms": round(nvrtc, 1),
                    "check_ms": round(check, 1),
                    "ratio": round(check / nvrtc, 2),
                    "daemon_ms": round(daemon, 1),
                    "daemon_ratio": round(daemon / check, 2),
                }
            )
    cold = statistics.median(cold_seconds("gelu") for _ in range(min(repeat, 5)))
    return {"kernels": rows, "cold_check_s": round(cold, 2)}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    result = measure(options.repeat)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    print(
        f"{'kernel':<16}{'class':<16}{'dtypes':>7}{'NVRTC ms':>10}{'check ms':>10}{'ratio':>8}"
        f"{'daemon':>10}{'ratio':>8}"
    )
    for row in result["kernels"]:  # type: ignore[attr-defined]
        print(
            f"{row['kernel']:<16}{row['class']:<16}{row['dtypes']:>7}{row['nvrtc_ms']:>10}{row['check_ms']:>10}{row['ratio']:>8}"
            f"{row['daemon_ms']:>10}{row['daemon_ratio']:>8}"
        )
    print(f"cold gpuemu-lsp --check of one kernel: {result['cold_check_s']} s")


if __name__ == "__main__":
    main()
