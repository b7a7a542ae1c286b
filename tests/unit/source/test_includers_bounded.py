"""A header outside of any project does not have everything around it read."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

includers = import_module("gpuemu_lsp.engine.source.includers")  # the package has a function of its name


def test_only_so_many_folders_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "home"
    for number in range(20):
        (home / f"d{number:02}").mkdir(parents=True)
    header = home / "k.cuh"
    header.write_text("__global__ void k(float* x) { x[0] = 1.0f; }\n", encoding="utf-8")
    user = '#include "../k.cuh"\nvoid run(float* x) { k<<<1, 1>>>(x); }\n'
    for name in ("d00", "d19"):
        (home / name / "main.cu").write_text(user, encoding="utf-8")
    names = [str(home / name / "main.cu") for name in ("d00", "d19")]
    assert list(includers.includers(str(header))) == names
    monkeypatch.setattr(includers, "_MAX_FOLDERS", 5)
    assert list(includers.includers(str(header))) == names[:1]
