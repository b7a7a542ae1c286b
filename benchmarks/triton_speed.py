"""Triton kernels in the emulator: time against Triton's own compiler, and against Triton's interpreter.

    python -m benchmarks.triton_speed [--repeat N] [--json]

For softmax, a tiled product and attention: the time of Triton's compilation to PTX, of our translation to machine code,
and of running under all checkers, each the median of processes with empty caches. For 32 programs of an fp16 product of
64 x 64 x 32: one launch, translated before (a kernel that is launched again and again is optimised), against one with
``TRITON_INTERPRET=1`` in a process that runs alternately with it, in processor time. In the editor: a save of three
kernels, until the verdict (:mod:`benchmarks.triton_saves`).
Needs the extra `triton`, PyTorch and pytest-lsp.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import triton_saves

_ROOT = Path(__file__).parent.parent
_LANGUAGE = _ROOT / "tests" / "triton" / "language"
_PROGRAMS, _M, _N, _K = 32, 64, 64, 32


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        sys.path.insert(0, str(_LANGUAGE))
        print(json.dumps(_many_products() if options.worker in ("product", "interpreter") else _cold(options.worker)))
        return 0
    cold = {name: [_worker(name) for _ in range(options.repeat)] for name in ("softmax", "matmul", "attention")}
    pairs = [(_worker("product"), _worker("interpreter")) for _ in range(options.repeat)]
    figures: dict[str, dict[str, float]] = {
        name: {key: round(statistics.median(run[key] for run in runs), 3) for key in runs[0]}
        for name, runs in cold.items()
    }
    ratios = [interpreter["seconds"] / emulator["seconds"] for emulator, interpreter in pairs]
    figures["32 products"] = {
        "emulator": round(statistics.median(emulator["seconds"] for emulator, _ in pairs), 4),
        "interpreter": round(statistics.median(interpreter["seconds"] for _, interpreter in pairs), 4),
        "ratio": round(statistics.median(ratios), 1),
    }
    saves = triton_saves.measure(options.repeat)
    if options.json:
        print(json.dumps({**figures, "saves": saves}))
        return 0
    print(
        "| Kernel | Triton's compiler | Translation | Run | (translation + run) / compiler |\n| --- "
        + "| --: " * 4
        + "|"
    )
    for name in cold:
        one = figures[name]
        ratio = (one["translate"] + one["execute"]) / one["compile"]
        print(f"| {name} | {one['compile']:.2f} s | {one['translate']:.2f} s | {one['execute']:.3f} s | {ratio:.1f} |")
    products = figures["32 products"]
    print(f"\n32 programs of an fp16 product: {products['emulator'] * 1e3:.1f} ms under all checkers,", end=" ")
    print(f"{products['interpreter'] * 1e3:.0f} ms in Triton's interpreter: {products['ratio']:.0f} times.")
    print(
        "\n| Kernel | Triton's compiler, one case of each dtype | Save to verdict | Ratio | In processor time "
        "| Save of a comment |\n" + "| --- " + "| --: " * 5 + "|"
    )
    for name, save in saves.items():
        times = f"{save['compile']:.2f} s | {save['save']:.2f} s | {save['ratio']:.1f}"
        processor = f"{save['save processor']:.2f} / {save['compile processor']:.2f} s = {save['processor ratio']:.1f}"
        print(f"| {name} | {times} | {processor} | {save['comment']:.2f} s |")
    return 0


def _worker(name: str) -> dict[str, float]:
    """Return the figures of a process with caches of its own."""
    with tempfile.TemporaryDirectory() as folder:
        own = {
            "TRITON_CACHE_DIR": f"{folder}/triton",
            "GPUEMU_CACHE_DIR": f"{folder}/gpuemu",
            "PYTHONWARNINGS": "ignore",
        }
        environment = {**os.environ, **own, "PYTHONPATH": str(_ROOT)}
        environment["TRITON_INTERPRET"] = "1" if name == "interpreter" else "0"
        command = [sys.executable, "-m", "benchmarks.triton_speed", "--worker", name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
        return result


def _cold(name: str) -> dict[str, float]:
    """Return seconds of compilation, translation and execution of the first launch of a kernel in this process."""
    import numpy as np
    import triton

    from gpuemu.triton import emulated

    # Modules in the folder of the tests, which is not a package.
    test_dot, test_elementwise, test_reductions, support = (
        importlib.import_module(name)
        for name in ("test_dot", "test_elementwise", "test_reductions", "language_support")
    )
    values = support.values
    compiled = 0.0
    compile_ = triton.compiler.compile

    def timed(*arguments: object, **options: object) -> object:
        nonlocal compiled
        started = time.perf_counter()
        try:
            return compile_(*arguments, **options)
        finally:
            compiled += time.perf_counter() - started

    if name == "softmax":
        x = values("float32", (64, 1000), 1)
        launch = lambda: test_reductions.softmax[(64,)](x, np.zeros_like(x), 1000, BLOCK=1024)  # noqa: E731
    elif name == "matmul":
        a, b = values("float16", (128, 128), 1), values("float16", (128, 128), 2)
        given = (a, b, np.zeros((128, 128), np.float32), 128, 128, 128)
        launch = lambda: test_dot.matmul[(2, 2)](*given, M=64, N=64, K=32, TRANSPOSED=False)  # noqa: E731
    else:
        q, k, v = (values("float16", (128, 64), seed) for seed in (1, 2, 3))
        out = np.zeros((128, 64), np.float32)
        launch = lambda: test_dot.attention[(2,)](q, k, v, out, 128, D=64, BLOCK=64, CAUSAL=True)  # noqa: E731
    with emulated(seconds=300) as warm:
        # What every process does once: imports, the device library.
        x_warm = np.zeros(32, np.float32)
        test_elementwise.unary[(1,)](x_warm, x_warm, OP="neg", BLOCK=32)
    del warm
    with emulated(seconds=300) as session:
        triton.compiler.compile = timed
        launch()  # type: ignore[no-untyped-call]
    (record,) = session.launches
    assert record.status == "completed", record
    assert not session.findings
    return {"compile": compiled, "translate": record.translate_ms / 1e3, "execute": record.execute_ms / 1e3}


def _many_products() -> dict[str, float]:
    """Return the processor time of a launch of 32 programs, in the emulator or Triton's interpreter.

    The environment variable ``TRITON_INTERPRET`` decides which. Both use one core; the best launch of six seconds of
    processor time counts.
    """
    import torch
    import triton
    import triton.language as tl

    @triton.jit  # type: ignore[untyped-decorator]
    def products(x, y, out, m: tl.constexpr, n: tl.constexpr, k: tl.constexpr):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        program = tl.program_id(0)
        i, j, inner = tl.arange(0, m)[:, None], tl.arange(0, n)[None, :], tl.arange(0, k)
        a = tl.load(x + program * m * k + i * k + inner[None, :])
        b = tl.load(y + program * k * n + inner[:, None] * n + j)
        tl.store(out + program * m * n + i * n + j, tl.dot(a, b))

    x, y = torch.randn(_PROGRAMS, _M, _K).half(), torch.randn(_PROGRAMS, _K, _N).half()
    out = torch.zeros(_PROGRAMS, _M, _N)

    def best() -> float:
        times: list[float] = []
        end = time.process_time() + 6
        while time.process_time() < end:
            started = time.process_time()
            products[(_PROGRAMS,)](x, y, out, _M, _N, _K)
            times.append(time.process_time() - started)
        return min(times)

    if os.environ["TRITON_INTERPRET"] == "1":
        seconds = best()
    else:
        from gpuemu.triton import emulated

        with emulated():
            seconds = best()
    assert torch.allclose(out, (x.float() @ y.float()), atol=1e-2)
    return {"seconds": seconds}


if __name__ == "__main__":
    sys.exit(main())
