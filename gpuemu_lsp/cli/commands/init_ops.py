"""The example of ``gpuemu init --framework``: an op of a Python framework with its reference."""

from __future__ import annotations

FRAMEWORKS = {"pytorch": "pytorch", "torch": "pytorch", "jax": "jax", "tensorflow": "tensorflow", "tf": "tensorflow"}
"""Names of frameworks on the command line."""

_CONFIG = """\
# The ops to check, and their references. All keys: docs/config.md of gpuemu-lsp.

[project]
name = {name}
framework = "{framework}"

[[ops]]
name = "gelu"
op = "my_ops:gelu"
reference = "scripts/ref_gelu.py"

[ops.dims]
rows = {{ max = 16 }}
cols = {{ max = 300 }}

[ops.args]
x = {{ in = ["rows", "cols"] }}
"""
_OPS = {
    "pytorch": """\
import torch


def gelu(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")
""",
    "jax": """\
import jax
import numpy as np


def gelu(x: np.ndarray) -> np.ndarray:
    return np.asarray(jax.nn.gelu(x, approximate=True))
""",
    "tensorflow": """\
import numpy as np
import tensorflow as tf


def gelu(x: np.ndarray) -> np.ndarray:
    return tf.nn.gelu(x, approximate=True).numpy()
""",
}
_REFERENCE = '''\
import numpy as np


def reference(inputs, **kwargs):
    """Return the expected output of gelu. The inputs are those of the op, converted to fp64."""
    x = inputs["x"]
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))
'''


def op_files(title: str, framework: str) -> dict[str, str]:
    """Return the files of the example by path; ``title`` is the project's name as a TOML string."""
    return {
        "gpuemu.toml": _CONFIG.format(name=title, framework=framework),
        "my_ops.py": _OPS[framework],
        "scripts/ref_gelu.py": _REFERENCE,
    }
