"""Causes and consequences: what follows from a race or an uninitialised read, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.check_project import request, run

from gpuemu_lsp.engine.findings import Finding, Severity

TOML = """\
[[kernels]]
name = "twice"
source = "twice.cu"
reference = "twice.py"
[kernels.dims]
n = { min = 1, max = 256 }
[kernels.args]
x = { in = ["n"] }
y = { out = ["n"] }
n = "n"
[kernels.launch]
grid = [1]
block = [256]
"""

MISSING_BARRIER = """\
__global__ void twice(const float* x, float* y, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    tile[t] = t < n ? x[t] : 0.0f;
    float v = tile[255 - t];
    if (255 - t < n) y[255 - t] = 2.0f * v;
}
"""
MISSING_INITIALISATION = """\
__global__ void twice(const float* x, float* y, int n) {
    __shared__ float sum[256];
    int t = threadIdx.x;
    if (t >= n) return;
    if (t < 64) sum[t] = 0.0f;
    sum[t] += 2.0f * x[t];
    y[t] = sum[t];
}
"""
LOST_UPDATE = """\
__global__ void twice(const float* x, float* y, int n) {
    int t = threadIdx.x;
    if (t < n) y[n > 64 ? t / 2 * 2 : t] = 2.0f * x[t];
    if (t < n && t % 2) y[t] = 2.0f * x[t];
}
"""
IN_LOOP = """\
__global__ void twice(const float* x, float* y, int n) {
    __shared__ float tile[256];
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int turn = 0; turn < 2; ++turn) {
        tile[t] = t < n ? 2.0f * x[t] : 0.0f;
        if (turn == 1) tile[t] = 0.0f;
        __syncthreads();
        sum += tile[255 - t];
    }
    if (255 - t < n) y[255 - t] = sum;
}
"""


def errors(folder: Path, cu: str, **options) -> list[Finding]:
    found = run(request(folder, cu, toml=TOML, **options))[1]
    return [one for one in found if one.severity is Severity.ERROR]


def rules(findings) -> list[str]:
    return [one.rule for one in findings]


@pytest.mark.parametrize(
    ("cu", "cause", "following"),
    [
        (MISSING_BARRIER, "memory/shared-race", {"memory/uninitialized-read", "numeric/tolerance-exceeded"}),
        (MISSING_INITIALISATION, "memory/uninitialized-read", {"numeric/tolerance-exceeded"}),
        (IN_LOOP, "memory/shared-race", {"numeric/tolerance-exceeded"}),
    ],
)
def test_what_follows_from_a_cause_is_not_an_error_of_its_own(
    tmp_path: Path, cu: str, cause: str, following: set[str]
) -> None:
    (error,) = errors(tmp_path, cu)
    assert error.rule == cause
    assert set(rules(error.consequences)) == following


@pytest.mark.parametrize("cu", [MISSING_BARRIER, MISSING_INITIALISATION, IN_LOOP])
def test_a_wrong_factor_is_not_hidden_behind_a_race_or_an_uninitialised_read(tmp_path: Path, cu: str) -> None:
    found = errors(tmp_path, cu.replace("2.0f *", "3.0f *"))
    assert {rule.partition("/")[0] for rule in rules(found)} == {"memory", "numeric"}


def test_wrong_elements_that_no_race_touches_stay_an_error(tmp_path: Path) -> None:
    cu = MISSING_BARRIER.replace("= 2.0f * v", "= (t == 200 ? 5.0f : 2.0f) * v")
    found = errors(tmp_path, cu, cases=16)
    numeric = [one for one in found if one.rule == "numeric/tolerance-exceeded"]
    assert rules(found)[0] == "memory/shared-race" and numeric
    assert numeric[0].data["index"] == [55] and numeric[0].data["count"] == 1


def test_an_error_of_a_case_without_the_cause_stays_an_error(tmp_path: Path) -> None:
    """Below 64 elements everything is initialised, and the factor is wrong."""
    cu = MISSING_INITIALISATION.replace("2.0f *", "(n < 64 ? 3.0f : 2.0f) *")
    found = errors(tmp_path, cu)
    assert set(rules(found)) == {"memory/uninitialized-read", "numeric/tolerance-exceeded"}


def test_what_follows_from_a_suppressed_cause_stays_an_error(tmp_path: Path) -> None:
    line = "    float v = tile[255 - t];"
    comment = "  // gpuemu: ignore[memory/shared-race, memory/uninitialized-read]"
    found = errors(tmp_path, MISSING_BARRIER.replace(line, line + comment))
    assert rules(found) == ["numeric/tolerance-exceeded"]


def test_an_update_that_every_order_loses_follows_from_its_race(tmp_path: Path) -> None:
    (error,) = errors(tmp_path, LOST_UPDATE)
    assert error.rule == "memory/global-race"
    assert rules(error.consequences) == ["numeric/tolerance-exceeded"]


def test_what_the_emulator_fills_memory_with_is_not_shown_as_a_result(tmp_path: Path) -> None:
    (error,) = errors(tmp_path, MISSING_INITIALISATION)
    (consequence,) = error.consequences
    assert "depends on uninitialized memory, expected" in consequence.message
    assert consequence.data["actual"] is None


def test_a_consequence_of_a_later_case_is_added_to_its_cause(tmp_path: Path) -> None:
    """The race shows with any size, wrong numbers only where another warp is involved."""
    (error,) = errors(tmp_path, MISSING_BARRIER)
    assert error.consequences


def test_a_stored_case_is_explained_as_when_it_was_drawn(tmp_path: Path) -> None:
    texts = []
    for _ in range(3):
        made = request(tmp_path, LOST_UPDATE, toml=TOML, store_root=str(tmp_path))
        found = [one for one in run(made)[1] if one.severity is Severity.ERROR]
        texts.append([(one.rule, rules(one.consequences)) for one in found])
    assert texts[1] == texts[2] == texts[0]
