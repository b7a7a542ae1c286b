"""Includers of a header: a bounded search, and launched names that follow changes on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuemu_lsp.engine.hostcode.cpp.launch_sites import sites_in_includers
from gpuemu_lsp.engine.source import includers
from gpuemu_lsp.engine.source.headers import nearby_sources


def test_the_number_of_searched_folders_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home = tmp_path / "home"
    for number in range(20):
        (home / f"d{number:02}").mkdir(parents=True)
    header = home / "k.cuh"
    header.write_text("__global__ void k(float* x) { x[0] = 1.0f; }\n", encoding="utf-8")
    user = '#include "../k.cuh"\nvoid run(float* x) { k<<<1, 1>>>(x); }\n'
    for name in ("d00", "d19"):
        (home / name / "main.cu").write_text(user, encoding="utf-8")
    names = [str(home / name / "main.cu") for name in ("d00", "d19")]
    assert list(includers(str(header))) == names
    monkeypatch.setattr(nearby_sources, "_MAX_FOLDERS", 5)
    assert list(includers(str(header))) == names[:1]


def launched(header: Path) -> list[str]:
    return [launch.kernel for launch in sites_in_includers(str(header), ["k"])]


def test_added_and_removed_launches_are_seen(tmp_path: Path):
    header, user = tmp_path / "k.cuh", tmp_path / "main.cu"
    header.write_text("__global__ void k(float* x) { x[0] = 1.0f; }\n", encoding="utf-8")
    text = '#include "k.cuh"\nvoid run(float* x) { %s<<<1, 1>>>(x); }\n'
    for name, expected in (("k", ["k"]), ("j", []), ("k", ["k"])):  # all of one length
        user.write_text(text % name, encoding="utf-8")
        os.utime(user, (1, 1))  # old enough to be cached; the status change time still differs
        assert launched(header) == expected
        assert launched(header) == expected
    user.unlink()
    assert launched(header) == []


@pytest.mark.parametrize("head", ["k<float><<<1, 1>>>", "k\n  <<<1, 1>>>", "cudaLaunchKernel((void*)k, "])
def test_launched_names(tmp_path: Path, head: str):
    (tmp_path / "main.cu").write_text(f"{head}(x)", encoding="utf-8")
    assert b"k" in nearby_sources.launched_names(str(tmp_path / "main.cu"))


def test_a_long_word_takes_linear_time(tmp_path: Path):
    (tmp_path / "main.cu").write_text("k<<<1, 1>>>(x); // " + "a" * 900_000 + " " * 90_000, encoding="utf-8")
    assert b"k" in nearby_sources.launched_names(str(tmp_path / "main.cu"))
