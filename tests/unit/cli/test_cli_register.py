"""``gpuemu register FILE:KERNEL``: an entry with what was found, and questions for the rest."""

from __future__ import annotations

import tomllib

from gpuemu_lsp.cli.gpuemu import main as gpuemu

FOUND = """\
__global__ void scale(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= 2.0f;
}
"""
OPEN = """\
__global__ void gather(const int* at, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[at[i]];
}
void host(const int* at, const float* x, float* y, int n) { gather<<<(n + 255) / 256, 256>>>(at, x, y, n); }
"""


def _entries(root):
    return tomllib.loads((root / "gpuemu.toml").read_text())["kernels"]


def test_what_was_found_is_in_the_entry(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.cu").write_text(FOUND)
    assert gpuemu(["register", "scale.cu:scale"]) == 0
    (entry,) = _entries(tmp_path)
    assert (entry["name"], entry["source"], entry["reference"]) == ("scale", "scale.cu", "ref_scale.py")
    assert entry["args"]["x"] == {"inout": ["n"]}
    assert "def reference(inputs" in (tmp_path / "ref_scale.py").read_text()
    assert "How large" not in capsys.readouterr().out


def test_one_question_for_each_extent_not_found(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gather.cu").write_text(OPEN)
    assert gpuemu(["register", "gather.cu:gather"]) == 0
    asked = [line for line in capsys.readouterr().out.splitlines() if "How large is" in line]
    comments = [line for line in (tmp_path / "gpuemu.toml").read_text().splitlines() if line.startswith("# How large")]
    assert [line.strip() for line in asked] == [line.removeprefix("# ") for line in comments]
    assert "  How large is `x`? Assumed: n." in asked
    (entry,) = _entries(tmp_path)
    assert entry["args"]["x"] == {"in": ["n"]}
    assert entry["launch"]["block"] == [256]


def test_a_registered_kernel_stays_as_it_is(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.cu").write_text(FOUND)
    assert gpuemu(["register", "scale.cu:scale"]) == 0
    before = (tmp_path / "gpuemu.toml").read_text()
    assert gpuemu(["register", "scale.cu:scale"]) == 2
    assert (tmp_path / "gpuemu.toml").read_text() == before
    assert "registered already" in capsys.readouterr().err


def test_unknown_kernels_and_targets_are_errors_with_the_kernels_there_are(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "scale.cu").write_text(FOUND)
    assert gpuemu(["register", "scale.cu:scales"]) == 2
    assert "Its kernels are: scale." in capsys.readouterr().err
    assert gpuemu(["register", "scale.cu"]) == 2
    assert "is not FILE:KERNEL" in capsys.readouterr().err
    assert not (tmp_path / "gpuemu.toml").exists()
