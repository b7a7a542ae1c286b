"""Values pass between processes without pickle."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

from gpuemu.judge.values import UnsupportedValueError, load, save


def test_nested_values(tmp_path):
    value = {"init": [1, 2.5, "text", None, True, (3, [4])], "dtype": torch.bfloat16}
    save(tmp_path / "v.npz", value)
    assert load(tmp_path / "v.npz") == value


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.bool])
def test_tensors(tmp_path, dtype):
    tensor = torch.tensor([[0.0, 1.0, -2.0], [2.0, 1.0, 0.0]]).to(dtype).t()
    save(tmp_path / "v.npz", (tensor,))
    (result,) = load(tmp_path / "v.npz")
    assert result.dtype is dtype
    assert torch.equal(result.float(), tensor.float())
    assert result.stride() == tensor.stride()


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(24.0).reshape(2, 3, 4).permute(2, 0, 1),
        torch.arange(24.0)[3::5],
        torch.arange(3.0).expand(4, 3),
    ],
)
def test_views(tmp_path, tensor):
    """A kernel may take an input for contiguous that is not."""
    save(tmp_path / "v.npz", (tensor,))
    (result,) = load(tmp_path / "v.npz")
    assert torch.equal(result, tensor)
    assert result.stride() == tensor.stride()


@dataclass
class Settings:
    rows: int
    scale: list[float]


def test_settings_have_attributes(tmp_path):
    save(tmp_path / "v.npz", [Settings(3, [0.5])])
    (result,) = load(tmp_path / "v.npz")
    assert vars(result) == {"rows": 3, "scale": [0.5]}


def test_a_module_has_no_form(tmp_path):
    with pytest.raises(UnsupportedValueError, match="Linear"):
        save(tmp_path / "v.npz", [torch.nn.Linear(2, 2)])
