#include "hopper.cuh"
// The same product with a warp that loads, and a warp group that multiplies: two stages, each full or empty.
extern "C" __global__ void k(const __grid_constant__ Map a, const __grid_constant__ Map b, const __grid_constant__ Map y) {
  __shared__ alignas(1024) char sa[2][8192]; __shared__ alignas(1024) char sb[2][8192];
  __shared__ u64 full[2]; __shared__ u64 empty[2];
  int t = threadIdx.x;
  float* sy = (float*)sa;
  if (t == 0) {
    for (int i = 0; i < 2; ++i) { init(&full[i], 1); init(&empty[i], 1); }
    fence_proxy();
  }
  __syncthreads();
  if (t >= 128) {
    if (t == 128) {
#pragma unroll 1
      for (int step = 0; step < 4; ++step) {
        int stage = step % 2;
        wait(&empty[stage], (step / 2 + 1) % 2);
        expect(&full[stage], 16384);
        load(sa[stage], &a, step * 64, 0, &full[stage]);
        load(sb[stage], &b, 0, step * 64, &full[stage]);
      }
    }
    return;
  }
  float d[32] = {};
#pragma unroll 1
  for (int step = 0; step < 4; ++step) {
    int stage = step % 2;
    wait(&full[stage], step / 2 % 2);
    keep(d);
    fence();
    for (int k = 0; k < 4; ++k) {
      multiply(d, descriptor(sa[stage] + k * 32, 1024, 1), descriptor(sb[stage] + k * 16 * 128, 1024, 1));
    }
    commit();
    wait_group<0>();
    keep(d);
    if (t == 0) arrive(&empty[stage]);
  }
  asm volatile("bar.sync 1, 128;" ::: "memory");
  for (int i = 0; i < 32; ++i) sy[row_of(t, i) * 64 + column_of(t, i)] = d[i];
  fence_proxy();
  asm volatile("bar.sync 1, 128;" ::: "memory");
  if (t == 0) {
    store(&y, 0, 0, sy);
    store_commit();
    store_wait();
  }
}
