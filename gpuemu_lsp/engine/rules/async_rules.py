"""Rules of the asynchronous proxy of sm_90: ``wgmma``, bulk copies by tensor maps, ``mbarrier`` objects."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.rules.model import Example, Rule

_PRODUCT = """\
__device__ unsigned long long tile(const void* p) {
    return (__cvta_generic_to_shared(p) >> 4 & 0x3fff) | 8ull << 16 | 16ull << 32;
}
__global__ void product(const float* x, float* y, int n) {
    __shared__ alignas(128) unsigned short a[64 * 16], b[8 * 16];
    for (int i = threadIdx.x; i < 64 * 16; i += 128) a[i] = 0x3c00;
    b[threadIdx.x] = 0x3c00;
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();
    float d[4] = {};
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(tile(a)), "l"(tile(b)));
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < 4; ++i) y[4 * threadIdx.x + i] = d[i] + x[4 * threadIdx.x + i];
}
"""


def _without(text: str, code: str = _PRODUCT) -> str:
    return "".join(line for line in code.splitlines(keepends=True) if text not in line)


_PHASES = """\
__global__ void copy(const float* x, float* y, int n) {
    __shared__ unsigned long long bar;
    unsigned at = __cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 256;" :: "r"(at) : "memory");
    __syncthreads();
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" :: "r"(at) : "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(at) : "memory");
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at) : "memory");
    }
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = x[i];
}
"""

_COPY = """\
__global__ void first(const __grid_constant__ CUtensorMap x, float* y) {{
    __shared__ alignas(1024) char tile[8192];
    __shared__ barrier bar;
    load(tile, &x, {0}, bar);
    bar.wait(bar.arrive());
    product(descriptor(tile, {1}), y);
}}
"""

_MAP = """\
__global__ void scale(CUtensorMap* map, float* x) {{
    __shared__ alignas(128) char tile[2048];
    __shared__ barrier bar;
    if (threadIdx.x == 0) {{
        asm volatile("tensormap.replace.tile.{0}.global.b1024.{1} [%0], %1;" :: "l"(map), "{2}"({3}) : "memory");
{4}        load(tile, map, {{0, 0}}, bar);
    }}
    bar.wait(bar.arrive());
}}
"""

_TENSOR = """\
__global__ void scale(const float* x, float* y, int n) {
    __shared__ unsigned slot;
    unsigned at = __cvta_generic_to_shared(&slot);
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(at) : "memory");
    int i = blockIdx.x * 32 + threadIdx.x;
    if (i < n) y[i] = x[i];
    __syncwarp();
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(slot) : "memory");
}
"""

_MAP_FENCE = """\
        asm volatile("fence.proxy.tensormap::generic.release.gpu;" ::: "memory");
        asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory");
"""

_REGISTERS = """\
__global__ void __launch_bounds__(384, 1) scale(const float* x, float* y, int n) {{
    if (threadIdx.x < 128) {{
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    }} else {{
        asm volatile("setmaxnreg.inc.sync.aligned.u32 {};");
        int i = blockIdx.x * 256 + threadIdx.x - 128;
        if (i < n) y[i] = 2 * x[i];
    }}
}}
"""

_CLUSTER_SYNC = 'asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");'

_CLUSTER = """\
__global__ void __cluster_dims__(2) signal(const float* x, float* y, int n) {
    __shared__ unsigned long long bar;
    unsigned at = __cvta_generic_to_shared(&bar), rank, other;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at) : "memory");
    SYNC
    y[blockIdx.x * 32 + threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(at), "r"(rank ^ 1));
    if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(other) : "memory");
    END
}
""".replace("SYNC", _CLUSTER_SYNC)

SYNC_RULES = (
    Rule(
        "sync/async-order",
        Severity.ERROR,
        "asynchronous operation not waited for",
        "A product of a warp group or a bulk copy is used before it is complete: accumulators before "
        "`wgmma.wait_group`, registers that were written without a `wgmma.fence` before the product, a tile that is "
        "overwritten while a product or a bulk store still reads it, whatever barrier is in between, or while a "
        "`cp.async` of the same thread still writes it. A wait by one warp counts for its warp group. In tensor "
        "memory: cells are accessed by a thread that comes after no wait for an `mbarrier` that a `tcgen05.commit` "
        "behind the product arrives at, or after no `tcgen05.wait` of the warp that loads or stores them.",
        Example(bad=_without("wait_group"), good=_PRODUCT),
    ),
    Rule(
        "sync/proxy-fence",
        Severity.WARNING,
        "no fence between stores and an asynchronous read",
        "Threads have stored an operand of this `wgmma`, or the source of this bulk store, in shared memory, and no "
        "thread of the block has executed `fence.proxy.async` since. The asynchronous proxy, which reads it, need not "
        "see the stores (PTX ISA, 8.6 and 9.7.15.4), whatever barrier is between them. Published kernels rely on a "
        "barrier alone throughout, and work on an H100: reported is a kernel that has the fence before another read "
        "of this kind, and with `strict_fences = true` in `[validation]` of gpuemu.toml every one.",
        Example(bad=_without("fence.proxy.async"), good=_PRODUCT),
    ),
    Rule(
        "sync/map-fence",
        Severity.WARNING,
        "no fence after a change of a tensor map",
        "The kernel has written to a tensor map (`tensormap.replace`, `tensormap.cp_fenceproxy` or stores), and a copy "
        "uses the map without a `fence.proxy.tensormap::generic.acquire` of its address in between. The copy may use "
        "what the map held before (PTX ISA, 9.7.13.5).",
        Example(
            bad=_MAP.format("global_address", "b64", "l", "x", ""),
            good=_MAP.format("global_address", "b64", "l", "x", _MAP_FENCE),
        ),
    ),
    Rule(
        "sync/register-pool",
        Severity.ERROR,
        "more registers than the block has",
        "The warps of a block ask for more registers with `setmaxnreg` than its threads have at their start, so that "
        "the last increase waits forever; or the warps of a warp group do not all ask for the same number (PTX ISA, "
        "9.7.19.5). The number at the start is that of `__launch_bounds__` or `.maxnreg`: 168 for 384 threads.",
        Example(bad=_REGISTERS.format(240), good=_REGISTERS.format(232)),
    ),
    Rule(
        "sync/exited-block",
        Severity.WARNING,
        "arrival at a block that has exited",
        "A thread arrives at an `mbarrier` object in the shared memory of another block of its cluster, which has "
        "exited. The memory may belong to a later block by then. Blocks wait for all arrivals before they exit, or at "
        "`barrier.cluster`. Where all blocks of the grid may be resident at once it is not reported.",
        Example(bad=_without("END", _CLUSTER), good=_CLUSTER.replace("END", _CLUSTER_SYNC)),
    ),
    Rule(
        "sync/mbarrier",
        Severity.ERROR,
        "misuse of an mbarrier",
        "An `mbarrier` object is initialised again without `mbarrier.inval`, used after that, or gets more arrivals in "
        "a phase than it expects. Several threads may initialise it alike before its use.",
        Example(bad=_without("inval", _PHASES), good=_PHASES),
    ),
)

MEMORY_RULES = (
    Rule(
        "memory/tensor-map",
        Severity.ERROR,
        "invalid tensor map",
        "A copy uses a tensor map with values that `cuTensorMapEncodeTiled` would refuse, or `tensormap.replace` "
        "changes a field of bytes that hold no map. A map is made by the host, or by the kernel of 128 zero bytes.",
        Example(
            bad=_MAP.format("rank", "b32", "r", "5", _MAP_FENCE), good=_MAP.format("rank", "b32", "r", "1", _MAP_FENCE)
        ),
    ),
    Rule(
        "memory/tile-layout",
        Severity.ERROR,
        "tile read in another layout than written",
        "The matrix descriptor of a `wgmma` does not fit the tile that a copy by a tensor map has written: the swizzle "
        "differs, the elements along k of A and of B are not the same, or the descriptor differs between the warps of "
        "the group. All addresses may be inside of the tile: only the product is wrong.",
        Example(bad=_COPY.format("SWIZZLE_128B", "SWIZZLE_64B"), good=_COPY.format("SWIZZLE_128B", "SWIZZLE_128B")),
    ),
    Rule(
        "memory/tensor-memory",
        Severity.ERROR,
        "misuse of tensor memory",
        "A block exits without `tcgen05.dealloc` of what it has allocated in tensor memory, allocates a number of "
        "columns that is not a power of 2 from 32 to 512, allocates after `tcgen05.relinquish_alloc_permit`, or frees "
        "what is not an allocation; or a warp loads or stores lanes of another: warp i of a block may access the 32 "
        "lanes from 32 (i % 4) on (PTX ISA, 9.7.16.7 and 9.7.16.8.1).",
        Example(bad=_without("dealloc", _TENSOR), good=_TENSOR),
    ),
    Rule(
        "memory/box-outside",
        Severity.INFORMATION,
        "box of a copy wholly outside of the tensor",
        "Each time this copy was executed no element of its box was in the tensor, so that it brought zeros or stored "
        "nothing: coordinates in the wrong order, or of another tile. A box that is partly outside is how the ends of "
        "a tensor are copied, and no finding, nor is one closely behind the end of rows: compilers split wide tiles.",
        Example(
            bad=_COPY.format("{rows, 0}", "SWIZZLE_128B"),
            good=_COPY.format("{rows - 1, 0}", "SWIZZLE_128B"),
        ),
    ),
)
