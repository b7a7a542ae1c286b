"""Files with a byte order mark: the first line counts, and its columns are those of an editor, which hides the mark."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.cli.main import main
from gpuemu_lsp.engine.regular_file import readable_text
from gpuemu_lsp.engine.report.source_lines import line_text
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.headers.includes import load
from gpuemu_lsp.server.documents.parsed_files import text_on_disk

_FIRST = (
    "__global__ void first(float* y, const float* x, int n) { int i = threadIdx.x; if (i <= n) y[i] = 2.0f * x[i]; }\n"
)
_TOML = """[[kernels]]
name = "first"
source = "k.cu"
reference = "ref.py"
dims = { n = 4 }
args = { y = { out = ["n"] }, x = { in = ["n"] }, n = "n" }
launch = { grid = 1, block = 32 }
"""


@pytest.mark.parametrize("text", [_FIRST, "#define N 3\n" + _FIRST, "// a comment\n" + _FIRST])
def test_a_mark_that_an_editor_sends_is_white_space(text: str) -> None:
    source = read("/nowhere/k.cu", "\ufeff" + text)
    assert [kernel.name for kernel in source.kernels] == ["first"]
    assert source.device_view.startswith("   ")
    plain = read("/nowhere/k.cu", text)
    assert source.device_view[3:] == plain.device_view


def test_readers_of_files_remove_the_mark(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(_FIRST, encoding="utf-8-sig")
    assert readable_text(str(path)) == text_on_disk(str(path)) == _FIRST
    loaded = load(str(path))
    assert loaded is not None and loaded.raw == _FIRST
    assert line_text(str(path), 0) == _FIRST.rstrip()


@pytest.mark.parametrize(
    "marked", [("k.cu",), ("ref.py",), ("gpuemu.toml",), ("h.h",), ("k.cu", "ref.py", "gpuemu.toml", "h.h")]
)
def test_a_check_is_the_same_with_a_mark(
    marked: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    outputs = []
    for names in ((), marked):
        folder = tmp_path / ("marked" if names else "plain")
        folder.mkdir()
        files = {
            "k.cu": _FIRST + '#include "h.h"\n',
            "h.h": "__device__ inline float twice(float v) { return v * 2.0f; }\n",
            "ref.py": 'def reference(inputs):\n    return 2 * inputs["x"]\n',
            "gpuemu.toml": _TOML,
        }
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8-sig" if name in names else "utf-8")
        monkeypatch.chdir(folder)
        code = main(["--check", "k.cu"])
        text = capsys.readouterr().out
        outputs.append((code, [line for line in text.splitlines() if "k.cu:" in line]))
    assert outputs[0] == outputs[1]
    assert outputs[0][0] == 1
    assert any(line.startswith("k.cu:1:") for line in outputs[0][1])
