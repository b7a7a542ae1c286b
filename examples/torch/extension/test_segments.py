"""`gpuemu run -m pytest`: the last test calls the extension wrongly."""

import torch

import segments  # isort: skip, as it needs PyTorch's libraries


def test_sums():
    values = torch.arange(10.0, device="cuda")
    ends = torch.tensor([3, 3, 10], device="cuda", dtype=torch.int32)
    assert segments.segment_sums(values, ends).tolist() == [3, 0, 42]


def test_an_end_behind_the_values():
    values = torch.arange(10.0, device="cuda")
    ends = torch.tensor([3, 11], device="cuda", dtype=torch.int32)
    segments.segment_sums(values, ends)  # bug: memory/out-of-bounds, in the kernel
