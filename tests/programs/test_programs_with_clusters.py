"""Programs that launch clusters by an attribute: right, with a planted bug, and the launches that CUDA refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_programs import HERE, gpuemu, toolchain  # noqa: F401 - the fixture skips without nvcc

SOURCE = (HERE / "clean/clusters.cu").read_text()
LAST_BARRIER = "    cluster.sync();  // its memory is read until here\n"


def built(folder: Path, text: str) -> str:
    (folder / "clusters.cu").write_text(text)
    program = str(folder / "clusters")
    done = gpuemu("nvcc", "-arch=sm_90", "-o", program, str(folder / "clusters.cu"))
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> str:
    return built(tmp_path_factory.mktemp("clusters"), SOURCE)


@pytest.mark.parametrize(
    ("words", "printed", "status"),
    [
        (("1", "3"), "PASS\n", 0),
        (("4", "8"), "PASS\n", 0),
        (("16", "32"), "PASS\n", 0),
        (("3", "8"), "cudaErrorInvalidClusterSize 1408\n", 3),  # of two blocks that are not a whole cluster
        (("16", "32", "not allowed"), "cudaErrorInvalidClusterSize 0\n", 3),
        (("17", "34"), "cudaErrorInvalidClusterSize 0\n", 3),
    ],
)
def test_a_launch_in_clusters(program: str, words: tuple[str, ...], printed: str, status: int) -> None:
    done = gpuemu("run", program, "--", *words)
    assert (done.stdout, done.returncode) == (printed, status), done.stderr
    assert "error[" not in done.stderr


def test_a_block_that_exits_while_its_memory_is_read(tmp_path: Path) -> None:
    assert SOURCE.count(LAST_BARRIER) == 1
    program, output = built(tmp_path, SOURCE.replace(LAST_BARRIER, "")), tmp_path / "result.json"
    done = gpuemu("run", program, "--format", "json", "--output", str(output))
    found = json.loads(output.read_text())["findings"]
    line = next(number for number, text in enumerate(SOURCE.splitlines()) if "map_shared_rank" in text)
    assert done.returncode == 1 and found
    assert {(one["rule"], one["range"]["start"]["line"]) for one in found} == {("memory/out-of-bounds", line)}
