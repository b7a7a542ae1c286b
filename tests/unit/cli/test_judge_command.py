"""``gpuemu judge`` without PyTorch: what it says of paths without answers, and of tasks that it cannot load."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gpuemu_lsp.cli.gpuemu import main

NO_TASK = "no task was found for this answer: name it with --reference"
SOLUTION = '{"definition": "x", "spec": {"language": "cuda", "entry_point": "a.cu::f"}, "sources": []}'


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.py", "x = 1\n", "no file with `class ModelNew`"),
        ("a.py", "class ModelNew:\n    pass\n", NO_TASK),
        ("submission.py", "def custom_kernel(data):\n    return data\n", NO_TASK),
        ("forward.cu", 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &f); }\n', NO_TASK),
        ("solution.json", SOLUTION, NO_TASK),
    ],
)
def test_answers_without_a_task(tmp_path, capsys, name, text, words):
    (tmp_path / name).write_text(text)
    assert main(["judge", str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


def test_pytorch_is_imported_in_child_processes_only():
    program = "import gpuemu.judge.command, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
