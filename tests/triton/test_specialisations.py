"""Code that cases share on a save: valid for every integer, and not used for stored cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuemu_lsp.engine.check.model import CheckOptions, KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.fuzz import cases
from gpuemu_lsp.engine.jobs.requests import targets

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
