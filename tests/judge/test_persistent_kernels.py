"""Answers whose blocks pass over several tiles, as many blocks as multiprocessors, with Triton's block pointers."""

from __future__ import annotations

import pytest

from gpuemu.judge.judgement import judge
from gpuemu.judge.model import Answer, Verdict

TEXT = """
import torch
import triton
import triton.language as tl


class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b


rows, inner, columns = 250, 48, 80


def get_inputs():
    return [torch.rand(rows, inner), torch.rand(inner, columns)]


@triton.jit
def rest(block, a, k, BLOCK: tl.constexpr):
    return tl.load(block, boundary_check=(0, 1), padding_option="zero")


@triton.jit
def product(a, b, c, m, n, k, tiles, BLOCK: tl.constexpr):
    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):
        total = tl.zeros((BLOCK, BLOCK), tl.float32)
        row, column = tile // tl.cdiv(n, BLOCK) * BLOCK, tile % tl.cdiv(n, BLOCK) * BLOCK
        left = tl.make_block_ptr(a, (m, k), (k, 1), (row, 0), (BLOCK, BLOCK), (1, 0))
        right = tl.make_block_ptr(b, (k, n), (n, 1), (0, column), (BLOCK, BLOCK), (1, 0))
        for _ in range(tl.cdiv(k, BLOCK)):
            total += tl.dot(rest(left, a, k, BLOCK), tl.load(right, boundary_check=[0, 1], padding_option="zero"))
            left = tl.advance(left, (0, BLOCK))
            right = right.advance((BLOCK, 0))
        result = tl.make_block_ptr(c, (m, n), (n, 1), (row, column), (BLOCK, BLOCK), (1, 0))
        tl.store(result, total.to(result.type.element_ty.element_ty), boundary_check=(0, 1))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        (m, k), n = a.shape, b.shape[1]
        c = torch.empty(m, n, device=a.device)
        tiles = triton.cdiv(m, 16) * triton.cdiv(n, 16)
        blocks = min(torch.cuda.get_device_properties(a.device).multi_processor_count, tiles)
        product[(blocks,)](a, b, c, m, n, k, tiles, BLOCK=16)
        return c
"""


LOOP = "    for tile in range(tl.program_id(0), tiles, tl.num_programs(0)):\n"
START = "        total = tl.zeros((BLOCK, BLOCK), tl.float32)\n"


@pytest.mark.parametrize("starts_again", [True, False])
def test_each_block_passes_over_several_tiles(tmp_path, starts_again):
    path = tmp_path / "answer.py"
    path.write_text(TEXT if starts_again else TEXT.replace(LOOP + START, START[4:] + LOOP))
    verdict = Verdict.SAME if starts_again else Verdict.DIFFERS
    row = judge(Answer("answer.py", path, path), 240.0)
    assert row.verdict is verdict, row
    assert any("block pointers" in note for note in row.notes)
