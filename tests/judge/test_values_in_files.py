"""Values pass between processes without pickle."""

from __future__ import annotations

import pytest
import torch

from gpuemu.judge.values import UnsupportedValueError, load, save


def test_nested_values(tmp_path):
    value = {"init": [1, 2.5, "text", None, True, (3, [4])], "dtype": torch.bfloat16}
    save(tmp_path / "v.npz", value)
    assert load(tmp_path / "v.npz") == value


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.bool])
def test_tensors(tmp_path, dtype):
    tensor = torch.tensor([[0.0, 1.0, -2.0]]).to(dtype).t()
    save(tmp_path / "v.npz", (tensor,))
    (result,) = load(tmp_path / "v.npz")
    assert result.dtype is dtype
    assert torch.equal(result.float(), tensor.float())


def test_a_module_has_no_form(tmp_path):
    with pytest.raises(UnsupportedValueError, match="Linear"):
        save(tmp_path / "v.npz", [torch.nn.Linear(2, 2)])
