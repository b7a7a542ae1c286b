"""TileLang's examples under ``gpuemu run``, unmodified but for the size: right results, and findings.

    python -m benchmarks.tilelang_examples TILELANG [--arch SM] [NAME ...]

``TILELANG`` is a checkout of TileLang. The environment needs the extra ``tilelang``, ``einops`` and ``triton``. Each
example compares its results itself. With names only those are run.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path

from benchmarks.language_examples import Example, run_examples

_CALL = Path(__file__).with_name("call_example.py")
_SECONDS = 300

_CALLS = """
gemm/example_gemm_intrinsics.py main M=256 N=256 K=256
gemm/example_gemm_persistent.py main M=256 N=256 K=128
gemm/example_gemm_autotune.py main M=256 N=256 K=128
gemm/example_gemm_advanced_autotune.py main M=256 N=256 K=128
gemm_fp8/example_tilelang_gemm_fp8.py test_gemm_fp8 M=128 N=128 K=128 dtype="float8_e4m3fn"
gemm_fp8/example_tilelang_gemm_fp8_2xAcc.py test_gemm_fp8 M=128 N=128 K=256 dtype="float8_e4m3fn"
gemm_int4/example_tilelang_gemm_int4.py check_int4_gemm_correctness M=128 N=128 K=128
gemm_sp/example_gemm_sp.py main M=128 N=128 K=128
grouped_gemm/example_grouped_gemm_fwd.py run_tilelang_grouped_gemm batch_sizes_list=[64,128] K=128 M=128 block_M=64 +
    block_N=64 block_K=64 trans_b=false num_stages=2 threads=128
grouped_gemm/example_grouped_gemm_fwd_ptr.py run_tilelang_grouped_gemm_ptr batch_sizes_list=[64,128] K=128 N=128 +
    block_M=64 block_N=64 block_K=64 num_stages=2 threads=128
grouped_gemm/example_grouped_gemm_bwd.py run_tilelang_grouped_gemm batch_sizes_list=[64,128] K=128 M=128 block_M=64 +
    block_N=64 block_K=64 trans_b=false num_stages=2 threads=128
elementwise/example_elementwise_add.py main M=128 N=256
cast/example_group_per_split_token_cast_to_fp8.py main M=128 N=256 BG=2 blk_m=4 batch_sizes=[32,96]
cast/example_per_token_cast_to_fp8.py main M=128 N=256 blk_m=8
dynamic_shape/example_dynamic.py main M=256 N=256 K=128
norm/rms_norm.py test_rms_norm M=64 N=256 blk_m=1
rand/rand_uint.py test_rand_1d M=256 seed=42
flash_attention/example_mha_fwd_bhsd.py main batch=1 heads=1 seq_q=128 seq_kv=128 dim=64
flash_attention/example_mha_fwd_bshd.py main batch=1 heads=1 seq_len=128 dim=64
flash_attention/example_mha_fwd_varlen.py main batch=2 heads=1 seq_len=128 dim=64
flash_attention/example_mha_bwd_bhsd.py main BATCH=1 H=1 N_CTX=128 D_HEAD=64
flash_attention/example_mha_bwd_bshd.py main BATCH=1 H=1 N_CTX=128 D_HEAD=64
flash_attention/example_gqa_fwd_bshd.py main batch=1 heads=2 seq_len=128 dim=64 groups=2
flash_attention/example_gqa_fwd_varlen.py main batch=2 heads=2 q_seqlen=128 k_seqlen=128 dim=64 groups=2
flash_attention/example_gqa_bwd.py main BATCH=1 H=2 N_CTX=128 D_HEAD_QK=64 D_HEAD_V=64 groups=2
flash_attention/example_gqa_bwd_tma_reduce.py main BATCH=1 H=2 N_CTX=128 D_HEAD_QK=64 D_HEAD_V=64 groups=2
flash_attention/example_gqa_bwd_tma_reduce_varlen.py main BATCH=1 H=2 N_CTX=128 D_HEAD_QK=64 D_HEAD_V=64 groups=2
flash_decoding/example_gqa_decode.py main batch=1 heads=8 groups=2 kv_seqlen=512 dim=64
flash_decoding/example_mha_inference.py main BATCH=1 H=2 Q_CTX=128 KV_CTX=512 D_HEAD=64
attention_sink/example_mha_sink_fwd_bhsd.py main batch=1 heads=1 seq_q=128 seq_kv=128 dim=64
attention_sink/example_mha_sink_bwd_bhsd.py main BATCH=1 H=1 N_CTX=128 D_HEAD=64
attention_sink/example_gqa_sink_bwd_bhsd.py main BATCH=1 H=2 N_CTX=128 D_HEAD=64 groups=2
attention_sink/example_gqa_sink_fwd_varlen.py main batch=1 heads=2 q_seqlen=128 k_seqlen=128 dim=64 groups=2
linear_attention/example_linear_attn_fwd.py main B=1 S=128 H=1 D=64
linear_attention/example_linear_attn_bwd.py main B=1 S=128 H=1 D=64
dequantize_gemm/example_dequant_gemm_bf16_fp4_hopper.py main m=128 n=128 k=128
dequantize_gemm/example_dequant_gemm_bf16_mxfp4_hopper.py main m=128 n=128 k=128
dequantize_gemm/example_dequant_gemm_fp4_hopper.py main m=128 n=128 k=128
dequantize_gemm/example_dequant_gemm_w4a8.py main m=128 n=128 k=128
deepseek_mla/example_mla_decode.py main batch=1 heads=64 kv_ctx=128
deepseek_mla/example_mla_decode_ws.py main batch=1 heads=64 kv_ctx=256
warp_specialize/example_warp_specialize_flashmla.py main batch=1 heads=64 kv_ctx=256
warp_specialize/example_warp_specialize_gemm_barrierpipe_stage2.py main M=128 N=128 K=128
warp_specialize/example_warp_specialize_gemm_copy_0_gemm_1.py main M=128 N=128 K=128
warp_specialize/example_warp_specialize_gemm_copy_1_gemm_0.py main M=128 N=128 K=128
warp_specialize/example_warp_specialize_gemm_softpipe_stage2.py main M=128 N=128 K=128
minference/example_vertical_slash_sparse_attn.py main seq_len=256 vertical_size=64 slash_size=32
blocksparse_attention/example_tilelang_sparse_gqa_decode_varlen_indice.py main batch=1 heads=8 heads_kv=2 +
    max_cache_seqlen=256 dim=64 dim_v=64
blocksparse_attention/example_tilelang_sparse_gqa_decode_varlen_mask.py main batch=1 heads=8 heads_kv=2 +
    max_cache_seqlen=256 dim=64 dim_v=64
fusedmoe/example_fusedmoe_tilelang.py main d_hidden=256 d_expert=128 n_routed_experts=4 n_experts_per_token=2 seq_len=64
deepseek_v32/fp8_lighting_indexer.py test_fp8_lighting_indexer S=128 SKV=256 H=32 HKV=1 D=64 kv_stride=1
deepseek_v32/topk_selector.py test_topk_selector batch=2 seq_len=2048 topk=512
deepseek_v32/sparse_mla_fwd.py test_sparse_mla_fwd S=64 SKV=128 H=64 HKV=1 DQK=576 DV=512 topk=64
deepseek_v32/sparse_mla_bwd.py test_sparse_mla_bwd S=32 SKV=64 H=64 HKV=1 DQKV=576 DV=512 topk=32
deepseek_v4/act_quant.py test_fp8_act_quant M=64 N=256 block_size=128
deepseek_v4/act_quant.py test_fp4_act_quant M=64 N=256 block_size=32
deepseek_v4/sparse_attn_fwd_sm90.py test_correctness BATCH=1 H=8 N_CTX=64 N_KV=128 D_HEAD=128 TOPK=64
dsa_hisa/clean_and_maintain_logits.py test_clean_and_maintain_logits M=128 N=256
dsa_hisa/fp8_block_mean_pooling.py test_fp8_block_mean_pooling N=512
dsa_hisa/block_sparse_mqa_fp8.py test_fp8_block_sparse_mqa M=64 H=32 topk=4
dsa_sparse_finetune/indexer_topk_reducesum.py test_kernel S=128 H=16 D=64 topk=32
convolution/example_convolution_autotune.py main n=1 c=64 h=8 w=8 f=64
"""
"""Functions that compare their results, with sizes that take seconds."""

_SCRIPTS = """
quickstart.py
analyze/example_gemm_analyze.py
gemm/example_gemm.py
gemm_splitk/example_tilelang_gemm_splitk.py
gemm_splitk/example_tilelang_gemm_splitk_vectorize_atomicadd.py
gemm_streamk/example_tilelang_gemm_streamk.py
gemv/example_gemv.py --n 256 --k 256
blocksparse_gemm/example_blocksparse_gemm.py --m 256 --n 256 --k 128
convolution/example_convolution.py --n 1 --c 64 --h 8 --w 8 --f 64
hadamard_transform/example_hadamard.py --batch 2 --dim 512
topk/example_topk.py --M 32 --N 64 --topk 4
norm/layernorm.py
online_softmax/online_softmax.py
linear_attention/example_mamba_chunk_scan.py --batch 1 --heads 2 --groups 1 --seq_len 256 --chunk_size 64 --dim 64 +
    --dstate 64
linear_attention/example_mamba_chunk_state.py --batch 1 --heads 2 --groups 1 --seq_len 256 --chunk_size 64 --dim 64 +
    --dstate 64
linear_attention/example_retention_fwd.py --B 1 --S 128 --H 1 --D 64
warp_specialize/example_warp_specialize_gemm_copy_gemm_0_1.py
dequantize_gemm/example_dequant_gemv_fp16xint4.py
deepseek_nsa/example_tilelang_nsa_fwd.py
deepseek_nsa/example_tilelang_nsa_decode.py
blocksparse_attention/example_tilelang_block_sparse_attn.py
seer_attention/block_sparse_attn_tilelang.py
deepseek_mhc/example_mhc_post.py
deepseek_mhc/example_mhc_pre.py
"""
"""Programs with arguments, or with sizes of their own."""


def _lines(text: str) -> list[str]:
    """Return the lines of a table, of which one that ends with a plus goes on in the next."""
    return re.sub(r" \+\n\s*", " ", text).strip().splitlines()


def examples(root: Path) -> list[Example]:
    """Return the calls and the programs of a folder of examples."""
    found = []
    for line in _lines(_CALLS):
        file, function, *words = shlex.split(line, posix=False)
        arguments = {name: json.loads(value) for name, _, value in (word.partition("=") for word in words)}
        path = (root / file).resolve()
        found.append(Example(f"{file} {function}", path.parent, _CALL, [str(path), function, json.dumps(arguments)]))
    for line in _lines(_SCRIPTS):
        file, *words = shlex.split(line)
        path = (root / file).resolve()
        found.append(Example(file, path.parent, path, words))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tilelang", type=Path)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--seconds", type=int, default=_SECONDS)
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()  # names after an option
    chosen = (
        example
        for example in examples(options.tilelang / "examples")
        if not options.names or Path(example.name.split()[0]).stem in options.names
    )
    run_examples(chosen, ["--arch", options.arch, "--torch-device", "on"], options.seconds)


if __name__ == "__main__":
    main()
