#include "hopper.cuh"
// A product of 64 x 256 by 256 x 64 in steps of 64, two stages ahead; the result is stored by a tensor map.
extern "C" __global__ void k(const __grid_constant__ Map a, const __grid_constant__ Map b, const __grid_constant__ Map y) {
  __shared__ alignas(1024) char sa[2][8192]; __shared__ alignas(1024) char sb[2][8192];
  __shared__ alignas(1024) char spare[8192]; __shared__ u64 full[2];
  int t = threadIdx.x;
  float* sy = (float*)sa;
  float d[32] = {};
  if (t == 0) {
    init(&full[0], 1); init(&full[1], 1);
    fence_proxy();
  }
  __syncthreads();
  for (int step = 0; step < 2; ++step) {
    if (t == 0) {
      expect(&full[step], 16384);
      load(sa[step], &a, step * 64, 0, &full[step]);
      load(sb[step], &b, 0, step * 64, &full[step]);
    }
  }
  if (y.bytes[127] == 77) spare[t] = 1;
#pragma unroll 1
  for (int step = 0; step < 4; ++step) {
    int stage = step % 2, phase = step / 2;
    wait(&full[stage], phase % 2);
    keep(d);
    fence();
    for (int k = 0; k < 4; ++k) {
      multiply(d, descriptor(sa[stage] + k * 32, 1024, 1), descriptor(sb[stage] + k * 16 * 128, 1024, 1));
    }
    commit();
    wait_group<0>();
    keep(d);
    if (t == 0 && step < 2) {
      expect(&full[stage], 16384);
      load(sa[stage], &a, (step + 2) * 64, 0, &full[stage]);
      load(sb[stage], &b, 0, (step + 2) * 64, &full[stage]);
    }
  }
  __syncthreads();
  for (int i = 0; i < 32; ++i) sy[row_of(t, i) * 64 + column_of(t, i)] = d[i];
  fence_proxy();
  __syncthreads();
  if (t == 0) {
    store(&y, 0, 0, sy);
    store_commit();
    store_wait();
  }
  __syncthreads();
  sy[t] = 0;
}
