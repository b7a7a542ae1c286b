"""Kernels with texture and surface parameters, nothing configured: they run, and bugs are found on their line."""

from __future__ import annotations

from pathlib import Path

from support.host_programs import bug_line, findings_of

from gpuemu_lsp.engine.findings import Severity

IMAGE = """
#include <cuda_runtime.h>
__global__ void scale(cudaTextureObject_t image, float* out, int width, int height) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (GUARD) {
    float4 pixel = tex2D<float4>(image, x / (float)width, y / (float)height);
    out[y * width + x] = pixel.x + pixel.w;  // bug
  }
}
int main() {
  int width = 40, height = 24;
  cudaTextureObject_t image;
  cudaTextureDesc how = {};
  how.normalizedCoords = true;
  how.filterMode = cudaFilterModeLinear;
  how.addressMode[0] = cudaAddressModeWrap;
  how.addressMode[1] = cudaAddressModeWrap;
  how.readMode = cudaReadModeNormalizedFloat;
  cudaResourceDesc what = {};
  cudaCreateTextureObject(&image, &what, &how, nullptr);
  float* out;
  cudaMalloc(&out, width * height * sizeof(float));
  dim3 block(16, 16), grid((width + 15) / 16, (height + 15) / 16);
  scale<<<grid, block>>>(image, out, width, height);
  float host[40 * 24];
  cudaMemcpy(host, out, sizeof(host), cudaMemcpyDeviceToHost);
}
"""
SURFACE = """
#include <cuda_runtime.h>
__global__ void shift(cudaSurfaceObject_t line) {
  int x = blockIdx.x * blockDim.x + threadIdx.x;
  float value;
  surf2Dread(&value, line, ((x + STEP) % 64) * (int)sizeof(float), 0);  // bug
  surf2Dwrite(value + 1.0f, line, x * (int)sizeof(float), 0);
}
int main() {
  cudaSurfaceObject_t line;
  cudaResourceDesc what = {};
  cudaCreateSurfaceObject(&line, &what);
  shift<<<1, 64>>>(line);
}
"""


def test_a_kernel_with_a_texture_runs_and_its_bug_is_found(tmp_path: Path) -> None:
    assert not findings_of(tmp_path, IMAGE.replace("GUARD", "x < width && y < height"))
    text = IMAGE.replace("GUARD", "x <= width && y < height")
    errors = [one for one in findings_of(tmp_path, text) if one.severity is Severity.ERROR]
    assert {one.place.range.start.line for one in errors} == {bug_line(text)}


def test_a_surface_that_is_changed_in_place(tmp_path: Path) -> None:
    assert not findings_of(tmp_path, SURFACE.replace("STEP", "0"))
    text = SURFACE.replace("STEP", "1")
    (found,) = findings_of(tmp_path, text)
    assert found.rule == "memory/global-race"
    assert found.place.range.start.line in (bug_line(text), bug_line(text) + 1)
