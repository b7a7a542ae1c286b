"""Invalid inputs: expected findings and exit codes, no tracebacks or leftover processes, other kernels unaffected."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.report.json_format import render_json
from gpuemu_lsp.engine.report.text import render_text
from gpuemu_lsp.engine.subjects.request import CheckOptions
from gpuemu_lsp.engine.workers.model import Limits
from gpuemu_lsp.engine.workers.pool import Pool

GOOD_CU = """\
__global__ void good(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
GOOD_REF = "def reference(inputs, **kwargs):\n    return 2.0 * inputs['x']\n"
GOOD_TOML = '[[kernels]]\nname = "good"\nsource = "good.cu"\nreference = "good.py"\n'

BAD_TOML = '[[kernels]]\nname = "bad"\nsource = "bad.cu"\nreference = "bad.py"\n'
ELEMENTWISE = """\
__global__ void bad(const float* x, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    {body}
}}
"""
FINE = ELEMENTWISE.format(body="if (i < n) y[i] = 2.0f * x[i];")


@dataclass(frozen=True)
class Row:
    """``rules``: one of them is reported. ``good``: the other kernel must pass nevertheless.

    ``may``: a rule that may be reported too, depending on what the reference damages. ``seconds`` limits each launch and
    each call.
    """

    name: str
    rules: tuple[str, ...]
    exit_code: int | None = 1
    toml: str = BAD_TOML
    cu: str | bytes | None = FINE
    ref: str | bytes | None = GOOD_REF
    good: bool = True
    files: dict[str, str] = field(default_factory=dict)
    may: str = ""
    seconds: float = 1.5


def kernel(body: str) -> str:
    return ELEMENTWISE.format(body=body)


def reference(body: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.split("\n"))
    return f"import os, sys, time\nimport numpy as np\n\n\ndef reference(inputs, **kwargs):\n{lines}\n"


ROWS = [
    # ---- configuration
    Row("toml-syntax", ("config/syntax",), 2, toml="[[kernels]\nname = \n", good=False),
    Row("toml-binary", ("config/syntax", "config/bad-value"), 2, toml="\x00\x01\x02", good=False),
    Row("toml-unknown-key", ("config/unknown-key",), 2, toml=BAD_TOML + "tolerence = 1e-3\n"),
    Row("toml-wrong-type", ("config/bad-value",), 2, toml=BAD_TOML + "dtypes = 3\n"),
    Row("toml-unknown-dtype", ("config/bad-value",), 2, toml=BAD_TOML + 'dtypes = ["float33"]\n'),
    Row("toml-no-source", ("config/missing-key",), 2, toml='[[kernels]]\nname = "bad"\n'),
    Row("toml-empty-range", ("config/bad-value",), 2, toml=BAD_TOML + "[kernels.dims]\nn = { min = 9, max = 3 }\n"),
    Row(
        "toml-bad-expression", ("config/bad-value",), 2, toml=BAD_TOML + '[kernels.launch]\ngrid = "n +"\nblock = 64\n'
    ),
    Row("toml-unknown-dim", ("config/bad-value",), 2, toml=BAD_TOML + '[kernels.launch]\ngrid = "rows"\nblock = 64\n'),
    Row("toml-negative-tolerance", ("config/bad-value",), 2, toml=BAD_TOML + "[kernels.tolerances]\nfloat32 = -1.0\n"),
    Row(
        "toml-unknown-arg",
        ("config/unknown-key",),
        2,
        toml=BAD_TOML
        + '[kernels.dims]\nn = 8\n[kernels.args]\nx = { in = ["n"] }\nz = { out = ["n"] }\nn = "n"\n[kernels.launch]\ngrid = 1\nblock = 8\n',
    ),
    Row("toml-duplicate-name", ("config/bad-value",), 2, toml=GOOD_TOML + "\n" + BAD_TOML.replace('"bad"', '"good"')),
    Row("toml-fixed-dtype", ("config/bad-value",), 2, toml=BAD_TOML + 'dtypes = ["float32", "float16"]\n'),
    Row("missing-source", ("config/missing-file",), 2, cu=None),
    Row("missing-reference", ("config/missing-file",), 2, ref=None),
    Row(
        "impossible-launch",
        ("config/bad-value",),
        2,
        toml=BAD_TOML
        + '[kernels.dims]\nn = { min = 2000, max = 3000 }\n[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\nn = "n"\n[kernels.launch]\ngrid = 1\nblock = "n"\n',
    ),
    # ---- sources
    Row("empty-source", ("compile/missing-entry",), cu=""),
    Row("binary-source", ("config/missing-file", "compile/missing-entry"), cu=b"\xff\xfe\x00\x80\x81", exit_code=2),
    Row("no-kernel", ("compile/missing-entry",), cu="int main() { return 0; }\n"),
    Row("wrong-entry", ("compile/missing-entry",), toml=BAD_TOML + 'entry = "bat"\n'),
    Row(
        "several-kernels",
        ("config/ambiguous-signature",),
        2,
        cu=FINE.replace("bad", "one") + FINE.replace("bad", "two"),
    ),
    Row("syntax-error", ("compile/error",), cu=FINE.replace("2.0f *", "2.0f * * )")),
    Row("undefined-name", ("compile/error",), cu=kernel("if (i < n) y[i] = undefined_thing * x[i];")),
    Row(
        "missing-header",
        ("engine/not-executed",),
        2,
        cu='#include "not_there.cuh"\n' + FINE.replace("2.0f", "NOT_THERE"),
    ),
    Row("static-assert", ("compile/error",), cu='static_assert(sizeof(int) == 8, "int is not 64 bits");\n' + FINE),
    Row(
        "too-much-shared",
        ("compile/error",),
        cu="__shared__ float big[100000];\n"
        + kernel("big[i] = x[0]; __syncthreads(); if (i < n) y[i] = 2.0f * x[i] + 0.0f * big[n - 1 - i];"),
    ),
    Row(
        "ambiguous-signature",
        ("config/ambiguous-signature", "engine/not-executed"),
        2,
        cu="__global__ void bad(const float* x, float* y, int n, float alpha) { if (threadIdx.x < n) y[threadIdx.x] = alpha * x[threadIdx.x]; }\n",
    ),
    # ---- kernels
    Row("endless-loop", ("sync/hang",), cu=kernel("while (true) { if (i < n) ((volatile float*)y)[i] = x[i]; }")),
    Row("trap", ("sync/trap",), cu=kernel("if (n >= 0) __trap();\n    if (i < n) y[i] = 2.0f * x[i];")),
    Row(
        "assert",
        ("sync/trap",),
        cu="#include <cassert>\n" + kernel("assert(n < 0);\n    if (i < n) y[i] = 2.0f * x[i];"),
    ),
    Row(
        "wild-pointer",
        ("memory/out-of-bounds",),
        cu=kernel("if (i < n) *(float*)(size_t)(0x7fff12345678 + 64 * i) = x[i];"),
    ),
    Row("null-pointer", ("memory/null-pointer",), cu=kernel("if (i < n) *(volatile float*)(size_t)(4 * i) = x[i];")),
    Row(
        "endless-recursion",
        ("memory/out-of-bounds", "sync/trap", "sync/hang", "engine/unsupported-instruction"),
        None,
        cu="__device__ __noinline__ float deep(float v, int n) { volatile float keep[8]; keep[n & 7] = v; return n < 0 ? keep[0] : deep(v + keep[n & 7], n + 1) + 1.0f; }\n"
        + kernel("if (i < n) y[i] = deep(x[i], 0);"),
    ),
    Row(
        "floods-printf",
        ("numeric/tolerance-exceeded",),
        cu="#include <cstdio>\n"
        + kernel('for (int k = 0; k < 20; ++k) printf("%d %f\\n", i, 1.0);\n    if (i < n) y[i] = 3.0f * x[i];'),
        seconds=120.0,  # it ends, later on a busy machine
    ),
    # ---- references
    Row("reference-raises", ("reference/error",), ref=reference("raise ValueError('no such luck')")),
    Row("reference-syntax", ("reference/error",), ref="def reference(inputs:\n"),
    Row("reference-no-function", ("reference/error",), ref="x = 1\n"),
    Row("reference-import", ("reference/error",), ref="import not_a_module_anyone_has\n"),
    Row("reference-exits", ("reference/error",), ref=reference("sys.exit(0)")),
    Row("reference-hard-exit", ("reference/error",), ref=reference("os._exit(0)")),
    Row("reference-hangs", ("reference/error",), ref=reference("while True:\n    time.sleep(0.01)")),
    Row(
        "reference-forks",
        ("reference/error", "reference/wrong-shape"),
        ref=reference("if os.fork() == 0:\n    return inputs['x']\nraise RuntimeError('parent')"),
    ),
    Row("reference-kills-itself", ("reference/error",), ref=reference("os.kill(os.getpid(), 9)")),
    Row("reference-interrupts", ("reference/error",), ref=reference("raise KeyboardInterrupt")),
    Row("reference-50-gb", ("reference/error",), ref=reference("return np.ones(50 * 2**30 // 8)")),
    Row("reference-none", ("reference/wrong-shape",), ref=reference("return None")),
    Row("reference-text", ("reference/wrong-shape",), ref=reference("return 'junk'")),
    Row("reference-ragged", ("reference/wrong-shape", "reference/error"), ref=reference("return [[1.0], [2.0, 3.0]]")),
    Row(
        "reference-objects", ("reference/wrong-shape",), ref=reference("return np.array([object()] * inputs['x'].size)")
    ),
    Row(
        "reference-short",
        ("reference/wrong-shape", "numeric/shape-mismatch"),
        ref=reference("return 2.0 * inputs['x'][:-1]"),
    ),
    Row(
        "reference-random",
        ("reference/not-deterministic",),
        ref=reference("return 2.0 * inputs['x'] + np.random.rand(inputs['x'].size)"),
    ),
    Row(
        "reference-constant",
        ("reference/constant",),
        0,
        cu=kernel("if (i < n) y[i] = x[i] > 1e30f ? 1.0f : 0.0f;"),
        ref=reference("return 1.0 * (inputs['x'] > 1e30)"),
    ),
    Row("reference-recursion", ("reference/error",), ref=reference("return reference(inputs)")),
    Row("reference-binary", ("reference/error",), ref=b"\xff\xfe\x00\x80"),
    Row(
        "reference-closes-everything",
        (),
        0,
        ref=reference(
            "for fd in range(3, 64):\n    try:\n        os.close(fd)\n    except OSError:\n        pass\nreturn 2.0 * inputs['x']"
        ),
        may="engine/not-stored",  # the database of failing cases was among them
    ),
    Row(
        "reference-prints",
        (),
        0,
        ref=reference(
            "print('x' * 100000)\nos.write(1, b'\\xff' * 1000)\nsys.stdout.buffer.write(b'{')\nreturn 2.0 * inputs['x']"
        ),
    ),
    Row("reference-changes-inputs", (), 0, ref=reference("x = inputs['x'].copy()\ninputs['x'][:] = 0\nreturn 2.0 * x")),
]


@pytest.fixture(scope="module")
def pool():
    # Tests of other modules in this process may have started interpreters for scripts, which stay.
    before = _children()
    with Pool(FUNCTIONS, size=2, limits=Limits(), preload=PRELOAD) as pool:
        yield pool
    assert not _children() - before, "processes were left behind"


def _children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_bad_input(row: Row, tmp_path: Path, pool: Pool) -> None:
    (tmp_path / "good.cu").write_text(GOOD_CU)
    (tmp_path / "good.py").write_text(GOOD_REF)
    for name, content in (("bad.cu", row.cu), ("bad.py", row.ref)):
        if content is not None:
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    toml = row.toml if not row.good or '"good"' in row.toml else f"{GOOD_TOML}\n{row.toml}"
    (tmp_path / "gpuemu.toml").write_text(toml)

    targets = collect([], CheckOptions(cases=3, case_seconds=row.seconds), tmp_path)
    run = run_requests(targets.requests, targets.findings, targets.root, pool)

    rules = [finding.rule for finding in run.findings]
    assert not any(rule == "engine/internal-error" for rule in rules), run.findings
    if row.rules:
        assert set(rules) & set(row.rules), run.findings
    else:
        reported = [finding for finding in run.findings if finding.severity in ("error", "warning")]
        assert not [finding for finding in reported if finding.rule != row.may], reported
    assert run.exit_code == row.exit_code or (row.exit_code is None and run.exit_code), (run.exit_code, run.findings)
    if row.good:
        verdicts = {report.name: report.status for report in run.kernels}
        assert verdicts.get("good") == "passed", (verdicts, run.findings)
    assert "Traceback" not in render_text(run)
    render_json(run)
    for finding in run.findings:
        assert finding.message and finding.fingerprint
