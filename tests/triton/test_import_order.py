"""PyTorch imported after `activate()`: the device `cuda` is there as well."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gpuemu.triton
gpuemu.triton.activate()
import torch
assert torch.cuda.is_available()
assert torch.zeros(1, device="cuda").is_cuda
"""


def test_pytorch_imported_after_activation_has_the_device():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
