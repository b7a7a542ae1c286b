"""Baselines and artifact reports through the client, as the commands make them."""

from __future__ import annotations

import pytest

from gpuemu.client import Client

_TOML = """
[project]
name = "ops"

[[ops]]
name = "scale"
reference = "ref.py"
op = "library:scale"
dtypes = ["float32"]
[ops.dims]
n = { max = 40 }
[ops.args]
x = { in = ["n"] }
y = { out = ["n"] }

[[ops]]
name = "elsewhere"
reference = "ref.py"
module = "library"
"""
_REFERENCE = """
def reference(inputs, **kwargs):
    return inputs["x"] * 3
"""
_KERNEL = """
[project]
name = "kernels"

[[kernels]]
name = "twice"
source = "twice.cu"
reference = "ref.py"
[kernels.artifact_checks]
max_registers = 32
forbidden_patterns = ["__syncthreads"]
"""
_SOURCE = """
extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    BARRIER
    if (i < n) y[i] = 2.0f * x[i];
}
"""


@pytest.fixture
def client(tmp_path):
    (tmp_path / "gpuemu.toml").write_text(_TOML)
    (tmp_path / "ref.py").write_text(_REFERENCE)
    (tmp_path / "library.py").write_text("def scale(x):\n    return x * x.dtype.type(3)\n")
    return Client(tmp_path)


def test_a_regression_against_a_baseline(client, tmp_path, monkeypatch):
    from gpuemu_lsp.cli.gpuemu import main as gpuemu_command

    with pytest.warns(RuntimeWarning, match="not measured: elsewhere"):
        assert client.store_baseline("v1") == ("scale",)
    with pytest.warns(RuntimeWarning, match="elsewhere"):
        same = client.compare_baseline("v1")
    assert (same.unchanged, same.regressions, same.not_measured) == (("scale",), (), ("elsewhere",))
    assert not same.passed
    # The slightly wrong one is within its tolerance.
    (tmp_path / "library.py").write_text("def scale(x):\n    return x * x.dtype.type(3.0000004)\n")
    with pytest.warns(RuntimeWarning, match="elsewhere"):
        worse = client.compare_baseline("v1")
    assert (worse.passed, worse.regressions) == (False, ("scale",))
    assert "1 regressed" in str(worse)
    monkeypatch.chdir(tmp_path)
    assert gpuemu_command(["diff", "--baseline", "v1", "--fail-on-regression"]) == 1


def test_tags(client):
    for tag in ("", "@saved"):
        with pytest.raises(ValueError, match="tag"):
            client.store_baseline(tag)
    with pytest.raises(ValueError, match="no baseline 'v9'; none is stored"):
        client.compare_baseline("v9")


def test_what_was_not_measured_is_not_stored(tmp_path):
    (tmp_path / "gpuemu.toml").write_text(_TOML[: _TOML.index("[[ops]]")])
    with pytest.raises(ValueError, match="nothing was measured"):
        Client(tmp_path).store_baseline("v1")


def test_ptx_and_the_limits_of_a_kernel(tmp_path, capsys, monkeypatch):
    from gpuemu_lsp.cli.gpuemu import main as gpuemu_command

    (tmp_path / "gpuemu.toml").write_text(_KERNEL)
    (tmp_path / "ref.py").write_text(_REFERENCE)
    monkeypatch.chdir(tmp_path)
    texts = []
    for barrier in ("", "__syncthreads();"):
        (tmp_path / "twice.cu").write_text(_SOURCE.replace("BARRIER", barrier))
        assert gpuemu_command(["lint", "--kernel", "twice", "--emit-ptx", "twice.ptx"]) in (0, 1)
        texts.append((tmp_path / "twice.ptx").read_text())
    client = Client()
    right = client.lint_kernel(texts[0], "twice")
    assert right.passed
    assert any("Registers" in line for line in right.lines)
    assert not client.lint_kernel(texts[1]).passed
    assert not client.lint_kernel("twice.ptx")
    assert client.lint_kernel("this is\nno PTX", "twice").results == ("INCOMPLETE",)
    with pytest.raises(ValueError, match="no kernel 'thrice'"):
        client.lint_kernel(texts[0], "thrice")
    with pytest.raises(ValueError, match="no entry"):
        client.lint_kernel(texts[0].replace("twice", "other"))
