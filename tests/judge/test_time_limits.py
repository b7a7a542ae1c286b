"""The time limit of an answer is for its calls: what is built once does not count."""

from __future__ import annotations

import pytest

from gpuemu.judge import processes
from gpuemu.judge.extension_folders import extension_folder
from gpuemu.judge.model import Answer

PAIR = "class Model: ...\nclass ModelNew: ...\n"
WITH_EXTENSION = f"from torch.utils.cpp_extension import load_inline\n{PAIR}"


@pytest.fixture
def steps(tmp_path, monkeypatch):
    """Run an answer with another limit than the usual one; return what was built, and the limit of its process."""
    taken = []
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(processes, "torch_toolkit", lambda torch: taken.append("device"))
    monkeypatch.setattr(processes, "run_supervised", lambda words, seconds, **_: taken.append(seconds))
    monkeypatch.setattr(processes, "_END_SECONDS", 0)

    def run(text):
        taken.clear()
        path = tmp_path / "answer.py"
        path.write_text(text)
        processes.run_answer(Answer("answer.py", path, path), (), tmp_path, 50)
        return list(taken)

    return run


def test_the_device_is_built_before_the_limit_begins(steps):
    assert steps(PAIR) == ["device", 50]


def test_extensions_have_more_time_until_they_are_built(steps, tmp_path):
    assert steps(WITH_EXTENSION) == ["device", 50 + processes._BUILD_SECONDS]
    with extension_folder(WITH_EXTENSION, tmp_path) as folder:
        (folder / "name").mkdir()
        (folder / "name" / "name.so").touch()
    assert steps(WITH_EXTENSION) == ["device", 50]
