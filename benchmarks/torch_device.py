"""PyTorch's CUDA device: builds of extensions, operators and launches of Triton, each against its peer in the same run.

    python -m benchmarks.torch_device [builds operators launches] [--repeat 3] [--json]

Builds, in processor time of `load_inline` and all that it starts: a file that is new, unchanged, and built again after
its folder was deleted, against ninja with nvcc and g++ as they are and the same options. Operators: what one takes on
1,000 elements of the device, and more than on the CPU. Launches of Triton: on this device, and where they are replaced
in Python (`--torch-device off`); memory is changed before each, so that none is a repeat, and the time of that change
is included. Times of operators and launches are processor time of the program and of the device, the best of the
repetitions, in turns.
Needs the extras `torch-device` and `triton`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parent.parent
_LANGUAGE = _ROOT / "tests" / "triton" / "language"
_EXAMPLE = _ROOT / "examples" / "torch" / "inline" / "row_sums.py"
_WHAT = ("builds", "operators", "launches")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", nargs="*", default=[*_WHAT], metavar="WHAT", help=f"of {', '.join(_WHAT)}")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(_WORKERS[options.worker]()), flush=True)
        return 0
    figures: dict[str, dict[str, float]] = {}
    if "builds" in options.what:
        figures["builds, CPU s"] = _builds()
    if "operators" in options.what:
        figures["operators, ms"] = _best([_worker("operators", "on") for _ in range(options.repeat)])
    if "launches" in options.what:
        pairs = [(_worker("launches", "on"), _worker("launches", "off")) for _ in range(options.repeat)]
        on, off = (_best([pair[side] for pair in pairs]) for side in (0, 1))
        figures["launches, ms"] = {f"{name}, {device}": value for name in on for device, value in _both(name, on, off)}
    if options.json:
        print(json.dumps(figures))
        return 0
    for title, values in figures.items():
        print(f"{title}:", *(f"  {name}: {value:.3f}" for name, value in values.items()), sep="\n")
    return 0


def _both(name: str, on: dict[str, float], off: dict[str, float]) -> Iterator[tuple[str, float]]:
    yield from (("device", on[name]), ("in Python", off[name]), ("ratio", on[name] / off[name]))


def _best(runs: list[dict[str, float]]) -> dict[str, float]:
    return {name: min(run[name] for run in runs) for name in runs[0]}


def _worker(name: str, device: str, **environment: str) -> dict[str, float]:
    """Return the figures of a process under ``gpuemu run``."""
    with tempfile.TemporaryDirectory() as folder:
        report = f"{folder}/report.json"
        options = ["--torch-device", device, "--format", "json", "--output", report]
        words = [str(Path(__file__)), "--", "--worker", name]
        command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", "run", *options, *words]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore", **environment}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        assert not json.loads(Path(report).read_text())["findings"]
        figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return figures


# ---- Builds


def _builds() -> dict[str, float]:
    """Return processor seconds of builds of one extension, which has never been built."""
    with tempfile.TemporaryDirectory() as folder:
        salt = str(time.time_ns())
        extensions = Path(folder, "extensions")
        _worker("operators", "on")  # the device is built
        runs = {}
        for name in ("new file", "unchanged", "deleted and built again"):
            if name.startswith("deleted"):
                shutil.rmtree(extensions)
            runs[name] = _worker("build", "on", TORCH_EXTENSIONS_DIR=str(extensions), SALT=salt)["seconds"]
        (built,) = extensions.rglob("build.ninja")
        peer = _as_it_is(built.parent, Path(folder, "peer"))
    return {**runs, "nvcc and g++": peer, **{f"{name}, ratio": seconds / peer for name, seconds in runs.items()}}


def _as_it_is(built: Path, folder: Path) -> float:
    """Return processor seconds of the same build by nvcc and g++ alone."""
    from gpuemu_lsp.engine.runtime.toolchain.wheels import nvcc_folder

    shutil.copytree(built, folder, ignore=shutil.ignore_patterns("*.o", "*.so", ".ninja*", "lock"))
    compilers = {"cxx": shutil.which("g++"), "nvcc": nvcc_folder() / "bin" / "nvcc"}
    lines = (folder / "build.ninja").read_text().replace(str(built), str(folder)).splitlines()
    replaced = (f"{name} = {compilers[name]}" if (name := line.split(" ")[0]) in compilers else line for line in lines)
    (folder / "build.ninja").write_text("\n".join([*replaced, ""]))
    before = _processor_seconds()
    subprocess.run(["ninja", "-j", "1"], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return _processor_seconds() - before


def _processor_seconds() -> float:
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _build() -> dict[str, float]:
    """Return processor seconds of ``load_inline`` for the kernels of the example."""
    from torch.utils.cpp_extension import load_inline

    text = _EXAMPLE.read_text()
    cuda = text.split('CUDA = r"""')[1].split('"""')[0]
    names = ("sum_of_rows", "normalized_rows")
    before = _processor_seconds()
    load_inline(
        name="benchmark_row_sums",
        cpp_sources="".join(f"torch::Tensor {name}(torch::Tensor x);" for name in names),
        # A new file has new code.
        cuda_sources=f"{cuda}\n__global__ void salt(long long* x) {{ *x = {os.environ['SALT']}; }}\n",
        functions=[*names],
    )
    return {"seconds": _processor_seconds() - before}


# ---- In a program


def _operators() -> dict[str, float]:
    import torch

    def calls(device: str) -> dict[str, Callable[[], object]]:
        x, a = torch.ones(1000, device=device), torch.ones(30, 30, device=device)
        return {
            "x.add_(1)": lambda: x.add_(1),
            "x + 1": lambda: x + 1,
            "x.sum()": lambda: x.sum(),
            "a @ a": lambda: a @ a,
        }

    on_cpu = calls("cpu")
    figures = {}
    for name, call in calls("cuda").items():
        figures[name] = _milliseconds(call, 500)
        figures[f"{name}, more than on the CPU"] = figures[name] - _milliseconds(on_cpu[name], 500)
    return figures


def _milliseconds(call: Callable[[], object], count: int) -> float:
    """Return the processor time of a call in this process and in that of the device: the best of three loops."""
    call()
    times = []
    for _ in range(3):
        before = time.process_time() + _device_seconds()
        for _ in range(count):
            call()
        times.append((time.process_time() + _device_seconds() - before) * 1e3 / count)
    return min(times)


def _device_seconds() -> float:
    """Return the processor time of the process of ``gpuemu run``, 0 if it is this one."""
    settings = os.environ.get("GPUEMU_RUNTIME")
    if settings is None:
        return 0.0
    fields = Path("/proc", settings.split(":")[4], "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _launches() -> dict[str, float]:
    import torch

    sys.path.insert(0, str(_LANGUAGE))
    dot, elementwise, reductions = (
        importlib.import_module(name) for name in ("test_dot", "test_elementwise", "test_reductions")
    )

    def tensor(*shape: int, dtype: Any = torch.float32) -> Any:
        return torch.rand(*shape, device="cuda").to(dtype)

    x, y = tensor(32), tensor(32)
    rows, out = tensor(64, 1000), tensor(64, 1000)
    a, b, c = (tensor(128, 128, dtype=dtype) for dtype in (torch.float16, torch.float16, torch.float32))
    q, k, v = (tensor(128, 64, dtype=torch.float16) for _ in range(3))
    o = tensor(128, 64)

    def unary() -> None:
        elementwise.unary[(1,)](x.add_(1), y, OP="neg", BLOCK=32)

    def softmax() -> None:
        reductions.softmax[(64,)](rows.add_(0.01), out, 1000, BLOCK=1024)

    def matmul() -> None:
        dot.matmul[(2, 2)](a.add_(0.01), b, c, 128, 128, 128, M=64, N=64, K=32, TRANSPOSED=False)

    def attention() -> None:
        dot.attention[(2,)](q.add_(0.01), k, v, o, 128, D=64, BLOCK=64, CAUSAL=True)

    counts = {unary: 300, softmax: 60, matmul: 40, attention: 40}
    return {call.__name__: _milliseconds(call, count) for call, count in counts.items()}


_WORKERS: dict[str, Callable[[], dict[str, float]]] = {
    "build": _build,
    "operators": _operators,
    "launches": _launches,
}


if __name__ == "__main__":
    sys.exit(main())
