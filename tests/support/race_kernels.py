"""Planted races, each with a correct counterpart that differs only in what orders the accesses.

``FIX`` is replaced by what differs. Every kernel takes ``(const int* x, int* y, int* z, int n)``: ``n`` is the number of
threads in the grid, ``x`` and ``y`` have 4 * n elements, ``z`` has 1024 zeros. The expected lines of the two accesses are
marked ``// one`` and ``// other``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PlantedRace:
    """A kernel with a race, and its correct counterpart.

    ``whole_warps``: it is written for blocks of whole warps. With fewer than ``least`` threads it has no race.
    """

    name: str
    space: str
    text: str
    bug: str
    fix: str
    whole_warps: bool = False
    least: int = 32
    blocks: int = 3

    def source(self, fixed: bool) -> str:
        body = self.text.replace("FIX", self.fix if fixed else self.bug)
        return HEAD + body + "}\n"

    @property
    def lines(self) -> frozenset[int]:
        """Lines of both accesses, from 1."""
        text = self.source(fixed=False).split("\n")
        return frozenset(number for number, line in enumerate(text, 1) if "// one" in line or "// other" in line)


HEAD = """extern "C" __global__ void k(const int* x, int* y, int* z, int n) {
  const int t = threadIdx.x, b = blockIdx.x, m = blockDim.x, i = b * m + t;
"""

SYNC = "__syncthreads();"
WARP = "__syncwarp();"

PLANTED = [
    PlantedRace("shared reverse", "shared", """
  __shared__ int s[1024];
  s[t] = x[i];  // one
  FIX
  y[i] = s[m - 1 - t];  // other
""", "", SYNC),
    PlantedRace("one thread writes, all read", "shared", """
  __shared__ int s;
  if (t == 0) s = x[b];  // one
  FIX
  y[i] = s + t;  // other
""", "", SYNC),
    PlantedRace("each warp counts in a part that it has cleared", "shared", """
  __shared__ int s[32][32];
  s[t / 32][t % 32] = 0;  // one
  FIX
  atomicAdd(&s[t / 32][t % 32 / 4], 1);  // other
  __syncthreads();
  y[i] = s[t / 32][t % 32];
""", "", WARP, whole_warps=True),
    PlantedRace("all have read, the last thread writes", "shared", """
  __shared__ int s;
  if (t == 0) s = x[b];
  __syncthreads();
  const int v = s;  // one
  FIX
  if (t == m - 1) s = v + x[i] + 7;  // other
  __syncthreads();
  y[i] = v + s;
""", "", SYNC, least=64),
    PlantedRace("all have read, the first thread writes", "shared", """
  __shared__ int s;
  if (t == 0) s = x[b];
  __syncthreads();
  const int v = s;  // one
  FIX
  if (t == 0) s = v + x[i] + 7;  // other
  __syncthreads();
  y[i] = v + s;
""", "", SYNC),
    PlantedRace("end of the loop", "shared", """
  __shared__ int s[1024];
  int sum = 0;
  for (int k = 0; k < 3; ++k) {
    s[t] = x[i] + k;  // one
    __syncthreads();
    sum += s[m - 1 - t];  // other
    FIX
  }
  y[i] = sum;
""", "", SYNC),
    PlantedRace("barrier that is left out once", "shared", """
  __shared__ int s[1024];
  int sum = 0;
  for (int k = 0; k < 3; ++k) {
    s[t] = x[i] + k;  // one
    if (k != z[0] + FIX) __syncthreads();
    sum += s[m - 1 - t];  // other
    __syncthreads();
  }
  y[i] = sum;
""", "1", "7"),
    PlantedRace("scan in one phase", "shared", """
  __shared__ int s[1024];
  s[t] = x[i];
  __syncthreads();
  for (int d = 1; d < m; d *= 2) {
    int v = t >= d ? s[t - d] : 0;  // one
    FIX
    s[t] += v;  // other
    __syncthreads();
  }
  y[i] = s[t];
""", "", SYNC),
    PlantedRace("tree reduction without barriers", "shared", """
  __shared__ int s[1024];
  s[t] = x[i];  // one
  for (int d = 512; d > 0; d /= 2) {
    FIX
    if (t < d && t + d < m) s[t] += s[t + d];  // other
  }
  if (t == 0) y[b] = s[0];
""", "", SYNC),
    PlantedRace("double buffer", "shared", """
  __shared__ int s[2][1024];
  int sum = 0;
  for (int k = 0; k < 4; ++k) {
    s[FIX][t] = x[i] * k + t;  // one
    __syncthreads();
    sum += s[k & 1][m - 1 - t];  // other
  }
  y[i] = sum;
""", "k & 1 & 0", "k & 1"),
    PlantedRace("warps of a block in step", "shared", """
  __shared__ int s[1024];
  s[t] = x[i];  // one
  FIX
  y[i] = s[t ^ 1];  // other
""", "", WARP, whole_warps=True),
    PlantedRace("volatile warp reduction", "shared", """
  __shared__ int buffer[1024];
  volatile int* s = buffer + (t & ~31);
  const int lane = t & 31;
  s[lane] = x[i];  // one
  for (int d = 16; d > 0; d /= 2) {
    FIX
    if (lane < d) s[lane] += s[lane + d];  // other
  }
  if (lane == 0) y[i] = s[0];
""", "", WARP, whole_warps=True),
    PlantedRace("barrier of the wrong kind", "shared", """
  __shared__ int s[1024];
  s[t] = x[i];  // one
  FIX
  y[i] = s[(t + 32) % m];  // other
""", WARP, SYNC, least=33),
    PlantedRace("counter read too early", "shared", """
  __shared__ int s;
  if (t == 0) s = 0;
  __syncthreads();
  if (x[i] & 1) atomicAdd(&s, 1);  // one
  FIX
  y[i] = s;  // other
""", "", SYNC),
    PlantedRace("counter not yet cleared", "shared", """
  __shared__ int s;
  if (t == 0) s = 0;  // one
  FIX
  atomicAdd(&s, x[i]);  // other
  __syncthreads();
  y[i] = s;
""", "", SYNC),
    PlantedRace("plain increment", "shared", """
  __shared__ int s[8];
  if (t < 8) s[t] = 0;
  __syncthreads();
  FIX  // one // other
  __syncthreads();
  if (t < 8) y[8 * b + t] = s[t];
""", "s[x[i] & 7] += 1;", "atomicAdd(&s[x[i] & 7], 1);"),
    PlantedRace("neighbouring bytes, one too far", "shared", """
  __shared__ char s[1032];
  s[t + 1] = 0;
  __syncthreads();
  s[t FIX] = x[i] + 1;  // one
  y[i] = s[t];  // other
""", "+ 1", "+ 0"),
    PlantedRace("halves of a word", "shared", """
  __shared__ short s[1024];
  s[t] = x[i];  // one
  y[i] = s[FIX];  // other
""", "t ^ 1", "t", whole_warps=True),
    PlantedRace("vectors side by side", "shared", """
  __shared__ __align__(16) int s[4 * 1024 + 4];
  *(int4*)(s + 4 * t) = make_int4(t, i, 1, 2);  // one
  y[i] = s[4 * t + FIX];  // other
""", "4", "3", whole_warps=True),
    PlantedRace("shared memory used again", "shared", """
  __shared__ int s[1024];
  s[t] = x[i];
  __syncthreads();
  int v = s[m - 1 - t];  // one
  FIX
  s[t] = v;  // other
  __syncthreads();
  y[i] = s[(t + 1) % m];
""", "", SYNC),
    PlantedRace("tiles of a warp", "shared", """
  __shared__ int s[1024];
  const int lane = t & 31;
  const unsigned mask = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  s[t] = x[i];  // one
  __syncwarp(mask);
  y[i] = s[t ^ FIX];  // other
""", "16", "8", whole_warps=True),
    PlantedRace("half a warp reads what one of its lanes writes again", "shared", """
  __shared__ int s[64];
  const unsigned half = 0xffffu << t / 16 % 2 * 16;
  int sum = 0;
  for (int round = 0; round < 3; round++) {
    if (t % 16 == 0) s[t / 16] = x[i] + round * 1000;  // one
    __syncwarp(half);
    sum += s[t / 16];  // other
    FIX
  }
  y[i] = sum;
""", "", "__syncwarp(half);", whole_warps=True),
    PlantedRace("four lanes read what one of them adds to", "shared", """
  __shared__ int s[256];
  const unsigned four = 15u << t % 32 / 4 * 4;
  int sum = 0;
  for (int round = 0; round < 3; round++) {
    if (t % 4 == 2) s[t / 4] = x[i] + round * 1000;
    __syncwarp(four);
    sum += s[t / 4];  // one
    FIX
    if (t % 4 == 1) s[t / 4] += sum + 1;  // other
    __syncwarp(four);
  }
  y[i] = sum;
""", "", "__syncwarp(four);", whole_warps=True),
    PlantedRace("half a warp counts", "shared", """
  __shared__ int s[64];
  const unsigned half = 0xffffu << t / 16 % 2 * 16;
  if (t % 16 == 0) s[t / 16] = 0;
  __syncwarp(half);
  atomicAdd(&s[t / 16], x[i]);  // one
  FIX
  if (t % 16 == 0) y[i] = s[t / 16];  // other
""", "", "__syncwarp(half);", whole_warps=True),
    PlantedRace("named barrier of one half", "shared", """
  __shared__ int s[1024];
  s[t] = x[i];  // one
  const int half = t / 32 % 2;
  const int threads = m / 64 * 32 + (half == 0 ? m % 64 : 0);
  asm volatile("bar.sync %0, %1;" ::"r"(1 + half), "r"(threads) : "memory");
  int other = FIX;
  y[i] = other < m ? s[other] : 0;  // other
""", "t ^ 32", "t ^ 1", whole_warps=True, least=64),
    PlantedRace("different values to one place", "shared", """
  __shared__ int s;
  if (t < 2) s = FIX;  // one // other
  __syncthreads();
  y[i] = s;
""", "t", "7"),
    PlantedRace("flag before its data", "shared", """
  __shared__ volatile int flag;
  __shared__ int s[2];
  if (t == 0) flag = 0;
  __syncthreads();
  if (t == 0) {
    s[0] = x[b];  // one
    FIX
    flag = 1;
  }
  if (t == m - 1) {
    while (flag == 0) {}
    __threadfence_block();
    y[b] = s[0];  // other
  }
""", "", "__threadfence_block();"),
    PlantedRace("barrier object used before it is made", "shared", """
  __shared__ unsigned long long s;
  const unsigned at = (unsigned)__cvta_generic_to_shared(&s);
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at), "r"(m) : "memory");  // one
  FIX
  unsigned long long state;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(at) : "memory");  // other
  y[i] = 0;
""", "", SYNC),
    PlantedRace("volatile sums without a fence", "global", """
  volatile int* sums = y;
  if (t != 0) return;
  int before = 0;
  if (b > 0) {
    while (atomicAdd(&z[b - 1], 0) == 0) {}
    before = sums[b - 1];  // other
  }
  sums[b] = before + 1;  // one
  FIX
  atomicExch(&z[b], 1);
""", "", "__threadfence();"),
    PlantedRace("last block without a fence", "global", """
  __shared__ int last;
  if (t == 0) {
    y[b] = x[b] + 1;  // one
    FIX
    last = atomicAdd(z, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && t < gridDim.x) y[gridDim.x + t] = ((volatile int*)y)[t];  // other
""", "", "__threadfence();"),
    PlantedRace("flag between blocks", "global", """
  if (t != 0) return;
  if (b > 0) while (atomicAdd(&z[b - 1], 0) == 0) {}
  y[b] = (b > 0 ? y[b - 1] : 0) + 1;  // one // other
  FIX
  atomicExch(&z[b], 1);
""", "", "__threadfence();"),
    PlantedRace("lock around too little", "global", """
  if (t == 0) {
    int v = x[b] + 1;
    FIX
    while (atomicCAS(&z[0], 0, 1) != 0) {}
    __threadfence();
    z[1] += v;  // one
    __threadfence();
    atomicExch(&z[0], 0);
  }
""", "z[1] += 1;  // other", "z[2 + b] += 1;"),
    PlantedRace("histogram with plain increments", "global", """
  FIX  // one // other
""", "z[x[i] & 7] += 1;", "atomicAdd(&z[x[i] & 7], 1);"),
    PlantedRace("neighbour across blocks", "global", """
  y[i] = t;  // one
  __syncthreads();
  z[0 * i + 1023 - i % 1000] = y[FIX];  // other
""", "(i + m) % n", "b * m + (t + 1) % m"),
    PlantedRace("in place with a shift", "global", """
  y[i] = y[FIX] + 1;  // one // other
""", "(i + 1) % n", "i"),
    PlantedRace("grid stride that overlaps", "global", """
  for (int j = i; j < 2 * n; j += FIX) y[j] = i + 1;  // one // other
""", "n - 1", "n"),
    PlantedRace("sum by the first thread of each block", "global", """
  if (t == 0) FIX  // one // other
""", "z[0] += x[b] + 1;", "atomicAdd(&z[0], x[b] + 1);"),
    PlantedRace("weak store next to an atomic", "global", """
  atomicAdd(&z[0], 1);  // one
  if (i == n - 1) z[FIX] = 0;  // other
""", "0", "1"),
    PlantedRace("halves of a buffer", "global", """
  if (b % 2 == 0) y[i] = 1; else y[n + i - FIX] = 2;  // one // other
""", "n - m", "0"),
    PlantedRace("bytes of one word", "global", """
  ((char*)y)[FIX] = i + 1;  // one // other
""", "i / 2", "i"),
    PlantedRace("compare and swap without a loop's care", "global", """
  int old = z[0], assumed;
  do { assumed = old; old = atomicCAS(z, assumed, assumed + 1); } while (old != assumed);  // one
  FIX
""", "y[i] = z[0];  // other", "y[i] = old;"),
]  # fmt: skip
