"""Recordings of programs with extensions: their kernels are checked with the launches, where the user has them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuemu_lsp.engine.recordings.reader import read_recording

INLINE = Path(__file__).parents[2] / "examples" / "torch" / "inline" / "row_sums.py"


@pytest.fixture(scope="module")
def recorded(gpuemu_run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    shutil.copy(INLINE, folder)
    done = gpuemu_run("--record", INLINE.name, folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "recorded 4 launches of 4 kernels" in done.stderr
    return folder


def checked(folder: Path) -> dict:
    command = [sys.executable, "-m", "gpuemu_lsp", "--check", INLINE.name, "--format", "json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=850, check=False)
    return json.loads(done.stdout)


def test_kernels_of_a_string_are_recorded_as_those_of_the_python_file(recorded: Path):
    recording = read_recording(recorded / ".gpuemu" / "recordings" / "row_sums.gpurec")
    assert {Path(kernel.source or "") for kernel in recording.kernels} == {(recorded / INLINE.name).resolve()}
    assert [kernel.name for kernel in recording.kernels] == ["row_sums"] * 3 + ["scale_rows"]
    # What operators have written is there as well.
    assert all(launch.clean and launch.allocations[0].before is not None for launch in recording.launches)


def test_all_instances_are_checked_and_clean(recorded: Path):
    report = checked(recorded)
    assert [one["name"] for one in report["kernels"]] == ["row_sums", "scale_rows"]
    assert all(one["cases"]["run"] == one["cases"]["passed"] >= 3 for one in report["kernels"])
    assert not [one for one in report["findings"] if one["severity"] != "hint"]
    recorded_of = [one for one in report["findings"] if "that a run recorded: row_sums, row_sums.py:" in one["message"]]
    assert {(one["kernel"], one["dtype"]) for one in recorded_of} >= {
        ("row_sums", "float32"),
        ("scale_rows", "float32"),
    }


def test_a_bug_that_is_typed_into_the_string_is_on_its_line(recorded: Path):
    source = recorded / INLINE.name
    text = source.read_text()
    old, new = "i < columns; i += blockDim.x", "i <= columns; i += blockDim.x"
    assert text.count(old) == 1
    source.write_text(f"# a line before it\n{text.replace(old, new)}")
    errors = [one for one in checked(recorded)["findings"] if one["severity"] == "error"]
    lines = source.read_text().splitlines()
    assert {(one["rule"], lines[one["range"]["start"]["line"]].strip()) for one in errors} == {
        ("memory/out-of-bounds", "sum += static_cast<float>(x[blockIdx.x * (size_t)columns + i]);")
    }
    assert all("as recorded in row_sums, row_sums.py:36" in one["message"] for one in errors)
