"""Recordings are read as they were written; damaged ones are an error with a message, whatever is wrong."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.nvcc import required_nvcc
from support.recordings import MadeLaunch, record

from gpuemu_lsp.cli.commands.run import run
from gpuemu_lsp.engine.recordings.model import RecordingError
from gpuemu_lsp.engine.recordings.project_files import read_recordings
from gpuemu_lsp.engine.recordings.reader import DESCRIPTION, read_contents, read_recording
from gpuemu_lsp.engine.runtime.program import RunLimits

SOURCE = """__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""


@pytest.fixture
def written(tmp_path: Path) -> Path:
    source = tmp_path / "scale.cu"
    source.write_text(SOURCE)
    x = np.arange(100, dtype=np.float32)
    return record(source, "scale", [MadeLaunch((x, x, 100), 1, 128)])


def rewritten(path: Path, change) -> None:
    """Replace the description by a changed one; the contents remain."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    document = json.loads(members[DESCRIPTION])
    change(document)
    members[DESCRIPTION] = json.dumps(document).encode()
    path.unlink()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def test_a_recording_is_read_as_written(written: Path) -> None:
    recording = read_recording(written)
    (launch,) = recording.launches
    (kernel,) = recording.kernels
    assert (kernel.name, kernel.source) == ("scale", str(written.parents[2] / "scale.cu"))
    assert launch.grid == (1, 1, 1)
    assert [one.offset for one in launch.pointers] == [0, 8]
    first, second = launch.allocations
    assert first.before == second.before
    assert np.frombuffer(read_contents(str(written), first.before), np.float32)[99] == 99


def test_equal_contents_are_stored_once(written: Path) -> None:
    with zipfile.ZipFile(written) as archive:
        assert len(archive.namelist()) == 2


def test_the_folder_is_excluded_from_version_control(written: Path) -> None:
    assert (written.parents[1] / ".gitignore").read_text() == "*\n"


CHANGES = {
    "another version": lambda one: one.update(version=2),
    "another format": lambda one: one.update(format="other"),
    "no launches": lambda one: one.pop("launches"),
    "launches of another type": lambda one: one.update(launches={}),
    "kernel that does not exist": lambda one: one["launches"][0].update(kernel=7),
    "negative kernel": lambda one: one["launches"][0].update(kernel=-1),
    "boolean as a number": lambda one: one["launches"][0].update(shared=True),
    "empty grid": lambda one: one["launches"][0].update(grid=[0, 1, 1]),
    "two extents": lambda one: one["launches"][0].update(grid=[1, 1]),
    "huge grid": lambda one: one["launches"][0].update(grid=[1 << 31, 1, 1]),
    "short parameters": lambda one: one["launches"][0].update(parameters="00"),
    "parameters that are not numbers": lambda one: one["launches"][0].update(parameters="zz"),
    "pointer outside of the parameters": lambda one: one["launches"][0]["pointers"][0].update(offset=1000),
    "allocation that does not exist": lambda one: one["launches"][0]["pointers"][0].update(allocation=9),
    "pointer past its allocation": lambda one: one["launches"][0]["pointers"][0].update(target=401),
    "negative size": lambda one: one["launches"][0]["allocations"][0].update(size=-4),
    "path as a digest": lambda one: one["launches"][0]["allocations"][0].update(before="../../etc/passwd"),
    "site without a line": lambda one: one["launches"][0].update(site={"path": "a.cu"}),
    "infinite time": lambda one: one["groups"][0].update(seconds=float("inf")),
    "name that is a number": lambda one: one["kernels"][0].update(name=3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_every_field_is_validated(written: Path, change) -> None:
    rewritten(written, change)
    with pytest.raises(RecordingError, match=r"scale\.gpurec"):
        read_recording(written)


def test_a_file_that_is_cut_off_is_an_error(written: Path) -> None:
    data = written.read_bytes()
    for size in (0, 10, len(data) // 2, len(data) - 5):
        written.write_bytes(data[:size])
        with pytest.raises(RecordingError):
            read_recording(written)
        recordings, errors = read_recordings(written.parents[2])
        assert (len(recordings), len(errors)) == (0, 1)


def test_changed_bytes_are_an_error_and_nothing_else(written: Path) -> None:
    data = written.read_bytes()
    for place in range(0, len(data), 7):
        written.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            recording = read_recording(written)
            for launch in recording.launches:
                for one in launch.allocations:
                    if one.before is not None:
                        read_contents(str(written), one.before)
        except RecordingError:
            pass


def test_a_member_that_is_too_large_is_not_read(written: Path) -> None:
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(DESCRIPTION, b" " * ((64 << 20) + 1))
    with pytest.raises(RecordingError, match="too large"):
        read_recording(written)


def test_a_run_without_a_launch_leaves_an_earlier_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    required_nvcc()
    path = tmp_path / "x.gpurec"
    path.write_bytes(b"earlier")
    run(["true"], RunLimits(60), "text", None, record=str(path))
    assert f"nothing was recorded in {path}; that of an earlier run stays" in capsys.readouterr().err
    assert [one.read_bytes() for one in tmp_path.iterdir()] == [b"earlier"]
