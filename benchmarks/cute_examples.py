"""NVIDIA's examples of CuTe DSL under ``gpuemu run``, unmodified but for the size: right results, and findings.

    python -m benchmarks.cute_examples CUTLASS [NAME ...]

``CUTLASS`` is a checkout of NVIDIA's CUTLASS. The environment needs the extras ``cute`` and ``torch-device`` and TVM
FFI (``apache-tvm-ffi``). Each example compares its results itself. With names only those are run.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from benchmarks.language_examples import Example, run_examples

_ROOT = "examples/python/CuTeDSL"

_KERNELS = """
ampere/kernel/elementwise/elementwise_add.py --M 96 --N 200
ampere/kernel/elementwise/elementwise_apply.py --M 96 --N 200
ampere/kernel/dense_gemm/tensorop_gemm.py --mnkl 128,128,64,1 --iterations 1 --warmup_iterations 0
ampere/kernel/dense_gemm/sgemm.py --mnk 128,128,32 --iterations 1 --warmup_iterations 0
ampere/kernel/attention/flash_attention_v2.py --batch_size 1 --seqlen_q 128 --seqlen_k 128 --num_head 1 --head_dim 64
ampere/kernel/attention/hstu_attention.py --batch_size 1 --seqlen_q 128 --seqlen_kv 128 --num_head 1 --head_dim 64
ampere/tutorial/elementwise_add_autotune.py
hopper/kernel/cta_norm/cta_norm.py --M 8 --N 512 --iterations 1 --warmup_iterations 0
hopper/kernel/dense_gemm/dense_gemm.py --mnkl 128,128,64,1 --cluster_shape_mn 1,1 --iterations 1
hopper/kernel/dense_gemm/dense_gemm.py --mnkl 256,128,128,1 --cluster_shape_mn 2,1 --iterations 1
hopper/kernel/dense_gemm/dense_gemm_persistent.py --mnkl 256,128,128,1 --cluster_shape_mn 1,1 --iterations 1
hopper/kernel/dense_gemm/dense_gemm_fp8_2xacc.py --mnkl 128,128,128,1 --cluster_shape_mn 1,1 --iterations 1
hopper/kernel/dense_gemm/dense_gemm_fp8_gelu_persistent.py --mnkl 128,128,128,1
hopper/kernel/attention/fmha.py --q_shape 1,128,1,64 --k_shape 1,128,1,64 --iterations 1 --warmup_iterations 0
hopper/kernel/grouped_gemm/grouped_gemm.py --num_groups 2 --problem_sizes_mnkl ((128,128,64,1),(128,128,64,1))
"""

_TUTORIALS = "dynamic_smem_size smem_allocator call_bypass_dlpack call_from_jit inline_ptx dataclass_immutable"
_PRIMITIVES = """
mbarrier_lifecycle cp_async_mbarrier_arrive_cta cp_async_mbarrier_arrive_cluster barrier_cta_red barrier_cta_sync
mbarrier cp_async_shared_global cp_async_shared_global_swizzled basic_types red warp_named_barrier elect_sync
vote_sync shfl_sync redux_sync pipeline_software_fill async_pipeline bar_warp_sync mapa cp_async_bulk
cp_async_bulk_prefetch ldmatrix_stmatrix tutorial/01_hello_world tutorial/02_naive_gemm tutorial/03_gemm_tiled_smem
tutorial/04_tma_load tutorial/07_vectorized_array tutorial/09_tma_4d_to_2d tma/tma_store tma/tma_1cta_mbarrier
tma/tma_swizzle_modes tma/tma_pipeline_single_warp tma/tma_pipeline_warpspec tma/tma_pipeline_pingpong
tma/tma_pipeline_count2 tma/tma_load_store tma/tma_load_to_ldmatrix tma/tma_tensormap_replace
reduction/thread_vector_reduce reduction/warp_vector_reduce reduction/block_smem_reduce reduction/cluster_smem_reduce
"""


def examples() -> list[tuple[str, list[str]]]:
    """Return the files below the folder of examples, each with its arguments."""
    kernels = [shlex.split(line) for line in _KERNELS.strip().splitlines()]
    return [
        *((f"cute/{file}", arguments) for file, *arguments in kernels),
        *((f"dsl_tutorials/{name}.py", []) for name in [*_TUTORIALS.split(), "cooperative_launch"]),
        ("cute_ext/ampere/memcpy_simt_universal_copy.py", []),
        *((f"experimental/primitives/{name}.py", []) for name in _PRIMITIVES.split()),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cutlass", type=Path)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()  # names after an option
    root = options.cutlass / _ROOT
    run_examples(
        Example(file, (root / file).resolve().parent, (root / file).resolve(), arguments)
        for file, arguments in examples()
        if not options.names or Path(file).stem in options.names
    )


if __name__ == "__main__":
    main()
