"""Verdicts of Triton kernels are taken again where only comments changed, and only there."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.check.verdicts import cache
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.jobs.requests import targets
from gpuemu_lsp.engine.subjects.request import CheckOptions

HELPER = """\
import triton
import triton.language as tl


@triton.jit
def doubled(value):
    return 2.0 * value
"""
KERNEL = """\
import os

import triton
import triton.language as tl
from helper import doubled

os.environ["IMPORTS"] = os.environ.get("IMPORTS", "") + "x"


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, doubled(value), mask=i <= n)


def reference(inputs):
    return 2.0 * inputs["x"]
"""
CONFIG = """\
[[kernels]]
name = "scale"
source = "model.py"
reference = "model.py:reference"
[kernels.dims]
n = { min = 1, max = 100 }
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
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("IMPORTS", "")
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / ".cache"))
    cache._folder.cache_clear()
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "model.py").write_text(KERNEL)
    (tmp_path / "gpuemu.toml").write_text(CONFIG)
    yield tmp_path
    cache._folder.cache_clear()


def check(project, text=None, **options):
    (request,) = targets.collect([str(project)], CheckOptions(verdicts="reuse"), project).requests
    request = replace(request, text=text, options=replace(request.options, **options))
    events = list(check_kernel(request))
    (report,) = (event for event in events if isinstance(event, KernelReport))
    return report, {(one.rule, one.place.range) for one in events if isinstance(one, Finding)}


def imports():
    return len(os.environ["IMPORTS"])


def test_a_comment_moves_findings_and_runs_nothing(project):
    first, found = check(project)
    assert first.status == "failed" and not first.reused
    assert {rule for rule, _ in found} == {"memory/out-of-bounds"}
    before = imports()
    moved = "# A comment\n\n" + KERNEL.replace("    tl.store", "    # Another\n    tl.store")
    second, again = check(project, moved)
    assert second.reused and imports() == before
    assert (second.status, second.cases, second.resources) == (first.status, first.cases, first.resources)
    assert {range_.start.line - 3 for _, range_ in again} == {range_.start.line for _, range_ in found}
    # As a check without the stored verdict places them.
    third, placed = check(project, moved, verdicts="run")
    assert not third.reused and placed == again


@pytest.mark.parametrize("change", ["code", "helper", "ignore", "registration", "option"])
def test_other_changes_run_the_kernel(project, change):
    fixed = KERNEL.replace("i <= n", "i < n")
    report, found = check(project, fixed)
    assert report.status == "passed" and found == set()
    assert check(project, fixed)[0].reused
    text, options = fixed, {}
    if change == "code":
        text = fixed.replace("other=0.0", "other=1.0")
    elif change == "helper":
        (project / "helper.py").write_text(HELPER.replace("2.0", "3.0"))
    elif change == "ignore":
        text = fixed.replace("mask=i < n)\n", "mask=i < n)  # gpuemu: ignore[numeric/tolerance-exceeded]\n")
    elif change == "registration":
        (project / "gpuemu.toml").write_text(CONFIG.replace("max = 100", "max = 90"))
    else:
        options["cases"] = 3
    report, _ = check(project, text, **options)
    assert not report.reused
    assert report.status == ("failed" if change == "helper" else "passed")
