"""Planted memory and synchronisation bugs, each with a correct counterpart that differs in one place.

``FIX`` is replaced by what differs. Every kernel takes ``(const int* x, int* y, int* z, int n)``: ``x`` has ``n`` numbers
below 1000, ``y`` has ``n`` uninitialised elements, ``z`` has 1024 zeros; the last block is ragged. A block has four bytes
of dynamic shared memory per thread. The lines on which the finding may be are marked ``// here``.
"""

from __future__ import annotations

from dataclasses import dataclass

OUT, MISALIGNED, UNSET = "memory/out-of-bounds", "memory/misaligned", "memory/uninitialized-read"
NULL, MASK, TRAP = "memory/null-pointer", "sync/missing-warp-mask", "sync/trap"
BARRIER, DEADLOCK, HANG = "sync/barrier-divergence", "sync/deadlock", "sync/hang"


@dataclass(frozen=True)
class PlantedFault:
    """A kernel with a bug, and its correct counterpart.

    ``whole_warps``: it is written for blocks of whole warps; ``least``: of so many threads or more.
    """

    name: str
    rule: str
    text: str
    bug: str
    fix: str
    whole_warps: bool = False
    least: int = 1

    def source(self, fixed: bool) -> str:
        return HEAD + self.text.replace("FIX", self.fix if fixed else self.bug) + "}\n"

    @property
    def lines(self) -> frozenset[int]:
        """Lines on which the finding may be, from 1."""
        return frozenset(at for at, line in enumerate(self.source(fixed=False).split("\n"), 1) if "// here" in line)


HEAD = """struct Point { int a, b, c; };
__constant__ int table[16] = {1, 2, 3};
__device__ int bank[64];
extern "C" __global__ void k(const int* x, int* y, int* z, int n) {
  const int t = threadIdx.x, b = blockIdx.x, m = blockDim.x, i = b * m + t;
"""

FAULTS = [
    PlantedFault("guard one too far", OUT, """
  if (i FIX n) y[i] = 1;  // here
""", "<=", "<"),
    PlantedFault("no guard", OUT, """
  FIX
    y[i] = t;  // here
""", "", "if (i < n)"),
    PlantedFault("left neighbour of the first", OUT, """
  if (i < n) y[i] = x[FIX];  // here
""", "i - 1", "i > 0 ? i - 1 : 0"),
    PlantedFault("right neighbour of the last", OUT, """
  if (i < n) y[i] = x[i + 1 < FIX ? i + 1 : i];  // here
""", "n + 1", "n"),
    PlantedFault("gather", OUT, """
  if (i < n) y[i] = x[x[i] FIX];  // here
""", "+ n", "% n"),
    PlantedFault("scatter with atomics", OUT, """
  if (i < n) atomicAdd(&z[(x[i] | 512) * FIX], 1);  // here
""", "2", "1"),
    PlantedFault("vector across the end", OUT, """
  if (4 * i + FIX < n) ((int4*)y)[i] = make_int4(1, 2, 3, 4);  // here
""", "0", "3"),
    PlantedFault("last member of a structure", OUT, """
  if (3 * i + FIX < n) ((Point*)y)[i].c = i;  // here
""", "0", "2"),
    PlantedFault("byte behind the end", OUT, """
  if (i == 0) ((char*)y)[4 * n + FIX] = 1;  // here
""", "0", "-1"),
    PlantedFault("rows too wide", OUT, """
  if (i < n) y[i / 8 * FIX + i % 8] = i;  // here
""", "9", "8"),
    PlantedFault("strided loop too long", OUT, """
  for (int j = i; j < FIX; j += m * gridDim.x) y[j] = j;  // here
""", "n + 1", "n"),
    PlantedFault("counts down past the start", OUT, """
  if (i == 0)
    for (int j = n - 1; j >= FIX; --j) y[j] = x[j];  // here
""", "-1", "0"),
    PlantedFault("cached load behind the end", OUT, """
  if (i < n) y[i] = __ldg(x + i + FIX);  // here
""", "1", "0"),
    PlantedFault("shared array shorter than the block", OUT, """
  __shared__ int s[FIX];
  s[t] = i;  // here
  __syncthreads();
  if (i < n) y[i] = s[m - 1 - t];  // here
""", "31", "1024"),
    PlantedFault("before a shared array", OUT, """
  __shared__ int s[1024];
  s[t] = i;
  __syncthreads();
  if (i < n) y[i] = s[t - FIX];  // here
""", "1", "0"),
    PlantedFault("from one shared array into the next", OUT, """
  __shared__ int s[1024], u[1024];
  s[t] = u[t] = i;
  __syncthreads();
  if (i < n) y[i] = s[t FIX] + u[t];  // here
""", "+ (t < m - 1 ? 0 : 1025 - m)", ""),
    PlantedFault("behind dynamic shared memory", OUT, """
  extern __shared__ int d[];
  d[t + FIX] = i;  // here
  if (i < n) y[i] = d[t + FIX];  // here
""", "1", "0"),
    PlantedFault("two tiles in the space of one", OUT, """
  extern __shared__ int d[];
  int* second = d + FIX * m;
  second[t] = i;  // here
  if (i < n) y[i] = second[t];  // here
""", "1", "0"),
    PlantedFault("behind an array of the thread", OUT, """
  int a[8];
  for (int k = 0; k < 8; ++k) a[k] = x[k];
  if (i < n) y[i] = a[(x[i] & 7) FIX];  // here
""", "+ (1 << 24)", ""),
    PlantedFault("behind a constant table", OUT, """
  if (i < n) y[i] = table[(x[i] | 15) & 15 FIX];  // here
""", "+ 1 | 16", ""),
    PlantedFault("behind a global table", OUT, """
  if (i < n) atomicAdd(&bank[x[i] % FIX], 1);  // here
""", "80", "64"),
    PlantedFault("memory used after it was freed", OUT, """
  int* p = (int*)malloc(16);
  p[t & 3] = i;
  FIX
  if (i < n) y[i] = p[t & 3];  // here
""", "free(p);", ""),
    PlantedFault("odd element as a pair", MISALIGNED, """
  if (i < n / 8) *(long long*)(y + 2 * i + FIX) = 1;  // here
""", "1", "0"),
    PlantedFault("word at a byte offset", MISALIGNED, """
  if (i < n / 2) *(int*)((char*)y + 4 * i + FIX) = 1;  // here
""", "2", "0"),
    PlantedFault("shared bytes read as a word", MISALIGNED, """
  __shared__ __align__(16) char s[4112];
  for (int k = 0; k < 4; ++k) s[4 * t + k] = k;
  if (t == 0) for (int k = 0; k < 4; ++k) s[4 * m + k] = k;
  __syncthreads();
  if (i < n) y[i] = *(int*)(s + 4 * t + FIX);  // here
""", "1", "0"),
    PlantedFault("null pointer", NULL, """
  const int* p = (const int*)((size_t)(x[0] FIX 0) * (size_t)x);
  if (i < n) y[i] = *p;  // here
""", "<", ">="),
    PlantedFault("output used as an accumulator", UNSET, """
  if (i < n) y[i] FIX x[i];  // here
""", "+=", "="),
    PlantedFault("shared tail not set", UNSET, """
  __shared__ int s[1024];
  if (t FIX m - 1) s[t] = i;
  __syncthreads();
  if (i < n) y[i] = s[m - 1 - t];  // here
""", "<", "<="),
    PlantedFault("neighbour behind the tile", UNSET, """
  __shared__ int s[1026];
  s[t] = i;
  __syncthreads();
  if (i < n) y[i] = t + 1 < FIX ? s[t + 1] : 0;  // here
""", "m + 1", "m"),
    PlantedFault("first element of an own array", UNSET, """
  int a[8];
  for (int k = FIX; k < 8; ++k) a[k] = x[k] + t;
  if (i < n) y[i] = a[x[i] & 7];  // here
""", "1", "0"),
    PlantedFault("memory from malloc", UNSET, """
  int* p = (int*)malloc(16);
  FIX
  if (i < n) y[i] = p[1] + t;  // here
""", "", "p[1] = 0;"),
    PlantedFault("barrier for one half", BARRIER, """
  if (FIX)
    __syncthreads();  // here
  if (i < n) y[i] = t;
""", "t < m / 2", "n > 0"),
    PlantedFault("return before a barrier", BARRIER, """
  __shared__ int s[1024];
  if (i >= FIX) return;
  s[t] = i;
  __syncthreads();  // here
  if (i < n) y[i] = s[t];
""", "n", "1 << 20"),
    PlantedFault("one thread goes round once more", BARRIER, """
  __shared__ int s[1024];
  for (int k = 0; k < 2 + (t == 0) * FIX; ++k) {
    s[t] = k;
    __syncthreads();  // here
  }
  if (i < n) y[i] = s[t];
""", "1", "0"),
    PlantedFault("barrier waits for more threads than there are", DEADLOCK, """
  asm volatile("bar.sync 1, %0;" ::"r"(m + FIX) : "memory");  // here
  if (i < n) y[i] = t;
""", "32", "0", whole_warps=True),
    PlantedFault("two barriers the wrong way round", DEADLOCK, """
  if (t < FIX) asm volatile("bar.sync 1, %0;" ::"r"(m) : "memory");  // here
  asm volatile("bar.sync 2, %0;" ::"r"(m) : "memory");  // here
  if (t >= FIX) asm volatile("bar.sync 1, %0;" ::"r"(m) : "memory");  // here
  if (i < n) y[i] = t;
""", "32", "2048", whole_warps=True, least=64),
    PlantedFault("mask without the lane itself", MASK, """
  int v = __shfl_xor_sync(FIX, t, 1);  // here
  if (i < n) y[i] = v;
""", "0x0000ffffu", "0xffffffffu", whole_warps=True),
    PlantedFault("shuffle in a branch", MASK, """
  int v = t;
  if ((t & 31) < FIX) v = __shfl_down_sync(0xffffffffu, v, 16);  // here
  if (i < n) y[i] = v;
""", "20", "32", whole_warps=True),
    PlantedFault("vote in a branch", MASK, """
  unsigned v = 0;
  if ((t & 31) < FIX) v = __ballot_sync(0xffffffffu, x[t & 7] > 3);  // here
  if (i < n) y[i] = v;
""", "9", "32", whole_warps=True),
    PlantedFault("warp barrier in a branch", MASK, """
  if ((t & 31) < FIX)
    __syncwarp();  // here
  if (i < n) y[i] = t;
""", "16", "32", whole_warps=True),
    PlantedFault("flag that no thread sets", HANG, """
  volatile int* flag = z;
  if (i == 0) flag[0] = 1;
  while (flag[FIX] == 0) {}  // here
  if (i < n) y[i] = t;
""", "1", "0"),
    PlantedFault("lock that is not released", HANG, """
  if (t == 0) {
    while (atomicCAS(&z[0], 0, 1) != 0) {}  // here
    __threadfence();
    FIX
  }
""", "", "atomicExch(&z[0], 0);"),
    PlantedFault("loop that steps over its end", HANG, """
  int sum = 0;
  for (int k = 1; k != FIX; k += 2) sum += ((volatile int*)z)[k & 7];  // here
  if (i < n) y[i] = sum;
""", "1024", "1025"),
    PlantedFault("trap on a valid number", TRAP, """
  if (i < n && x[i] >= FIX)
    __trap();  // here
""", "500", "1000"),
]  # fmt: skip
