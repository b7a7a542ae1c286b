// The same product of bf16 matrices twice: by wgmma with tiles that tensor maps bring, and by mma.sync with cp.async.
// A block computes 64 x 64 elements in steps of 64 along k, two stages; A is [M, K], B [K, N], the result [M, N].
typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void load(void* to, const Map* map, int x, int y, u64* bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
    :: "r"(at(to)), "l"(map), "r"(x), "r"(y), "r"(at(bar)) : "memory");
}
__device__ u64 descriptor(const void* p) {
  return ((at(p) & 0x3ffff) >> 4) | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}
__device__ void keep(float (&d)[32]) { for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(d[i]) :: "memory"); }
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
__device__ void multiply(float (&d)[32], u64 a, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
    "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
    "%32, %33, 1, 1, 1, 0, 1;"
    : D4(0), D4(4), D4(8), D4(12), D4(16), D4(20), D4(24), D4(28) : "l"(a), "l"(b));
}

extern "C" __global__ void by_wgmma(const __grid_constant__ Map a, const __grid_constant__ Map b, float* y, int n, int k) {
  __shared__ alignas(1024) char sa[2][8192];
  __shared__ alignas(1024) char sb[2][8192];
  __shared__ u64 full[2];
  int t = threadIdx.x, row = blockIdx.y * 64, column = blockIdx.x * 64, steps = k / 64;
  float d[32] = {};
  auto fill = [&](int step) {
    int stage = step % 2;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16384;" :: "r"(at(&full[stage])) : "memory");
    load(sa[stage], &a, step * 64, row, &full[stage]);
    load(sb[stage], &b, column, step * 64, &full[stage]);
  };
  if (t == 0) {
    for (int i = 0; i < 2; ++i) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at(&full[i])) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    for (int step = 0; step < 2 && step < steps; ++step) fill(step);
  }
  __syncthreads();
  for (int step = 0; step < steps; ++step) {
    int stage = step % 2;
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }"
      :: "r"(at(&full[stage])), "r"(step / 2 % 2) : "memory");
    keep(d);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int i = 0; i < 4; ++i) multiply(d, descriptor(sa[stage] + i * 32), descriptor(sb[stage] + i * 2048));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    keep(d);
    __syncthreads();
    if (t == 0 && step + 2 < steps) fill(step + 2);
  }
  for (int i = 0; i < 32; ++i) {
    int r = row + 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2), c = column + 8 * (i / 4) + 2 * (t % 4) + i % 2;
    y[r * n + c] = d[i];
  }
}

extern "C" __global__ void by_mma(const unsigned short* a, const unsigned short* b, float* y, int n, int k) {
  // Rows of 64 elements and 8 more, so that ldmatrix reads other banks in each row.
  __shared__ alignas(128) unsigned short sa[2][64][72];
  __shared__ alignas(128) unsigned short sb[2][64][72];
  int t = threadIdx.x, lane = t % 32, row = blockIdx.y * 64, column = blockIdx.x * 64, steps = k / 64;
  float d[8][4] = {};
  auto fill = [&](int step) {
    for (int i = t; i < 512 && step < steps; i += 128) {
      int r = i / 8, c = i % 8 * 8;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
        :: "r"(at(&sa[step % 2][r][c])), "l"(a + (row + r) * k + step * 64 + c) : "memory");
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
        :: "r"(at(&sb[step % 2][r][c])), "l"(b + (step * 64 + r) * n + column + c) : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  fill(0);
  for (int step = 0; step < steps; ++step) {
    fill(step + 1);
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    int stage = step % 2;
    for (int i = 0; i < 4; ++i) {
      unsigned f[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
        : "r"(at(&sa[stage][t / 32 * 16 + lane % 16][i * 16 + lane / 16 * 8])) : "memory");
      for (int j = 0; j < 8; j += 2) {
        unsigned g[4];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
          : "=r"(g[0]), "=r"(g[1]), "=r"(g[2]), "=r"(g[3])
          : "r"(at(&sb[stage][i * 16 + lane % 16][(j + lane / 16) * 8])) : "memory");
        for (int h = 0; h < 2; ++h)
          asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
            "{%0, %1, %2, %3};"
            : "+f"(d[j + h][0]), "+f"(d[j + h][1]), "+f"(d[j + h][2]), "+f"(d[j + h][3])
            : "r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(f[3]), "r"(g[2 * h]), "r"(g[2 * h + 1]));
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 8; ++j)
    for (int i = 0; i < 4; ++i)
      y[(row + t / 32 * 16 + lane / 4 + i / 2 * 8) * n + column + j * 8 + lane % 4 * 2 + i % 2] = d[j][i];
}
