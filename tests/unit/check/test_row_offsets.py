"""Loops between neighbouring elements of an array whose contents no program shows."""

from __future__ import annotations

import pytest
from support.host_programs import bug_line

from gpuemu_lsp.engine.check.access_traits import leaves_global_memory
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.execution import Event
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

ROWS = """
__global__ void row_sums(const long long* begin, const float* values, float* sums) {{
    __shared__ float part[128];
    float sum = 0.0f;
    for (long long first = begin[blockIdx.x]; first < begin[blockIdx.x + 1]; first += 128) {{
        const long long at = first + threadIdx.x;
        part[threadIdx.x] = at < begin[blockIdx.x + 1] ? values[at] : 0.0f;  // bug
        __syncthreads();
        if (threadIdx.x == 0) for (int i = 0; i < 128; ++i) sum += part[i];
        {barrier}
    }}
    if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}}
void run(const long long* begin, const float* values, float* sums, int rows) {{
    row_sums<<<rows, 128>>>(begin, values, sums);
}}
"""


@pytest.mark.parametrize(("barrier", "found"), [("", True), ("__syncthreads();", False)])
def test_a_race_between_the_rounds_of_a_long_row(barrier, found, tmp_path):
    text = ROWS.format(barrier=barrier).lstrip()
    (tmp_path / "rows.cu").write_text(text)
    (request,) = collect([str(tmp_path / "rows.cu")], CheckOptions(cases=8, store_root=None), tmp_path).requests
    findings = [event for event in check_kernel(request) if isinstance(event, Finding)]
    assert not any(finding.severity is Severity.ERROR for finding in findings)
    races = [finding for finding in findings if finding.rule == "memory/shared-race"]
    assert bool(races) == found
    lines = {place.range.start.line for race in races for place in (race.place, *(one.place for one in race.related))}
    assert not found or bug_line(text) in lines


PRODUCT = """
__global__ void rows_of_product(int rows, int cols, const int* begin, const float* data, float* out) {
    __shared__ float part[4][32];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = blockIdx.x * 4 + warp, col = blockIdx.y * 32 + lane;
    if (row >= rows) return;
    float sum = 0.0f;
    for (int first = begin[row]; first < begin[row + 1]; first += 32) {
        part[warp][lane] = first + lane < begin[row + 1] ? data[first + lane] : 0.0f;
        __syncwarp();
        for (int j = 0; j < 32; ++j) sum += part[warp][j];
        __syncwarp();
    }
    if (col < cols) out[row * cols + col] = sum;
}
void run(int rows, int cols, const int* begin, const float* data, float* out) {
    rows_of_product<<<dim3((rows + 3) / 4, (cols + 31) / 32), 128>>>(rows, cols, begin, data, out);
}
"""


def test_a_store_far_behind_an_array_of_unknown_length_does_not_race_in_shared_memory(tmp_path):
    (tmp_path / "product.cu").write_text(PRODUCT)
    (request,) = collect([str(tmp_path / "product.cu")], CheckOptions(cases=27, store_root=None), tmp_path).requests
    findings = [event for event in check_kernel(request) if isinstance(event, Finding)]
    assert not [finding for finding in findings if finding.severity is not Severity.HINT]


@pytest.mark.parametrize(
    ("instruction", "other", "leaves"),
    [
        ("st.shared.f32", "st.global.f32", True),
        ("red.global.add.f32", "ld.shared.f32", True),
        ("ld.shared.f32", "cp.async.ca.shared.global", False),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", "st.shared.f32", False),
    ],
)
def test_accesses_of_a_race_in_shared_memory(instruction, other, leaves):
    event = Event("memory/shared-race", "", None, instruction, data={"other_instruction": other})
    assert leaves_global_memory(event) == leaves
