"""Code that cases share on a save: valid for every integer, and not used for stored cases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.fuzz import cases
from gpuemu_lsp.engine.jobs.requests import targets
from gpuemu_lsp.engine.subjects.request import CheckOptions

KERNEL = """\
import triton
import triton.language as tl


@triton.heuristics({"EVEN": lambda given: given["n"] % 16 == 0})
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, 2.0 * value, mask=i < n)


def reference(inputs):
    return 2.0 * inputs["x"]
"""
# An integer that is 1 is compiled in, and has no such method: an error that only its own specialisation has.
ONLY_ONE = KERNEL.replace("mask=i < n)\n", "mask=i < n.to(tl.int32))\n")
CONFIG = """\
[[kernels]]
name = "scale"
source = "model.py"
reference = "model.py:reference"
[kernels.dims]
n = { min = 1, max = 100, include = [1, 64] }
[kernels.args]
x = { in = ["n"] }
y = { out = ["n"] }
n = "n"
[kernels.constexprs]
BLOCK = 64
[kernels.launch]
grid = ["ceil_div(n, 64)"]
"""


@pytest.fixture
def request_of(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / ".cache"))
    (tmp_path / "model.py").write_text(KERNEL)
    (tmp_path / "gpuemu.toml").write_text(CONFIG)
    (request,) = targets.collect([str(tmp_path)], CheckOptions(store_root=str(tmp_path)), tmp_path).requests

    def made(text, specialisations):
        return replace(request, text=text, options=replace(request.options, specialisations=specialisations))

    return made


def checked(request):
    events = list(check_kernel(request))
    (report,) = (event for event in events if isinstance(event, KernelReport))
    return report, {one.rule for one in events if isinstance(one, Finding)}


def test_cases_share_code_that_differs_in_what_is_assumed_of_integers(request_of):
    counts = {}
    for specialisations in ("all", "general"):
        prepared = prepare(request_of(KERNEL, specialisations))
        (plan,) = prepared.plans
        drawn = list(cases(plan, 42, 16))
        assert {1, 64} < {case.dims["n"] for case in drawn}
        counts[specialisations] = len({id(prepared.subject.code(plan, case)) for case in drawn})
    # Heuristics see the value of the case: EVEN gives two.
    assert counts == {"all": 3, "general": 2}
    one = next(case for case in drawn if case.dims["n"] == 1)
    shared = prepared.subject.code(plan, one)
    prepared.subject.exact.add(one.key.id)
    own = prepared.subject.code(plan, one)
    assert prepared.subject.specialisation(shared).values.get("n") is None
    assert prepared.subject.specialisation(own).values["n"] == "1"


def test_every_value_is_right_in_shared_code(request_of):
    report, rules = checked(request_of(KERNEL, "general"))
    assert report.status == "passed" and rules == set() and report.cases.run == 16


def test_an_error_of_one_specialisation_is_found_where_all_are_compiled(request_of):
    assert checked(request_of(ONLY_ONE, "general"))[0].status == "passed"
    report, rules = checked(request_of(ONLY_ONE, "all"))
    assert report.status != "passed" and rules == {"compile/error"}


SUMS = """\
import triton
import triton.language as tl


@triton.jit
def sums(x, y, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    value = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=0.0).to(tl.float32)
    tl.store(y + tl.program_id(0), tl.sum(value, axis=0))


def reference(inputs):
    return inputs["x"].sum(axis=1)
"""
SUMS_CONFIG = """\
[[kernels]]
name = "sums"
source = "model.py"
reference = "model.py:reference"
dtypes = ["float32", "float16"]
[kernels.dims]
rows = { min = 1, max = 40 }
cols = { min = 1, max = 1100 }
[kernels.args]
x = { in = ["rows", "cols"] }
y = { out = ["rows"], dtype = "float32" }
cols = "cols"
[kernels.constexprs]
BLOCK = "next_pow2(cols)"
[kernels.launch]
grid = "rows"
num_warps = [4, 8]
"""
TUNED = """\
import triton
import triton.language as tl

# The first needs more shared memory than there is: seven stages of 64 KiB.
CONFIGURATIONS = [triton.Config({"SIZE": size}, num_stages=stages) for size, stages in ((128, 8), (32, 2), (64, 2))]


@triton.autotune(configs=CONFIGURATIONS, key=["m"])
@triton.jit
def product(x, y, out, m, k, SIZE: tl.constexpr):
    i, c = tl.program_id(0) * SIZE + tl.arange(0, SIZE), tl.arange(0, 64)
    total = tl.zeros((SIZE, SIZE), tl.float32)
    for start in range(0, k, 64):
        inside = (i[:, None] < m) & (start + c[None, :] < k)
        a = tl.load(x + i[:, None] * k + start + c[None, :], mask=inside, other=0.0)
        b = tl.load(y + i[:, None] * k + start + c[None, :], mask=inside, other=0.0)
        total = tl.dot(a, tl.trans(b), total)
    diagonal = tl.arange(0, SIZE)[:, None] == tl.arange(0, SIZE)[None, :]
    tl.store(out + i, tl.sum(tl.where(diagonal, total, 0.0), axis=1), mask=i < m)


def reference(inputs):
    return (inputs["x"] * inputs["y"]).sum(axis=1)
"""

TUNED_CONFIG = """\
[[kernels]]
name = "product"
source = "model.py"
reference = "model.py:reference"
[kernels.dims]
m = { min = 1, max = 200 }
k = { min = 1, max = 200, multiple_of = 8 }
[kernels.args]
x = { in = ["m", "k"], align = 4 }
y = { in = ["m", "k"], align = 4 }
out = { out = ["m"] }
m = "m"
k = "k"
[kernels.launch]
grid = "ceil_div(m, SIZE)"
"""


def compiled(request):
    """Return the number of specialisations that the drawn cases of each plan have."""
    prepared = prepare(request)
    counts = []
    for plan in prepared.plans:
        drawn = list(cases(plan, 42, 16))
        assert len(drawn) == 16
        counts.append(len({id(prepared.subject.code(plan, case)) for case in drawn}))
    return prepared, counts


def test_a_save_compiles_three_specialisations_of_a_block_that_depends_on_a_size(tmp_path, request_of):
    (tmp_path / "gpuemu.toml").write_text(SUMS_CONFIG)
    (tmp_path / "model.py").write_text(SUMS)
    (request,) = targets.collect([str(tmp_path)], CheckOptions(store_root=str(tmp_path)), tmp_path).requests
    on_save = replace(request, options=replace(request.options, specialisations="general"))
    assert sum(compiled(request)[1]) > 12
    prepared, counts = compiled(on_save)
    assert counts == [2, 1] and prepared.specialisation.warps == 4
    assert checked(on_save)[0].status == "passed"
    buggy = SUMS.replace("other=0.0", "other=1.0")
    assert checked(replace(on_save, text=buggy))[0].status == "failed"


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
@pytest.mark.parametrize("buggy", [False, True])
def test_other_dtypes_and_variants_are_compiled_and_translated_ahead(tmp_path, buggy):
    """In a process of its own, as a worker is: nothing is forked where other threads run, as tests here start them."""
    (tmp_path / "gpuemu.toml").write_text(SUMS_CONFIG)
    (tmp_path / "model.py").write_text(SUMS.replace("other=0.0", "other=1.0") if buggy else SUMS)
    environment = {
        **os.environ,
        "OPENBLAS_NUM_THREADS": "1",  # as in workers
        "TRITON_CACHE_DIR": str(tmp_path / "triton"),
        "GPUEMU_CACHE_DIR": str(tmp_path / ".cache"),
    }
    command = [sys.executable, str(Path(__file__).parent / "check_on_save.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, timeout=250, check=True)
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["status"] == ("failed" if buggy else "passed")
    assert result["dtypes of findings"] == (["float16", "float32"] if buggy else [])
    assert result["compiled"] == [["another process", "*fp16"], ["another process", "*fp32"], ["this process", "*fp32"]]
    assert result["children"] == 0


def test_a_stored_case_of_another_variant_runs_on_a_save(tmp_path, request_of):
    """It fails in one variant only, which the cases of a save do not have."""
    (tmp_path / "gpuemu.toml").write_text(SUMS_CONFIG)
    (tmp_path / "model.py").write_text(SUMS.replace("axis=0))", "axis=0) + (1.0 if BLOCK == 2048 else 0.0))"))
    (request,) = targets.collect([str(tmp_path)], CheckOptions(store_root=str(tmp_path)), tmp_path).requests
    on_save = replace(request, options=replace(request.options, specialisations="general"))
    assert checked(on_save)[0].status == "passed"
    assert checked(request)[0].status == "failed"
    assert checked(on_save)[0].status == "failed"


def test_a_save_runs_one_configuration_and_one_alignment(tmp_path, request_of):
    (tmp_path / "gpuemu.toml").write_text(TUNED_CONFIG)
    (tmp_path / "model.py").write_text(TUNED)
    (request,) = targets.collect([str(tmp_path)], CheckOptions(store_root=str(tmp_path)), tmp_path).requests
    on_save = replace(request, options=replace(request.options, specialisations="general"))
    prepared, counts = compiled(on_save)
    assert counts == [1]
    (plan,) = prepared.plans
    assert {case.dims["config"] for case in cases(plan, 42, 16)} == {2}
    assert checked(on_save)[0].status == "passed"
