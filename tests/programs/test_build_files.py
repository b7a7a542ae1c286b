"""Programs built by make, by CMake and directly: the same output, exit code and findings.

make's are optimised: functions with launches and allocations are then inlined, and their lines must be found still.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_programs import GPUEMU, HERE, PASSING, gpuemu, toolchain  # noqa: F401 - the fixture skips without nvcc

SOURCES = [*PASSING, *sorted(HERE.glob("planted/*.cu"))]
GROUPS = [SOURCES[start::20] for start in range(20)]

MAKEFILE = """
NVCC = $(CUDA_HOME)/bin/nvcc
all: $(PROGRAMS)
%: %.o
\t$(NVCC) -arch=sm_60 -o $@ $< -L$(CUDA_HOME)/lib64 -lcudart
%.o: %.cu
\t$(NVCC) -O3 -arch=sm_60 -c -o $@ $<
"""
CMAKE = """
cmake_minimum_required(VERSION 3.20)
project(programs LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
set(CMAKE_CUDA_ARCHITECTURES 80 86)
"""


def tool(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None and not os.environ.get("GPUEMU_REQUIRE_PROGRAMS"):
        pytest.skip(f"{name} is not installed")
    assert found is not None, f"{name} is not installed"
    return found


@pytest.mark.parametrize("sources", GROUPS, ids=[str(number) for number in range(len(GROUPS))])
@pytest.mark.timeout(900)
def test_programs_have_the_same_result_however_they_are_built(sources: list[Path], tmp_path: Path) -> None:
    for source in sources:
        shutil.copy(source, tmp_path)
    names = [source.stem for source in sources]
    targets = "".join(
        f"add_executable({name} {name}.cu)\ntarget_link_libraries({name} CUDA::cudart)\n" for name in names
    )
    (tmp_path / "CMakeLists.txt").write_text(CMAKE + targets)
    (tmp_path / "Makefile").write_text(MAKEFILE)
    toolkit = gpuemu("nvcc", "--toolkit").stdout.strip()
    cmake = tool("cmake")
    for command in (
        (cmake, "-S", ".", "-B", "cmake", f"-DCMAKE_CUDA_COMPILER={toolkit}/bin/nvcc"),
        (cmake, "--build", "cmake", "--parallel", "2"),
        (tool("make"), "-j2", f"CUDA_HOME={toolkit}", f"PROGRAMS={' '.join(names)}"),
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    for name in names:
        by_make, by_cmake, directly = (result(tmp_path, one) for one in (name, f"cmake/{name}", f"{name}.cu"))
        assert by_make == by_cmake == directly


def result(folder: Path, program: str) -> tuple[object, ...]:
    """Return a program's output, exit code and launches, and its findings with all their places."""
    output = folder / "result.json"
    command = [*GPUEMU, "run", str(folder / program), "--format", "json", "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    document = json.loads(output.read_text())
    findings = [
        (
            one["rule"],
            one["message"],
            *((place["path"], place["range"]["start"]["line"]) for place in (one, *one["related"])),
        )
        for one in document["findings"]
    ]
    counts = [document[key] for key in ("exit_status", "launches", "checked", "repeated", "problem")]
    return done.stdout, done.returncode, counts, findings
