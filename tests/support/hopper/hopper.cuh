typedef unsigned long long u64;
struct alignas(64) Map { char bytes[128]; };
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(u64* bar, int count) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(at(bar)), "r"(count) : "memory"); }
__device__ void inval(u64* bar) { asm volatile("mbarrier.inval.shared::cta.b64 [%0];" :: "r"(at(bar)) : "memory"); }
__device__ void expect(u64* bar, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(at(bar)), "r"(bytes) : "memory"); }
__device__ void arrive(u64* bar) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(bar)) : "memory"); }
__device__ void wait(u64* bar, int parity) {
  asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" :: "r"(at(bar)), "r"(parity) : "memory");
}
__device__ void load(void* to, const Map* map, int x, int y, u64* bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" :: "r"(at(to)), "l"(map), "r"(x), "r"(y), "r"(at(bar)) : "memory");
}
__device__ void store(const Map* map, int x, int y, const void* from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" :: "l"(map), "r"(x), "r"(y), "r"(at(from)) : "memory");
}
__device__ void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void store_wait() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ void fence_proxy() { asm volatile("fence.proxy.async;" ::: "memory"); }
__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int Groups> __device__ void wait_group() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(Groups) : "memory"); }
// Nothing that computes with the accumulators may move across: the compiler does not know that the product is asynchronous.
__device__ void keep(float (&d)[32]) { for (int i = 0; i < 32; ++i) asm volatile("" : "+f"(d[i]) :: "memory"); }
__device__ u64 descriptor(const void* p, u64 stride, u64 swizzle) {
  return ((at(p) & 0x3ffff) >> 4) | 1ull << 16 | (stride >> 4) << 32 | swizzle << 62;
}
// 64 x 64 += 64 x 16 by 16 x 64; A is K-major, B has the columns next to each other.
__device__ void multiply(float (&d)[32], u64 a, u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
    "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 1;"
    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
      "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),
      "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
      "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]) : "l"(a), "l"(b));
}
__device__ int row_of(int t, int i) { return 16 * (t / 32 % 4) + t % 32 / 4 + 8 * (i / 2 % 2); }
__device__ int column_of(int t, int i) { return 8 * (i / 4) + 2 * (t % 4) + i % 2; }
