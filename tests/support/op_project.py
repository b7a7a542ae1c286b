"""A project with one op, for the tests of frameworks."""

from __future__ import annotations

from gpuemu.client import Client

_TOML = """
[project]
name = "ops"

[[ops]]
name = "gelu"
reference = "ref.py"
[ops.dims]
rows = { max = 5 }
cols = { max = 20 }
[ops.args]
x = { in = ["rows", "cols"] }
"""
_REFERENCE = """
import numpy as np

def reference(inputs, **kwargs):
    x = inputs["x"]
    return 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))
"""


def gelu_client(folder):
    """Return a client of a project in this folder with the op ``gelu``."""
    (folder / "gpuemu.toml").write_text(_TOML)
    (folder / "ref.py").write_text(_REFERENCE)
    return Client(folder)
