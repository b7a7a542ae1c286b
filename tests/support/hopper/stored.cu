#include "hopper.cuh"
// The threads double A in shared memory before they multiply it, and halve what they have accumulated after each step.
extern "C" __global__ void k(const __grid_constant__ Map a, const __grid_constant__ Map b, const __grid_constant__ Map y) {
  __shared__ alignas(1024) char sa[8192]; __shared__ alignas(1024) char sb[8192];
  __shared__ alignas(1024) float sy[64 * 64]; __shared__ u64 bar;
  int t = threadIdx.x;
  float d[32] = {};
  if (t == 0) {
    init(&bar, 1);
    fence_proxy();
  }
  __syncthreads();
#pragma unroll 1
  for (int step = 0; step < 4; ++step) {
    if (t == 0) {
      expect(&bar, 16384);
      load(sa, &a, step * 64, 0, &bar);
      load(sb, &b, 0, step * 64, &bar);
    }
    wait(&bar, step % 2);
    // bf16: one more in the exponent, except for zeros.
    for (int i = t; i < 4096; i += 128) {
      unsigned short v = ((unsigned short*)sa)[i];
      ((unsigned short*)sa)[i] = v & 0x7fff ? v + 0x80 : v;
    }
    fence_proxy();
    __syncthreads();
    for (int i = 0; i < 32; ++i) d[i] *= 2;
    keep(d);
    fence();
    for (int k = 0; k < 4; ++k) multiply(d, descriptor(sa + k * 32, 1024, 1), descriptor(sb + k * 16 * 128, 1024, 1));
    commit();
    wait_group<0>();
    keep(d);
    for (int i = 0; i < 32; ++i) d[i] *= 0.5f;
    __syncthreads();
  }
  for (int i = 0; i < 32; ++i) sy[row_of(t, i) * 64 + column_of(t, i)] = d[i];
  fence_proxy();
  __syncthreads();
  if (t == 0) {
    store(&y, 0, 0, sy);
    store_commit();
    store_wait();
  }
}
