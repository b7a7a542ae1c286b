"""Plain reads next to atomic operations, by what becomes of the value."""

from __future__ import annotations

import pytest
from support.emulator_launch import compile_ptx
from support.ptx_programs import program

from gpuemu_lsp.engine.emulator.analysis.atomic_reads import EqualWrites, PlainRead, plain_reads
from gpuemu_lsp.engine.emulator.analysis.provenance import origins, roots
from gpuemu_lsp.engine.emulator.ir.accesses import memory_accesses
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CompiledKernel
from gpuemu_lsp.engine.ptx.parser import parse

HEAD = 'extern "C" __global__ void k(const int* x, int* y, int* z, int n) { const int t = threadIdx.x; '

COMPARED_AGAIN = {
    "a compare-and-swap loop": "int old = *z, was; do { was = old; old = atomicCAS(z, was, was * x[t]); } while (was != old);",
    "the expected value used afterwards": """
      int old = *z, was; do { was = old; old = atomicCAS(z, was, was * x[t]); } while (was != old); y[t] = was;""",
    "a loop that may end early": """
      int old = *z; while (x[t] > old) { int was = old; if ((old = atomicCAS(z, was, x[t])) == was) break; }""",
    "a loop that all threads of the block leave together": """
      bool done = t >= n; do { int old = z[x[t]]; done |= atomicCAS(&z[x[t]], old, done ? old : old * 3) == old; }
      while (!__syncthreads_and(done));""",
    "a value that another lane compares": """
      int lane = t & 31, was; do { int old = z[t]; was = __shfl_sync(~0u, old, lane ^ 1); }
      while (atomicCAS(&z[t ^ 1], was, was * 3) != was);""",
}
PRE_CHECK = {
    "a maximum": "if (x[t] > *z) atomicMax(z, x[t]);",
    "a mark": "if (z[x[t]] == 0) { if (atomicCAS(&z[x[t]], 0, 1) == 0) y[t] = 1; }",
    "a relaxation": "int d = z[t]; if (d + 1 < z[x[t]]) atomicMin(&z[x[t]], d + 1);",
    "a search for a root": """
      int a = x[t], p; while ((p = z[a]) != a) a = p; atomicCAS(&z[a], a, 0);""",
}
USED = {
    "stored by another thread": """
      __shared__ int s[64]; s[t] = z[t]; __syncthreads(); int old = s[63 - t]; y[t] = old;
      atomicCAS(&z[63 - t], old, old * 3);""",
    "stored in a loop that all threads leave together": """
      bool done = t >= n; int old; do { old = *z; y[t] = old; done |= atomicCAS(z, old, old * 3) == old; }
      while (!__syncthreads_and(done));""",
    "stored": "int v = *z; y[t] = v; atomicMax(z, x[t]);",
    "an index": "int v = *z; y[v] = t; atomicMax(z, x[t]);",
    "a maximum that decides a store": "atomicMax(z, x[t]); if (*z > 5) y[t] = 1;",
    "a counter": "if (*z < 10) y[t] = 1; atomicAdd(z, 1);",
    "stored before the loop": "int old = *z, was; y[t] = old; do { was = old; old = atomicCAS(z, was, was * x[t]); } while (was != old);",
    "added to another location": "atomicAdd(y, *z); atomicMax(z, x[t]);",
}
CASES = [
    (name, body, kind)
    for cases, kind in ((COMPARED_AGAIN, PlainRead.COMPARED_AGAIN), (PRE_CHECK, PlainRead.PRE_CHECK), (USED, None))
    for name, body in cases.items()
]


def kernel(body: str, *options: str) -> CompiledKernel:
    return CompiledKernel(parse(compile_ptx(f"{HEAD}{body} }}", *options)), "k")


@pytest.mark.parametrize("options", [(), ("-G",)], ids=["optimised", "unoptimised"])
@pytest.mark.parametrize(("body", "kind"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_kinds(body: str, kind: PlainRead | None, options: tuple[str, ...]) -> None:
    compiled = kernel(body, *options).program
    found = set(plain_reads(compiled, list(memory_accesses(compiled))).values())
    assert found == ({kind} if kind is not None else set())


def test_a_value_that_another_thread_compares() -> None:
    # As Triton does where the layout of a tensor changes between the load and the operation.
    body = """
      __shared__ int s[64]; bool done = false; do { s[t] = z[t]; __syncthreads(); int old = s[63 - t];
      done |= atomicCAS(&z[63 - t], old, done ? old : old * 3) == old; } while (!__syncthreads_and(done));"""
    compiled = kernel(body).program
    found = plain_reads(compiled, list(memory_accesses(compiled)))
    assert set(found.values()) == {PlainRead.COMPARED_AGAIN}


def test_a_value_that_is_kept_in_local_memory_is_followed() -> None:
    body = (
        ".local .b32 l; ld.param.u64 %d1, [x]; ld.global.u32 %r1, [%d1]; st.local.u32 [l], %r1; ld.local.u32 %r2, [l]; "
        "setp.eq.u32 %p1, %r2, 0; @%p1 atom.global.max.u32 %r3, [%d1], 7; {} ret;"
    )
    for use, kind in (("st.global.u32 [%d1+8], %r2;", None), ("", PlainRead.PRE_CHECK)):
        one = program(body.format(use))
        assert plain_reads(one, list(memory_accesses(one))).get(1) is kind


EQUAL_WRITES = {
    "a depth that is an argument": ("if (z[x[t]] == 0) z[x[t]] = n;", True),
    "a depth that is computed from an argument": ("if (z[x[t]] == 0) z[x[t]] = (n + 1) * 2;", True),
    "two computed values": ("if (z[x[t]] == 0) z[x[t]] = n + 1; if (t == 7) z[t] = n + 2;", False),
    "a constant": ("if (z[x[t]] == 0) z[x[t]] = 1;", True),
    "values of the thread": ("if (z[x[t]] == 0) z[x[t]] = t;", False),
    "two values": ("if (z[x[t]] == 0) z[x[t]] = n; if (t == 7) z[t] = 1;", False),
    "a write that does not follow": ("if (t == 0) z[0] = n; else if (z[0]) y[t] = 1;", False),
    "a read that is stored": ("int v = z[x[t]]; y[t] = v; if (v == 0) z[x[t]] = n;", False),
}


@pytest.mark.parametrize("name", EQUAL_WRITES)
def test_reads_that_guard_equal_writes(name: str) -> None:
    body, expected = EQUAL_WRITES[name]
    compiled = kernel(body).program
    accesses = list(memory_accesses(compiled))
    known = origins(compiled)
    reads = [one for one in accesses if not one.is_write and roots(one.address, known) == {"k_param_2+0"}]
    assert reads
    assert {EqualWrites(compiled, accesses).are_guarded_by(read.site) for read in reads} == {expected}
