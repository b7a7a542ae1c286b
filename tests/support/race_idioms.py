"""Idioms of concurrent CUDA code: correct ones, their wrong counterparts, and what the race detector says of each.

Every kernel takes ``(const int* x, int* y, int* z, int n)`` with 4096 elements each: ``x`` has values from 0 to 999, ``y``
and ``z`` are zero, ``n`` is 4096. It is launched with three blocks of 64 threads.
"""

from __future__ import annotations

from dataclasses import dataclass

SILENT, WARNING, ERROR = "silent", "warning", "error"


@dataclass(frozen=True)
class Idiom:
    """A kernel's body with the device functions before it, and the worst severity of its races."""

    name: str
    verdict: str
    body: str
    before: str = ""

    @property
    def source(self) -> str:
        return f"{self.before}\n{HEAD}{self.body}\n}}\n"


HEAD = """extern "C" __global__ void k(const int* x, int* y, int* z, int n) {
  const int t = threadIdx.x, b = blockIdx.x, m = blockDim.x, i = b * m + t;
"""

DOUBLE_ADD = """
__device__ double add(double* address, double value) {
  unsigned long long* words = (unsigned long long*)address;
  unsigned long long old = *words, assumed;
  do {
    assumed = old;
    old = atomicCAS(words, assumed, __double_as_longlong(value + __longlong_as_double(assumed)));
  } while (assumed != old);
  return __longlong_as_double(old);
}"""
FLOAT_MAX = """
__device__ void maximum(float* address, float value) {
  int seen = __float_as_int(*address);
  while (value > __int_as_float(seen)) {
    int old = seen;
    if ((seen = atomicCAS((int*)address, old, __float_as_int(value))) == old) break;
  }
}"""
HALF_ADD = """
__device__ void add(unsigned short* address, unsigned short value) {
  unsigned* word = (unsigned*)((size_t)address & ~(size_t)2);
  unsigned old = *word, assumed;
  do {
    assumed = old;
    unsigned short half = ((size_t)address & 2) ? old >> 16 : old & 0xffff;
    half += value;
    old = ((size_t)address & 2) ? (old & 0xffff) | (unsigned)half << 16 : (old & 0xffff0000) | half;
    old = atomicCAS(word, assumed, old);
  } while (assumed != old);
}"""
FIND = """
__device__ int find(KIND int* parent, int a) {
  int p = parent[a];
  while (p != a) { a = p; p = parent[a]; }
  return a;
}"""
UNITE = """
  int a = x[i] & 127, c = x[i + 999] & 127;
  while ((a = find(z + 1, a)) != (c = find(z + 1, c))) {
    if (a < c) { int other = a; a = c; c = other; }
    int old = atomicCAS(&z[1 + a], a, c);
    if (old == a) break;
  }"""

PLAIN_READS = [
    Idiom("double by compare-and-swap", SILENT, "add((double*)z, x[t]);", DOUBLE_ADD),
    Idiom("double by compare-and-swap, old value stored", SILENT, "y[i] = add((double*)z, x[t]);", DOUBLE_ADD),
    Idiom("float maximum by compare-and-swap", SILENT, "maximum((float*)z, x[t]);", FLOAT_MAX),
    Idiom("half word by compare-and-swap", SILENT, "add((unsigned short*)z + t % 8, x[t]);", HALF_ADD),
    Idiom("pre-check of a maximum", WARNING, "if (x[i] > *z) atomicMax(z, x[i]);"),
    Idiom("volatile pre-check of a maximum", SILENT, "if (x[i] > *(volatile int*)z) atomicMax(z, x[i]);"),
    Idiom("pre-check in shared memory", WARNING, """
  __shared__ int s;
  if (t == 0) s = 1 << 30;
  __syncthreads();
  if (x[i] < s) atomicMin(&s, x[i]);
  __syncthreads();
  y[b] = s;"""),
    Idiom("counter that decides a store", ERROR, "atomicAdd(z, 1); if (*z > 5) y[i] = t + 1;"),
    Idiom("maximum that decides a store", ERROR, "atomicMax(z, x[t]); if (*z > 5) y[i] = t + 1;"),
    Idiom("maximum that is stored", ERROR, "int old = *z; if (old < 10) atomicMax(z, x[t]); y[i] = old;"),
    Idiom("maximum as an index", ERROR, "y[*z + i] = 3; atomicMax(z, 1);"),
    Idiom("breadth-first search with compare-and-swap", WARNING, """
  for (int e = 0; e < 4; e++) {
    int v = 1 + (x[4 * i + e] & 127);
    if (z[v] == 0 && atomicCAS(&z[v], 0, 1) == 0) y[1 + atomicAdd(y, 1)] = v;
  }"""),
    Idiom("breadth-first search with equal writes", WARNING, """
  for (int e = 0; e < 4; e++) {
    int v = x[4 * i + e] & 127;
    if (z[v] == 0) z[v] = n;
  }"""),
    Idiom("marks with different values", ERROR, "int v = x[i] & 127; if (z[v] == 0) z[v] = i + 1;"),
    Idiom("shortest paths", WARNING, """
  int d = z[i] + 1;
  for (int e = 0; e < 4; e++) {
    int v = x[4 * i + e] & 127;
    if (d < z[v] + 7) atomicMin(&z[v], d - 7);
  }"""),
    Idiom("hash table with a plain probe", WARNING, """
  int key = 1 + (x[i] & 255);
  for (unsigned slot = key * 2654435761u % 512;; slot = (slot + 1) % 512) {
    int found = z[slot];
    if (found == key) break;
    if (found == 0) {
      int old = atomicCAS(&z[slot], 0, key);
      if (old == 0 || old == key) break;
    }
  }"""),
    Idiom("hash table with compare-and-swap alone", SILENT, """
  int key = 1 + (x[i] & 255);
  for (unsigned slot = key * 2654435761u % 512;; slot = (slot + 1) % 512) {
    int old = atomicCAS(&z[slot], 0, key);
    if (old == 0 || old == key) break;
  }"""),
    Idiom("union-find with plain reads", WARNING, UNITE, FIND.replace("KIND", "")),
    Idiom("union-find with volatile reads", SILENT, UNITE, FIND.replace("KIND", "volatile")),
    Idiom("plain flag that is polled once", ERROR, """
  if (i == 0) { z[1] = x[0]; __threadfence(); z[0] = 1; }
  if (i == m && z[0]) y[0] = z[1];"""),
]  # fmt: skip

LOCK = """
  if (t == 0) {
    volatile int* lock = z;
    TAKE
    __threadfence();
    ((volatile int*)z)[1] += 1;
    __threadfence();
    FREE
  }"""
LOCKS = [
    Idiom("read, then write", ERROR, LOCK.replace("TAKE", "while (*lock) {} *lock = 1;").replace("FREE", "*lock = 0;")),
    Idiom("read, then write in shared memory", ERROR, """
  __shared__ int s[2];
  if (t < 2) s[t] = 0;
  __syncthreads();
  volatile int* lock = s;
  if (t % 32 == 0) {
    while (*lock != 0) {}
    *lock = 1;
    __threadfence_block();
    atomicAdd(&s[1], t);
    __threadfence_block();
    *lock = 0;
  }
  __syncthreads();
  y[i] = s[1];"""),
    Idiom("try, then write", ERROR, """
  volatile int* lock = z;
  if (t == 0 && *lock == 0) { *lock = 1; __threadfence(); atomicAdd(&z[1], 1); __threadfence(); *lock = 0; }"""),
    Idiom("compare-and-swap", SILENT, LOCK.replace("TAKE", "while (atomicCAS(z, 0, 1)) {}").replace("FREE", "*lock = 0;")),
    Idiom("exchange", SILENT, LOCK.replace("TAKE", "while (atomicExch(z, 1)) {}").replace("FREE", "atomicExch(z, 0);")),
    Idiom("read, then compare-and-swap", SILENT, LOCK.replace(
        "TAKE", "do { while (*lock) {} } while (atomicCAS(z, 0, 1));").replace("FREE", "*lock = 0;")),
    Idiom("turns", SILENT, LOCK.replace("TAKE", "while (*lock != b) {}").replace("FREE", "*lock = b + 1;")),
    Idiom("ping-pong", SILENT, """
  volatile int* full = z;
  for (int r = 0; r < 3 && t == 0; r++) {
    if (b == 0) { while (*full) {} z[1] = x[r]; __threadfence(); *full = 1; }
    if (b == 1) { while (!*full) {} __threadfence(); y[r] = z[1]; __threadfence(); *full = 0; }
  }"""),
    Idiom("search that ends early", SILENT, """
  volatile int* found = z;
  for (int j = i; j < n && !*found; j += 64) if (x[j] == 77) *found = 1;"""),
    Idiom("flag that its reader resets", SILENT, """
  volatile int* full = z;
  if (t == 0 && b == 0) { z[1] = x[0]; __threadfence(); *full = 1; }
  if (t == 0 && b == 1) { while (!*full) {} __threadfence(); y[0] = z[1]; *full = 0; }"""),
]  # fmt: skip

PUBLISH = """
  if (t == 0 && b == 0) { z[1] = x[0]; RELEASE }
  if (t == 0 && b == 1) { int flag; do { ACQUIRE } while (flag == 0); FENCE y[0] = z[1]; }"""
VOLATILE = PUBLISH.replace("ACQUIRE", "flag = *(volatile int*)z;").replace("FENCE", "__threadfence();")


def _released(release: str, acquire: str) -> str:
    store = f'asm volatile("st.release.{release}.global.s32 [%0], 1;" :: "l"(z) : "memory");'
    load = f'asm volatile("ld.acquire.{acquire}.global.s32 %0, [%1];" : "=r"(flag) : "l"(z) : "memory");'
    return PUBLISH.replace("RELEASE", store).replace("ACQUIRE", load).replace("FENCE", "")


LAST_BLOCK = """
  __shared__ bool last;
  y[1 + i] = x[i];
  FENCE
  __syncthreads();
  if (t == 0) last = atomicInc((unsigned*)z, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (last) {
    int sum = 0;
    for (int j = t; j < gridDim.x * m; j += m) sum += y[1 + j];
    z[64 + t] = sum;
    if (t == 0) z[0] = 0;
  }"""
SCOPES = [
    Idiom("atomic of block scope, one location", ERROR, "atomicAdd_block(z, 1);"),
    Idiom("atomic of block scope, a location for each block", SILENT, "atomicAdd_block(z + b, 1);"),
    Idiom("atomic of block scope in shared memory", SILENT, """
  __shared__ int s;
  if (t == 0) s = 0;
  __syncthreads();
  atomicAdd_block(&s, 1);
  __syncthreads();
  y[b] = s;"""),
    Idiom("atomic of system scope", SILENT, "atomicAdd_system(z, 1);"),
    Idiom("atomics of both scopes", ERROR, "if (b) atomicAdd_block(z, 1); else atomicAdd(z, 1);"),
    Idiom("fence of block scope between blocks", ERROR,
          VOLATILE.replace("RELEASE", "__threadfence_block(); *(volatile int*)z = 1;")),
    Idiom("fence between blocks", SILENT, VOLATILE.replace("RELEASE", "__threadfence(); *(volatile int*)z = 1;")),
    Idiom("fence of system scope between blocks", SILENT,
          VOLATILE.replace("RELEASE", "__threadfence_system(); *(volatile int*)z = 1;")),
    Idiom("early wide fence, then one of block scope", ERROR,
          VOLATILE.replace("z[1] = x[0];", "__threadfence(); z[1] = x[0];")
          .replace("RELEASE", "__threadfence_block(); *(volatile int*)z = 1;")),
    Idiom("fence of block scope within the block", SILENT, """
  volatile int* flag = z + 2 * b;
  int* data = z + 64 + b;
  if (t == 0) { *data = x[0]; __threadfence_block(); *flag = 1; }
  if (t == 33) { while (!*flag) {} __threadfence_block(); y[b] = *data; }"""),
    Idiom("release and acquire", SILENT, _released("gpu", "gpu")),
    Idiom("release of system scope", SILENT, _released("sys", "gpu")),
    Idiom("release of block scope", ERROR, _released("cta", "gpu")),
    Idiom("acquire of block scope", ERROR, _released("gpu", "cta")),
    Idiom("last block", SILENT, LAST_BLOCK.replace("FENCE", "__threadfence();")),
    Idiom("last block with fences of block scope", ERROR, LAST_BLOCK.replace("FENCE", "__threadfence_block();")),
]  # fmt: skip

ORDER = [
    Idiom("initialised by one block, counted by all", ERROR, "if (i == 0) *z = 5; __syncthreads(); if (t == 0) atomicAdd(z, 1);"),
    Idiom("initialised by one block, counted by other threads", ERROR,
          "if (i == 0) *z = 5; __syncthreads(); if (t == 40) atomicAdd(z, 1);"),
    Idiom("initialised and counted by each block", SILENT, """
  if (t == 0) z[b] = 5;
  __syncthreads();
  atomicAdd(&z[b], 1);
  __syncthreads();
  y[i] = z[b];"""),
    Idiom("initialised, then released to other blocks", SILENT, """
  if (i == 0) { *z = 5; __threadfence(); *(volatile int*)(z + 1) = 1; }
  if (t == 0) { while (!*(volatile int*)(z + 1)) {} __threadfence(); atomicAdd(z, 1); }"""),
    Idiom("read before the update of another block", ERROR, """
  if (i == 0) y[0] = *z;
  __syncthreads();
  if (t == 0 && *(volatile int*)z < 9) atomicAdd(z, 1);"""),
    Idiom("a chain of pairs", SILENT, """
  __shared__ int s;
  int v = 0;
  if (t == 0) s = x[0];
  __syncthreads();
  if (t < 2) { if (t == 0) v = s; __syncwarp(3); }
  if (t == 1 || t == 2) { if (t == 2) v = s; __syncwarp(6); }
  if (t == 1) s = 5 + x[1]; else y[i] = v;"""),
    Idiom("a chain of pairs without the first", ERROR, """
  __shared__ int s;
  int v = 0;
  if (t == 0) s = x[0];
  __syncthreads();
  if (t == 0) v = s;
  if (t == 1 || t == 2) { if (t == 2) v = s; __syncwarp(6); }
  if (t == 1) s = 5 + x[1]; else y[i] = v;"""),
]  # fmt: skip

CLAMP = "int size = n / 32 - 1; int v = y[min(i, size - 1)];"
UNUSED = [
    Idiom("clamped read, value discarded", SILENT, f"{CLAMP} if (i < size) y[i] = v + 1;"),
    Idiom("clamped read, value selected", SILENT, f"{CLAMP} z[i] = i < size ? v : 0; if (i < size) y[i] = v + 1;"),
    Idiom("clamped read, value stored elsewhere", ERROR, f"{CLAMP} if (i < size) y[i] = v + 1; else z[i] = v;"),
    Idiom("clamped read, value stored by one thread too many", ERROR,
          f"{CLAMP} if (i < size) y[i] = v + 1; if (i < size + 1) z[i] = v;"),
    Idiom("clamped read, value in a sum", ERROR,
          f"{CLAMP} v = __reduce_add_sync(~0u, v); if (i < size) y[i] = v + 1;"),
]  # fmt: skip

PUBLIC = [
    Idiom("decoupled look-back scan", SILENT, """
  __shared__ int part[64], before, tile;
  volatile int *sums = z + 64, *prefixes = z + 128, *flags = z + 192;
  if (t == 0) tile = atomicAdd(z, 1);
  __syncthreads();
  const int own = tile;
  part[t] = x[own * m + t];
  __syncthreads();
  if (t == 0) {
    int sum = 0, run = 0;
    for (int j = 0; j < m; j++) sum += part[j];
    if (own > 0) {
      sums[own] = sum;
      __threadfence();
      flags[own] = 1;
      for (int p = own - 1;; p--) {
        int flag;
        while ((flag = flags[p]) == 0) {}
        __threadfence();
        if (flag == 2) { run += prefixes[p]; break; }
        run += sums[p];
      }
    }
    prefixes[own] = run + sum;
    __threadfence();
    flags[own] = 2;
    before = run;
  }
  __syncthreads();
  int result = before;
  for (int j = 0; j <= t; j++) result += part[j];
  y[own * m + t] = result;"""),
    Idiom("grid barrier that polls a volatile counter", SILENT, """
  y[i] = x[i];
  __threadfence();
  __syncthreads();
  if (t == 0) { atomicAdd(z, 1); while (*(volatile int*)z < gridDim.x) {} __threadfence(); }
  __syncthreads();
  z[64 + i] = y[(i + m) % (gridDim.x * m)];"""),
    Idiom("grid barrier that polls with an atomic", SILENT, """
  y[i] = x[i];
  __syncthreads();
  if (t == 0) { __threadfence(); atomicAdd(z, 1); while (atomicAdd(z, 0) < gridDim.x) {} __threadfence(); }
  __syncthreads();
  z[64 + i] = y[(i + m) % (gridDim.x * m)];"""),
    Idiom("queue with tickets", SILENT, """
  for (int j; (j = atomicAdd(z, 1)) < n / 2;) y[j] = x[j];"""),
    Idiom("histogram with a private copy", SILENT, """
  __shared__ int bins[64];
  bins[t] = 0;
  __syncthreads();
  atomicAdd(&bins[x[i] & 63], 1);
  __syncthreads();
  atomicAdd(&z[t], bins[t]);"""),
]  # fmt: skip

IDIOMS = [*PLAIN_READS, *LOCKS, *SCOPES, *ORDER, *UNUSED, *PUBLIC]
