"""``gpuemu doctor PATH``: how a file is compiled, and why kernels did not run."""

from __future__ import annotations

import json

from gpuemu_lsp.cli.gpuemu import main as gpuemu

RUNS = """\
__global__ void scale(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= N;
}
void host(float* x, int n) { scale<<<(n + 255) / 256, 256>>>(x, n); }
"""
MISSING = '#include "own/tile.h"\n__global__ void tiled(Tile* x) { x[0] = Tile(); }\n'
TEMPLATE = "template <typename A, int B> __global__ void many(A* x) { x[B] = 0; }\n"
TABLE = "__global__ void sampled(float** t, float* x) { x[0] = t[0][0]; }\n"


def _project(root):
    (root / ".git").mkdir()
    (root / "runs.cu").write_text(RUNS)
    (root / "a.cu").write_text(MISSING)
    (root / "b.cu").write_text(MISSING.replace("tiled", "tiled_too"))
    (root / "table.cu").write_text(TABLE)
    (root / "compile_flags.txt").write_text("-DN=2\n-march=native\n")


def test_a_project_by_reason_the_most_frequent_first(tmp_path, capsys):
    _project(tmp_path)
    assert gpuemu(["doctor", str(tmp_path)]) == 2
    text = capsys.readouterr().out
    assert text.startswith("4 kernels in 4 files: 1 ran, 3 did not run.\n")
    header = text.index("   2  header own/tile.h was not found\n      -> add its folder to `include_dirs` of `[build]`")
    assert header < text.index("   1  no values can be generated for the type of 't'\n")
    assert "      a.cu: tiled\n" in text


def test_a_project_as_json(tmp_path, capsys):
    _project(tmp_path)
    assert gpuemu(["doctor", str(tmp_path), "--format", "json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert (document["version"], document["kernels"], document["ran"]) == (1, 4, 1)
    assert [reason["count"] for reason in document["reasons"]] == [2, 1]
    assert document["reasons"][0]["kernels"][0]["name"] == "tiled"
    assert "build" not in document


def test_a_file_with_the_origin_of_every_setting(tmp_path, capsys):
    _project(tmp_path)
    assert gpuemu(["doctor", str(tmp_path / "runs.cu")]) == 0
    text = capsys.readouterr().out
    assert "From compile_flags.txt:\n  macro              -DN=2\n" in text
    assert "Ignored, since NVRTC has no such options: -march=native\n" in text
    assert "1 kernel in 1 file: 1 ran, 0 did not run." in text


def test_a_file_with_the_reason_of_each_kernel(tmp_path, capsys):
    _project(tmp_path)
    assert gpuemu(["doctor", str(tmp_path / "table.cu")]) == 2
    assert "\n      sampled: no values can be generated for the type of " in capsys.readouterr().out


def test_a_file_with_a_missing_header(tmp_path, capsys):
    _project(tmp_path)
    assert gpuemu(["doctor", str(tmp_path / "a.cu"), "--format", "json"]) == 2
    build = json.loads(capsys.readouterr().out)["build"]
    assert build["missing"] == [
        {
            "header": "own/tile.h",
            "package": None,
            "remedy": "add its folder to `include_dirs` of `[build]` in gpuemu.toml",
        }
    ]
    assert {"kind": "macro", "value": "-DN=2"}.items() <= build["settings"][0].items()


def test_a_path_that_does_not_exist(tmp_path, capsys):
    assert gpuemu(["doctor", str(tmp_path / "absent.cu")]) == 2
    assert "neither a file nor a registered kernel" in capsys.readouterr().err
