"""A program with eight unregistered kernels: after one recorded run, checks use its launches.

It needs nvcc, as the other programs do.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.nvcc import required_nvcc

from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.recordings.reader import read_recording

SOURCE = Path(__file__).parent / "recorded" / "eight_kernels.cu"
BUGS = {
    "saxpy": ("if (i < n) y[i] = a", "if (i <= n) y[i] = a", "memory/out-of-bounds"),
    "row_sum": (
        "partial[threadIdx.x + step];\n        __syncthreads();",
        "partial[threadIdx.x + step];",
        "shared-race",
    ),
    "gather": ("x[index[i]]", "x[index[i] * 4]", "memory/out-of-bounds"),
    "csr_multiply": ("k < starts[row + 1]", "k <= starts[row + 1]", "memory/out-of-bounds"),
    "filter": ("i + 3 >= n", "i + 2 >= n", "memory/out-of-bounds"),
    "scale_struct": ("i < p.n", "i <= p.n", "memory/out-of-bounds"),
    "sum_tables": ("k < count", "k <= count", "memory/out-of-bounds"),
    "histogram": (
        "threadIdx.x < 64) local[threadIdx.x] = 0",
        "threadIdx.x < 63) local[threadIdx.x] = 0",
        "uninitialized",
    ),
}
"""By kernel: the text, the bug in its place, and a part of the rule that finds it."""
LINES = {
    "row_sum": "partial[threadIdx.x] +=",
    "csr_multiply": "sum += values[k]",
    "filter": "sum += weights[k]",
    "sum_tables": "sum += tables[k][i]",
    "histogram": "&local[data[i]]",
}
"""A part of the line with the wrong access, where that is not the line of the bug."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    required_nvcc()
    folder = tmp_path_factory.mktemp("recorded")
    shutil.copy(SOURCE, folder / "program.cu")
    done = run(folder, "gpuemu_lsp.cli.gpuemu", "run", "--record", "program.cu")
    assert (done.stdout, done.returncode) == ("16\n", 0), done.stderr
    assert "recorded 8 launches of 8 kernels" in done.stderr
    return folder


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def checked(folder: Path) -> dict:
    done = run(folder, "gpuemu_lsp", "--check", "program.cu", "--format", "json")
    return json.loads(done.stdout)


def test_a_recording_has_launches_sites_and_contents(recorded: Path) -> None:
    recording = read_recording(recorded / ".gpuemu" / "recordings" / "program.gpurec")
    lines = (recorded / "program.cu").read_text().splitlines()
    assert len(recording.launches) == len(recording.groups) == 8
    for launch in recording.launches:
        name = recording.kernels[launch.kernel].name
        assert launch.site is not None and f"{name}<" in lines[launch.site.line - 1]
        assert launch.clean and launch.left_out is None
    tables = next(one for one in recording.launches if recording.kernels[one.kernel].name == "sum_tables")
    assert [one.addresses for one in tables.allocations].count(True) == 1


def test_all_eight_kernels_are_checked_on_their_recorded_launches_and_clean(recorded: Path) -> None:
    report = checked(recorded)
    assert {one["name"] for one in report["kernels"]} == set(BUGS)
    assert all(one["cases"]["run"] == one["cases"]["passed"] >= 1 for one in report["kernels"])
    assert all("that a run recorded" in one["message"] for one in report["findings"])
    assert {one["severity"] for one in report["findings"]} == {"hint"}


@pytest.mark.timeout(900)
def test_bugs_that_are_typed_in_are_on_their_lines_and_reproduce_and_minimize(recorded: Path) -> None:
    source = recorded / "program.cu"
    text = SOURCE.read_text()
    for old, new, _ in BUGS.values():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    source.write_text(text)
    try:
        errors = [one for one in checked(recorded)["findings"] if one["severity"] == "error"]
        assert {one["kernel"] for one in errors} == set(BUGS)
        lines = text.splitlines()
        for kernel, (_, new, rule) in BUGS.items():
            found = [one for one in errors if one["kernel"] == kernel]
            marker = LINES.get(kernel, new)
            assert any(rule in one["rule"] for one in found), (kernel, found)
            assert all(marker in lines[one["range"]["start"]["line"]] for one in found), (kernel, found)
        case = next(one for one in errors if one["kernel"] == "saxpy")["case"]
        again = run(recorded, "gpuemu_lsp.cli.gpuemu", "reproduce", case, "--script", "again.py")
        assert (again.returncode, "still fails" in again.stdout) == (1, True), again.stdout + again.stderr
        assert (recorded / "again.npz").exists()
        smaller = run(recorded, "gpuemu_lsp.cli.gpuemu", "minimize", case)
        assert (smaller.returncode, "n = 1000 -> n = 1\n" in smaller.stdout) == (1, True), (
            smaller.stdout + smaller.stderr
        )
        source.write_text(SOURCE.read_text())
        fixed = run(recorded, "gpuemu_lsp.cli.gpuemu", "reproduce", case)
        assert (fixed.returncode, "fixed" in fixed.stdout) == (0, True), fixed.stdout + fixed.stderr
    finally:
        source.write_text(SOURCE.read_text())


def test_recorded_kernels_are_registered_with_their_launches(recorded: Path, tmp_path: Path) -> None:
    """The entries say what the run used: with them nothing but the missing formulas is found."""
    shutil.copytree(recorded / ".gpuemu" / "recordings", tmp_path / ".gpuemu" / "recordings")
    shutil.copy(SOURCE, tmp_path / "program.cu")
    done = run(tmp_path, "gpuemu_lsp.cli.gpuemu", "register", "--from-recording")
    assert done.returncode == 0, done.stderr
    assert "sum_tables cannot be registered: `tables` has addresses" in done.stderr
    entries = {spec.name: spec for spec in load(str(tmp_path / "gpuemu.toml")).kernels}
    assert entries.keys() == BUGS.keys() - {"sum_tables"}
    config = (tmp_path / "gpuemu.toml").read_text()
    assert "# How large is `x`? Assumed: 3700." in config
    assert "n = { min = 1, max = 1000 }" in config
    report = json.loads(run(tmp_path, "gpuemu_lsp", "--check", ".", "--format", "json").stdout)
    assert {one["name"] for one in report["kernels"]} == {*BUGS}
    found = {one["rule"] for one in report["findings"] if one["severity"] in ("error", "warning")}
    assert found == {"numeric/tolerance-exceeded"}, found
    again = run(tmp_path, "gpuemu_lsp.cli.gpuemu", "register", "--from-recording")
    assert (again.returncode, "sum_tables cannot be registered" in again.stderr) == (2, True), again.stderr


def test_one_recorded_kernel_is_registered_by_name(recorded: Path, tmp_path: Path) -> None:
    shutil.copytree(recorded / ".gpuemu" / "recordings", tmp_path / ".gpuemu" / "recordings")
    shutil.copy(SOURCE, tmp_path / "program.cu")
    done = run(tmp_path, "gpuemu_lsp.cli.gpuemu", "register", "program.cu:gather", "--from-recording")
    assert (done.returncode, [one.name for one in load(str(tmp_path / "gpuemu.toml")).kernels]) == (0, ["gather"])
    other = tmp_path / "elsewhere.gpurec"
    shutil.copy(tmp_path / ".gpuemu" / "recordings" / "program.gpurec", other)
    refused = run(tmp_path, "gpuemu_lsp.cli.gpuemu", "register", "--from-recording", str(other))
    assert (refused.returncode, "is not used by checks" in refused.stderr) == (2, True), refused.stderr


def test_launches_of_a_loop_are_recorded_with_their_own_scalars(tmp_path: Path) -> None:
    required_nvcc()
    (tmp_path / "loop.cu").write_text(
        "__global__ void add(int* x, int step) { x[threadIdx.x] += step; }\n"
        "int main() {\n"
        "    int* x;\n"
        "    cudaMalloc(&x, 4 * sizeof(int));\n"
        "    cudaMemset(x, 0, 4 * sizeof(int));\n"
        "    for (int step = 1; step <= 3; step++) add<<<1, 4>>>(x, step);\n"
        "}\n"
    )
    done = run(tmp_path, "gpuemu_lsp.cli.gpuemu", "run", "--record", "loop.cu")
    assert done.returncode == 0, done.stderr
    recording = read_recording(tmp_path / ".gpuemu" / "recordings" / "loop.gpurec")
    assert [int.from_bytes(one.parameters[8:12], "little") for one in recording.launches] == [1, 2, 3]
