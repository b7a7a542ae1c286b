"""Buffer lengths inferred by running kernels, with the compiler and the emulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.plan.candidates import candidates_for, regular_sizes
from gpuemu_lsp.engine.plan.model import PlanResult
from gpuemu_lsp.engine.plan.probe import probe
from gpuemu_lsp.engine.plan.resolve import unregistered
from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.source.model import SourceFile
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

_I = "int i = blockIdx.x * blockDim.x + threadIdx.x;"
_COPY = f"__global__ void k(const float* x, float* y, int n) {{ {_I} if (i < n) y[i] = x[i]; }}"
_STRIDED = "for (; i < n; i += gridDim.x * blockDim.x)"
_MATMUL = """__global__ void k(const float* a, const float* b, float* c, int m, int n, int k) {
  int r = blockIdx.y * 16 + threadIdx.y, q = blockIdx.x * 16 + threadIdx.x;
  if (r < m && q < n) {
    float s = 0;
    for (int i = 0; i < k; i++) s += a[r * k + i] * b[i * n + q];
    c[r * n + q] = s;
  }
}
void f(float* a, int m, int n, int depth) { dim3 t(16, 16), g((n + 15) / 16, (m + 15) / 16); k<<<g, t>>>(a, a, a, m, n, depth); }
"""
_PARTIAL = f"""__global__ void k(const float* x, float* sums, int n) {{
  __shared__ float s[128];
  {_I}
  s[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  for (int h = 64; h > 0; h /= 2) {{ if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h]; __syncthreads(); }}
  if (threadIdx.x == 0) sums[blockIdx.x] = s[0];
}}
void f(float* x, int n) {{ k<<<(n + 127) / 128, 128>>>(x, x, n); }}
"""
_ROWS = """__global__ void k(const float* x, float* y, int cols) {
  for (int i = threadIdx.x; i < cols; i += blockDim.x) y[blockIdx.x * cols + i] = x[blockIdx.x * cols + i] + y[blockIdx.x * cols + i] * 0;
}
void f(float* x, int rows, int cols) { k<<<rows, 64>>>(x, x, cols); }
"""
_GATHER = f"""__global__ void k(const int* index, const float* table, float* y, int n, int width) {{
  {_I} if (i < n * width) y[i] = table[index[i / width] * width + i % width];
}}
void f(float* x, int n, int w) {{ k<<<(n * w + 127) / 128, 128>>>(0, x, x, n, w); }}
"""
_BINS = f"""#define BINS 100
__global__ void k(const float* x, int* bins, int n) {{
  {_I} if (i < BINS) bins[i] = 0; if (i < n && x[i] > 2e9f) bins[0] = 1;
}}"""
_TILES = """__global__ void k(const float* a, const float* b, float* c, int n) {
  __shared__ float p[16][16], q[16][16];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float s = 0;
  for (int t = 0; t < n; t += 16) {
    p[y][x] = a[row * n + t + x];
    q[y][x] = b[(t + y) * n + column];
    __syncthreads();
    for (int j = 0; j < 16; j++) s += p[y][j] * q[j][x];
    __syncthreads();
  }
  c[row * n + column] = s;
}
void f(float* a, int n) { dim3 t(16, 16), g(n / 16, n / 16); k<<<g, t>>>(a, a, a, n); }
"""
_DYNAMIC = """__global__ void k(const float* x, float* y, int rows, int cols) {
  extern __shared__ float s[];
  float v = 0;
  for (int i = threadIdx.x; i < cols; i += blockDim.x) v += x[blockIdx.x * cols + i];
  s[threadIdx.x] = v;
  for (int h = blockDim.x / 2; h > 0; h /= 2) {
    __syncthreads();
    if (threadIdx.x < h) s[threadIdx.x] += s[threadIdx.x + h];
  }
  if (threadIdx.x == 0) y[blockIdx.x] = s[0];
}
void f(float* x, float* y, int rows, int cols, int block) {
  size_t bytes = block * sizeof(float);
  k<<<rows, block, bytes>>>(x, y, rows, cols);
}
"""

_HISTOGRAM = """__global__ void k(const unsigned char* x, unsigned* h, int n) {
  __shared__ unsigned s[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) s[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&s[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&h[i], s[i]);
}
"""


def _check(source: SourceFile) -> tuple[list[Finding], KernelReport]:
    spec = unregistered(source, source.kernels[-1])
    events = list(check_kernel(CheckRequest(spec, CheckOptions(cases=5), registered=False)))
    report = events[-1]
    assert isinstance(report, KernelReport)
    return [event for event in events if isinstance(event, Finding)], report


@pytest.mark.parametrize(
    ("code", "shapes"),
    [
        (_COPY, ["x: in [n]", "y: out [n]"]),
        (
            _COPY.replace("const float", "const float4").replace("float* y", "float4* y"),
            ["x: in [4 * n]", "y: out [4 * n]"],
        ),
        (_COPY.replace("y[i] = x[i]", "y[i] += x[i]"), ["x: in [n]", "y: inout [n]"]),
        (_COPY.replace("const float* x", "float* x"), ["x: in [n]", "y: out [n]"]),
        (_MATMUL, ["a: in [m * k]", "b: in [n * k]", "c: out [m * n]"]),
        (_PARTIAL, ["x: in [n]", "sums: out [(ceil_div"]),
        (_ROWS, ["x: in [cols * rows]", "y: inout [cols * rows]"]),
        (_BINS, ["x: in [n]", "bins: out [100]"]),
        (_HISTOGRAM, ["x: in [n]", "h: inout [256]"]),
        (_TILES, ["a: in [n * n]", "c: out [n * n]"]),
        (_DYNAMIC, ["x: in [rows * cols]", "y: out [rows]"]),
    ],
)
def test_correct_kernels_have_inferred_shapes_and_no_findings(
    reader: Callable[[str], SourceFile], code: str, shapes: list[str]
) -> None:
    """The only finding is the hint with the inferred shapes and directions."""
    findings, report = _check(reader(code))
    assert [finding.rule for finding in findings] == ["config/launch-inferred"], findings
    assert report.status == "unreferenced"
    assert report.cases.run == report.cases.passed == 5
    for shape in shapes:
        assert shape.replace("(ceil_div", "") in findings[0].message or shape.replace("[(ceil_div", "[((n") in (
            findings[0].message
        )


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (_TILES.replace("__syncthreads();", "", 1), "memory/shared-race"),
        (_HISTOGRAM.replace("atomicAdd(&s[x[i]], 1u)", "++s[x[i]]"), "memory/shared-race"),
        (_DYNAMIC.replace("    __syncthreads();\n", ""), "memory/shared-race"),
        (_COPY.replace("i < n", "i <= n"), "memory/out-of-bounds"),
        (_COPY.replace("if (i < n)", ""), "memory/out-of-bounds"),
        (_COPY.replace("if (i < n)", _STRIDED.replace("i < n", "i <= n")), "memory/out-of-bounds"),
        (_MATMUL.replace("q < n)", "q <= n)"), "memory/out-of-bounds"),
        (_MATMUL.replace("r < m &&", ""), "memory/out-of-bounds"),
        (_ROWS.replace("i < cols", "i <= cols"), "memory/out-of-bounds"),
        (
            _DYNAMIC.replace(", int block) {", ") {\n  const int block = 128;").replace(
                "block * sizeof", "block / 2 * sizeof"
            ),
            "memory/out-of-bounds",
        ),
        (
            _PARTIAL.replace("s[threadIdx.x] = i < n ? x[i] : 0;", "if (i < n) s[threadIdx.x] = x[i];"),
            "memory/uninitialized-read",
        ),
        (_PARTIAL.replace("__syncthreads();", "if (i >= n) return; __syncthreads();", 1), "sync/barrier-divergence"),
    ],
)
def test_bugs_are_found_on_inferred_sizes(reader: Callable[[str], SourceFile], code: str, rule: str) -> None:
    """A missing guard, one element too many, uninitialised shared memory, an early return before a barrier."""
    findings, report = _check(reader(code))
    assert rule in [finding.rule for finding in findings if finding.severity == "error"]
    assert report.status == "failed"


@pytest.mark.parametrize(
    "code",
    [
        _GATHER,
        _COPY.replace("y[i] = x[i]", "y[i] = x[i + 1] - x[i]"),
        _COPY.replace("y[i] = x[i]", "y[i] = x[i * 3 + 7]"),
        _COPY.replace("{ int", "{ assert(n % 64 == 0); int").replace("__global", "#include <cassert>\n__global"),
        _COPY.replace(
            "y[i] = x[i]", "{ __shared__ float s[99]; if (i == 0) s[n - 1] = x[i]; y[i] = i ? x[i] : s[n - 1]; }"
        ),
        _COPY.replace("y[i] = x[i]", "while (n % 3) y[i] = x[i]"),
        _COPY.replace("y[i] = x[i]", "{ cudaStreamDestroy(0); y[i] = x[i]; }"),
        _ROWS.replace("{\n  for", "{\n  if (cols % 32) __trap();\n  for"),
    ],
)
def test_a_fault_that_a_guess_may_cause_is_not_an_error(reader: Callable[[str], SourceFile], code: str) -> None:
    """Unknown index values, offset arrays, assertions, arrays of fixed size, infinite loops on odd sizes."""
    findings, report = _check(reader(code))
    assert not [finding for finding in findings if finding.severity in ("error", "warning")], findings
    assert report.status != "failed"


_LATE = """__global__ void k(const float* x, float* y, int n) {
  for (int i = 300 + threadIdx.x; i < n; i += blockDim.x) y[1000 - i % 2] = x[i];
}
void f(float* x, int n) { k<<<1, 64>>>(x, x, n); }
"""
_SHARED = f"""__global__ void k(const float* x, float* y, int n) {{
  __shared__ float s[512];
  {_I}
  s[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  float sum = 0;
  for (int j = 0; j < 512; j++) sum += s[j];
  if (i < n) y[i] = sum;
}}
"""
_MATRIX = """#include <mma.h>
using namespace nvcuda;
__global__ void k(const half* a, const half* b, float* c, int m, int n, int k) {
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
  wmma::fill_fragment(fc, 0.0f);
  int r = blockIdx.y * 16, q = blockIdx.x * 16;
  for (int i = 0; i < k; i += 16) {
    wmma::load_matrix_sync(fa, a + r * k + i, k);
    wmma::load_matrix_sync(fb, b + i * n + q, n);
    wmma::mma_sync(fc, fa, fb, fc);
  }
  wmma::store_matrix_sync(c + r * n + q, fc, n, wmma::mem_row_major);
}
void f(half* a, float* c, int m, int n, int depth) { dim3 g((n + 15) / 16, (m + 15) / 16); k<<<g, 32>>>(a, a, c, m, n, depth); }
"""
_FOURS = """__global__ void k(const float* x, float* y, int n) {
  int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) {
    float4 v = *reinterpret_cast<const float4*>(x + i);
    v.x += 1; v.y += 2; v.z += 3; v.w += 4;
    *reinterpret_cast<float4*>(y + i) = v;
  }
}
"""
_PER_BLOCK = """#define MIN(a, b) ((a) < (b) ? (a) : (b))
__global__ void k(const float* x, float* sums, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(sums + blockIdx.x, x[i]);
}
void f(float* x, int n) { u32 t = MIN(700, n); u32 blocks = (n + t - 1) / t; k<<<blocks, t>>>(x, x, n); }
"""
_GROUPS = """constexpr int THREADS = 128;
__global__ void k(const float* w, const float* scale, float* y, int n, int k) {
  float sum = 0;
  for (int i = threadIdx.x; i < k; i += THREADS) sum += w[blockIdx.x * k + i] * scale[blockIdx.x * (k / 64) + i / 64];
  atomicAdd(y + blockIdx.x, sum);
}
void f(float* w, int n, int k) { k<<<n, THREADS>>>(w, w, w, n, k); }
"""


@pytest.mark.parametrize(
    "code",
    [
        _GROUPS,
        _LATE,
        _SHARED,
        _SHARED.replace("s[512]", "s[128]").replace("< 512", "< 128"),
        _SHARED + "void f(float* x, int n) { int t = threads_for(n); k<<<(n + t - 1) / t, t>>>(x, x, n); }",
        _MATRIX,
        _FOURS,
        _PER_BLOCK,
        _DYNAMIC.replace("  float v", "  if (threadIdx.x >= cols) return;\n  float v"),
    ],
)
def test_a_fault_of_an_unlikely_launch_is_not_an_error(reader: Callable[[str], SourceFile], code: str) -> None:
    """Scales of groups, loops that start beyond regular sizes, arrays for another block size, whole tiles, one element per block."""
    findings, _ = _check(reader(code))
    assert not [finding for finding in findings if finding.severity in ("error", "warning")], findings


def test_a_buffer_that_is_not_accessed_is_not_reported_clean(reader: Callable[[str], SourceFile]) -> None:
    """Its length cannot be inferred."""
    assert _check(reader(_LATE))[1].status == "not-executed"


def test_one_element_per_block_is_inferred(reader: Callable[[str], SourceFile]) -> None:
    """Even if the block size grows with the size: the probe needs more than one block."""
    assert _check(reader(_PER_BLOCK))[1].status == "unreferenced"


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (_MATRIX.replace("r * n + q, fc", "r * n + q + 1, fc"), "memory/out-of-bounds"),
        (_MATRIX.replace("{ dim3 g(", "{ if (m % 16 || n % 16 || depth % 8) return; dim3 g("), "memory/out-of-bounds"),
        (_PER_BLOCK.replace("i < n", "i <= n"), "memory/out-of-bounds"),
        (
            _SHARED.replace("512", "256").replace("if (i < n) y", "s[threadIdx.x] = 0; if (i < n) y"),
            "memory/shared-race",
        ),
    ],
)
def test_bugs_are_found_with_such_guesses(reader: Callable[[str], SourceFile], code: str, rule: str) -> None:
    """A fault under every launch is an error."""
    findings, _ = _check(reader(code))
    assert rule in [finding.rule for finding in findings if finding.severity == "error"], findings


def test_regular_sizes_are_multiples_and_differ(bare: Callable[[str], PlanResult]) -> None:
    """They have no partial tile, are distinct, and the two assignments differ."""
    (plan,) = bare(_MATMUL).plans
    first, second = regular_sizes(plan)
    for sizes in (first, second):
        assert len(set(sizes.values())) == 3
        assert all(size % 16 == 0 for size in sizes.values())
    assert first != second
    lengths = [candidate.length for candidate in candidates_for(plan, first, (100,))]
    assert lengths == sorted(lengths) and 100 in lengths


def test_a_counter_after_the_data_is_not_out_of_bounds(reader: Callable[[str], SourceFile]) -> None:
    """Scratch memory of rows * cols elements and one more, which blocks increment atomically."""
    code = """__global__ void k(const float* x, float* scratch, int rows, int cols) {
  for (int i = threadIdx.x; i < cols; i += blockDim.x) scratch[blockIdx.x * cols + i] = x[blockIdx.x * cols + i];
  if (threadIdx.x == 0) atomicAdd((int*)(scratch + rows * cols), 1);
}
void f(float* x, int rows, int cols) { k<<<rows, 64>>>(x, x, rows, cols); }
"""
    findings, report = _check(reader(code))
    assert not [finding for finding in findings if finding.severity in ("error", "warning")], findings
    assert report.status == "unreferenced"
    assert "The extents of 'scratch', 'x' are not known" in findings[0].message


def test_no_search_with_buffers_that_take_longer_to_fill_than_to_use(bare: Callable[[str], PlanResult]):
    (plan,) = bare(_COPY).plans
    known = replace(plan.args[0], shape=(parse("200000 * n"),))
    found = probe(replace(plan, args=(known, *plan.args[1:])), lambda *_: pytest.fail("the kernel was launched"))
    assert found.plan is None and "102,400,000 elements" in found.reason


_FLAG = f"""__global__ void k(volatile int* stop, const float* x, float* y, int n) {{
  if (*stop != 0) return;
  {_I}
  if (i <BUG n) y[i] = x[i];
}}"""


def test_a_flag_that_ends_the_kernel_hides_no_lengths(reader: Callable[[str], SourceFile]):
    """Whatever an uninitialised flag holds, the lengths are those of a run to the end."""
    for bug in ("", "="):
        found, _ = _check(reader(_FLAG.replace("BUG", bug)))
        assert any("stop: in [1]; x: in [n]; y: out [n]" in one.message for one in found)
        assert any(one.rule == "memory/out-of-bounds" for one in found) == bool(bug)


_CSR = f"""__global__ void k(int rows, const int* ends, const int* columns, const float* a, const float* x, float* y) {{
  {_I.replace("int i", "int r")}
  if (r < rows) {{
    float sum = 0;
    for (int j = ends[r]; j < ends[r + 1]; j++) sum += a[j] * x[columns[j]];
    y[r] = sum;
  }}
}}"""
_SEGMENTS = """__global__ void k(const float* x, const int* begin, float* y, int n) {
  __shared__ float s[128];
  int row = blockIdx.x, t = threadIdx.x;
  float sum = 0;
  for (int i = begin[row] + t; i < begin[row + 1]; i += 128) sum += x[i];
  s[t] = sum;
  __syncthreads();
  for (int h = 64; h > 0; h /= 2) { if (t < h) s[t] += s[t + h]; __syncthreads(); }
  if (t == 0) y[row] = s[0];
}"""
_COMPACT = f"""__global__ void k(const float* x, float* y, int* count, int n) {{
  {_I} if (i < n && x[i] > 0) y[atomicAdd(count, 1)] = x[i];
}}"""


@pytest.mark.parametrize(
    ("code", "bug", "assumed"),
    [
        (_CSR, ("r < rows", "r <= rows", "memory/out-of-bounds"), "ends: in [rows + 1]"),
        (_CSR.replace("const int* ends", "int* ends"), (" y[r]", " y[r + 1]", "memory/out-of-bounds"), "[rows + 1]"),
        (_SEGMENTS, ("s[t] = sum;\n  __syncthreads();", "s[t] = sum;", "memory/shared-race"), "grid = n; block = 128"),
        (_COMPACT, ("i < n &&", "i <= n &&", "memory/out-of-bounds"), "x: in [n]"),
    ],
)
def test_elements_that_integers_in_memory_choose(
    reader: Callable[[str], SourceFile], code: str, bug: tuple[str, str, str], assumed: str
) -> None:
    """Row pointers have one more element than rows. How long the rows are is not known, and not judged."""
    before, after, rule = bug
    findings, report = _check(reader(code))
    assert [one.rule for one in findings] == ["config/launch-inferred"], findings
    assert assumed in findings[0].message and "are not known" in findings[0].message
    assert report.status == "unreferenced"
    assert before in code
    findings, _ = _check(reader(code.replace(before, after)))
    assert {one.rule for one in findings if one.severity == "error"} == {rule}


_GATHER = f"""__global__ void k(float* y, const float* x, const long long* index, int rows, int width) {{
  {_I}
  if (i >= rows * width) return;
  y[i] = x[index[i / width] * width + i % width];
}}"""
_ROW_OF_BLOCK = """__global__ void k(const float* x, float* y, int rows, int cols) {
  for (int c = threadIdx.x; c < cols; c += blockDim.x) y[(size_t)blockIdx.x * cols + c] = x[(size_t)blockIdx.x * cols + c];
}"""
_TILES = """__global__ void k(const float* x, float* y, int n, int* next) {
  __shared__ int tile;
  while (true) {
    if (threadIdx.x == 0) tile = atomicAdd(next, 1);
    __syncthreads();
    int t = tile;
    __syncthreads();
    if (t >= (n + 63) / 64) return;
    for (int i = t * 64 + threadIdx.x; i < min(n, (t + 1) * 64); i += blockDim.x) y[i] = x[i];
  }
}"""


@pytest.mark.parametrize(
    ("code", "bug", "assumed"),
    [
        (_GATHER, ("i >= rows", "i > rows", "memory/out-of-bounds"), "grid = ceil_div(rows * width, 256)"),
        (_ROW_OF_BLOCK, ("c < cols", "c <= cols", "memory/out-of-bounds"), "y: out [rows * cols]; grid = rows"),
        (_TILES, ("min(n, (t + 1) * 64)", "(t + 1) * 64", "memory/out-of-bounds"), "next: inout [1]"),
    ],
)
def test_sizes_that_bound_threads_and_blocks(
    reader: Callable[[str], SourceFile], code: str, bug: tuple[str, str, str], assumed: str
) -> None:
    """Two sizes and no launch: the code shows of which there is a thread or a block for each, and counters begin at 0."""
    before, after, rule = bug
    findings, report = _check(reader(code))
    assert [one.rule for one in findings] == ["config/launch-inferred"], findings
    assert assumed in findings[0].message
    assert report.status == "unreferenced"
    assert before in code
    findings, _ = _check(reader(code.replace(before, after)))
    assert rule in {one.rule for one in findings}


def test_a_size_that_an_array_limits_may_be_smaller(reader: Callable[[str], SourceFile]) -> None:
    loop = "for (int k = -radius; k <= radius; k++) if (i + k >= 0 && i + k < n) sum += x[i + k] * taps[k + radius];"
    code = f"""__constant__ float taps[33];
    __global__ void k(const float* x, float* y, int n, int radius) {{
      {_I} if (i >= n) return;
      float sum = 0;
      {loop}
      y[i] = sum;
    }}"""
    findings, _ = _check(reader(code))
    assert [one.rule for one in findings] == ["config/launch-inferred"], findings
    findings, _ = _check(reader(code.replace("i >= n", "i > n")))
    assert "engine/not-executed" in {one.rule for one in findings}


@pytest.mark.parametrize(("passed", "errors"), [("n", True), ("n - 1", False)])
def test_a_program_may_pass_less_than_the_length_of_its_buffers(
    reader: Callable[[str], SourceFile], passed: str, errors: bool
) -> None:
    code = _COPY.replace("i < n", "i <= n")
    host = f"void f(const float* x, float* y, int n) {{ k<<<(n + 255) / 256, 256>>>(x, y, {passed}); }}"
    findings, _ = _check(reader(f"{code}\n{host}"))
    assert any(one.severity == "error" for one in findings) == errors
