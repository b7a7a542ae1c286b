"""Launches of a program whose pointers share an allocation, or begin inside of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

SHIFT = """
__global__ void shift(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i + 1 < n) out[i] = in[i + NEXT];  // wrong
}
int main() {
  const int n = 1 << 14;
  float* x;
  cudaMalloc(&x, n * sizeof(float));
  cudaMemset(x, 0, n * sizeof(float));
  shift<<<(n + 255) / 256, 256>>>(x, x, n);
}
"""
HALO = """
__global__ void blur(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = (in[i - 1] + in[i] + in[i + 1]) / 3.0f;  // wrong
}
int main() {
  const int n = 3000;
  float *in, *out;
  cudaMalloc(&in, (n + HALO) * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cudaMemset(in, 0, (n + HALO) * sizeof(float));
  blur<<<(n + 255) / 256, 256>>>(in + 1, out, n);
}
"""
VECTORS = """
__global__ void copy(const float4* in, float4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i];  // wrong
}
int main() {
  const int n = 1 << 12;
  float *in, *out;
  cudaMalloc(&in, (n + 4) * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cudaMemset(in, 0, (n + 4) * sizeof(float));
  copy<<<(n / 4 + 127) / 128, 128>>>((const float4*)(in + FIRST), (float4*)out, n / 4);
}
"""
HALVES = """
__global__ void increment(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] + 1.0f;  // wrong
}
void pass(const float* host, int n) {
  float* both;
  cudaMalloc(&both, 2 * n * sizeof(float));
  cudaMemcpy(both, host, 2 * n * sizeof(float), cudaMemcpyHostToDevice);
  increment<<<(n + 127) / 128, 128>>>(both, both + n, n + MORE);
  cudaDeviceSynchronize();
}
"""

PAGES = """
#include <stdlib.h>
__global__ void gather(const float* pool, const int* order, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = pool[order[i / 16] * 16 + i % 16];
}
int main() {
  const int n = 480;
  int order[n / 16];
  float values[16] = {1.0f};
  for (int i = 0; i < n / 16; i++) order[i] = (i * 7 + 3) % (n / 16);
  float *pool, *out;
  int* pages;
  cudaMalloc(&pool, n * sizeof(float));
  cudaMalloc(&out, n * sizeof(float));
  cudaMalloc(&pages, sizeof(order));
  cudaMemcpy(pages, order, sizeof(order), cudaMemcpyHostToDevice);
  for (int i = 0; i < n / 16; i++) {
    const size_t begin = (size_t)order[i] * 16;
    FILL
  }
  gather<<<(n + 127) / 128, 128>>>(pool, pages, out, n);
  return cudaDeviceSynchronize();
}
"""
FILLS = (
    "cudaMemcpy(pool + begin, values, sizeof(values), cudaMemcpyHostToDevice);",
    "cudaMemcpy(&pool[rand() % n], values, sizeof(values), cudaMemcpyHostToDevice);",
    "cudaMemset(begin + pool, 0, sizeof(values));",
)


def _errors(folder: Path, text: str) -> list[Finding]:
    source = folder / "program.cu"
    source.write_text(text)
    (request,) = collect([str(source)], CheckOptions(), folder).requests
    return [one for one in check_kernel(request) if isinstance(one, Finding) and one.severity is Severity.ERROR]


@pytest.mark.parametrize(
    ("program", "name", "wrong", "right", "rule"),
    [
        (SHIFT, "NEXT", "1", "0", "memory/global-race"),
        (HALO, "HALO", "1", "2", "memory/out-of-bounds"),
        (VECTORS, "FIRST", "1", "4", "memory/misaligned"),
        (HALVES, "MORE", "1", "0", "memory/out-of-bounds"),
    ],
)
def test_a_pointer_has_its_place_in_the_allocation(
    tmp_path: Path, program: str, name: str, wrong: str, right: str, rule: str
) -> None:
    assert _errors(tmp_path, program.replace(name, right)) == []
    text = program.replace(name, wrong)
    found = _errors(tmp_path, text)
    line = next(number for number, line in enumerate(text.split("\n")) if "// wrong" in line)
    assert rule in {one.rule for one in found}
    assert {one.place.range.start.line for one in found} == {line}


def test_elements_are_counted_from_the_pointer(tmp_path: Path) -> None:
    messages = {one.message for one in _errors(tmp_path, HALO.replace("HALO", "1"))}
    assert messages == {"read of in[3000] is out of bounds: in points to element 1 of 3001 elements"}


@pytest.mark.parametrize("fill", FILLS)
def test_what_is_written_at_an_address_that_is_not_understood_is_not_uninitialized(tmp_path: Path, fill: str) -> None:
    assert _errors(tmp_path, PAGES.replace("FILL", fill)) == []


def test_memory_that_nothing_fills_is_uninitialized(tmp_path: Path) -> None:
    assert {one.rule for one in _errors(tmp_path, PAGES.replace("FILL", ";"))} == {"memory/uninitialized-read"}
