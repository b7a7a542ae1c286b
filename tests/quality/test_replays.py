"""Replays of stored failures: in another process, in a clone, as a script, and with a fixed kernel."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.corpus import CORPUS, copy_kernels

KERNELS = ("gelu_buggy", "matmul_buggy", "gather_buggy", "fixed_width_buggy", "in_place_buggy")
COUNTERPARTS = {"matmul_buggy": "matmul_tiled"}

pytestmark = pytest.mark.quality


def gpuemu(folder: Path, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, env=env, check=False)


def replays(folder: Path, case: str, kernel: str) -> list[dict]:
    ran = gpuemu(folder, "reproduce", case, "-k", kernel, "--format", "json")
    assert ran.returncode in (0, 1), ran.stderr
    return json.loads(ran.stdout)["replays"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    copy_kernels(KERNELS, folder)
    assert gpuemu(folder, "test", "--quick").returncode == 1
    return folder


@pytest.fixture(scope="module")
def failures(project: Path) -> list[dict]:
    stored = json.loads(gpuemu(project, "failures", "--limit", "100", "--format", "json").stdout)["failures"]
    assert {failure["kernel"] for failure in stored} == set(KERNELS)
    return stored


def test_every_failure_has_the_same_bits_in_a_fresh_clone(project: Path, failures: list[dict], tmp_path: Path) -> None:
    clone = tmp_path / "elsewhere" / "clone"
    shutil.copytree(project, clone)
    for failure in failures[::3]:
        here, there = (replays(folder, failure["case"], failure["kernel"]) for folder in (project, clone))
        assert here and len(here) == len(there)
        for one, other in zip(here, there, strict=True):
            assert one["verdict"] == other["verdict"] == "still fails"
            assert one["inputs_digest"] == other["inputs_digest"] != ""
            assert one["findings"][0]["message"] == other["findings"][0]["message"]


def test_different_cases_have_different_bits(project: Path, failures: list[dict]) -> None:
    cases = {failure["case"] for failure in failures if failure["kernel"] == "matmul_buggy"}
    digests = {replays(project, case, "matmul_buggy")[0]["inputs_digest"] for case in cases}
    assert len(digests) == len(cases) > 1


@pytest.mark.parametrize("kernel", ["matmul_buggy", "gather_buggy", "in_place_buggy"])
def test_the_script_fails_alone_and_passes_with_a_fixed_kernel(
    project: Path, failures: list[dict], tmp_path: Path, kernel: str
) -> None:
    case = next(failure["case"] for failure in failures if failure["kernel"] == kernel)
    script, ptx = tmp_path / "again.py", tmp_path / "wrong.ptx"
    ran = gpuemu(project, "reproduce", case, "-k", kernel, "--script", str(script), "--ptx", str(ptx))
    assert ran.returncode == 1 and "still fails" in ran.stdout
    assert ".version" in ptx.read_text()
    alone = tmp_path / "alone"
    alone.mkdir()
    shutil.move(script, alone / "renamed.py")
    shutil.move(tmp_path / "again.npz", alone / "renamed.npz")
    ran_alone = run_script(alone)
    assert ran_alone.returncode == 1, ran_alone.stderr
    assert f"{kernel} (float32), case {case}" in ran_alone.stdout and "fails on the" in ran_alone.stdout

    repaired = tmp_path / "repaired"
    shutil.copytree(project, repaired)
    source = next(repaired.rglob(f"{kernel}.cu"))
    counterpart = next(CORPUS.rglob(f"{COUNTERPARTS.get(kernel, kernel.removesuffix('_buggy'))}.cu"))
    source.write_text(counterpart.read_text())
    fixed = gpuemu(repaired, "reproduce", case, "-k", kernel, "--ptx", str(alone / "right.ptx"))
    assert fixed.returncode == 0 and "fixed" in fixed.stdout, fixed.stdout + fixed.stderr
    ran_alone = run_script(alone, "right.ptx")
    assert ran_alone.returncode == 0 and "passes on the" in ran_alone.stdout, ran_alone.stdout + ran_alone.stderr


def run_script(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "renamed.py", *arguments]
    env = {**os.environ, "PYTHONPATH": str(CORPUS.parent)}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, env=env, check=False)


def test_a_script_without_an_executor_reports_it(project: Path, failures: list[dict], tmp_path: Path) -> None:
    case = next(failure["case"] for failure in failures if failure["kernel"] == "matmul_buggy")
    gpuemu(project, "reproduce", case, "-k", "matmul_buggy", "--script", str(tmp_path / "again.py"))
    (tmp_path / "cupy.py").write_text("raise ImportError('none here')\n")  # a machine without either
    (tmp_path / "gpuemu_lsp.py").write_text("")
    ran = subprocess.run(
        [sys.executable, tmp_path / "again.py"], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 2 and "Not run" in ran.stdout


def test_a_picture_of_the_wrong_elements(project: Path, failures: list[dict], tmp_path: Path) -> None:
    case = next(failure["case"] for failure in failures if failure["kernel"] == "fixed_width_buggy")
    picture = tmp_path / "wrong.png"
    ran = gpuemu(project, "reproduce", case, "-k", "fixed_width_buggy", "--picture", str(picture))
    assert ran.returncode == 1 and "wrong elements of y" in ran.stdout
    data = picture.read_bytes()
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data.endswith(b"IEND\xaeB`\x82")


def test_a_script_that_cannot_be_written_is_an_error(project: Path, failures: list[dict], tmp_path: Path) -> None:
    case = next(failure["case"] for failure in failures if failure["kernel"] == "matmul_buggy")
    (tmp_path / "no folder").touch()
    ran = gpuemu(project, "reproduce", case, "-k", "matmul_buggy", "--script", str(tmp_path / "no folder" / "again.py"))
    assert ran.returncode == 2 and "again.py" in ran.stderr
