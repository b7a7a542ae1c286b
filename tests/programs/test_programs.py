"""Whole CUDA programs: built by ``gpuemu nvcc``, run by ``gpuemu run``, in processes of their own.

They need nvcc, the extra ``run``; without it they are skipped, unless ``GPUEMU_REQUIRE_PROGRAMS`` is set.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.nvcc import required_nvcc

HERE = Path(__file__).parent
GPUEMU = (sys.executable, "-m", "gpuemu_lsp.cli.gpuemu")


@pytest.fixture(autouse=True, scope="module")
def toolchain() -> None:
    required_nvcc()


def gpuemu(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*GPUEMU, *words], capture_output=True, text=True, timeout=280, check=False)


@pytest.mark.parametrize(
    ("name", "printed", "status"),
    [("saxpy", "y[10] = 60\n", 7), ("pointers", "300 1197\n", 0), ("errors", "out of memory: 1\n", 0)],
)
def test_a_correct_program_keeps_its_output_and_exit_code(name: str, printed: str, status: int) -> None:
    done = gpuemu("run", str(HERE / "clean" / f"{name}.cu"))
    assert (done.stdout, done.returncode) == (printed, status), done.stderr


PASSING = sorted(path for path in (HERE / "clean").glob("*.cu") if "PASS(" in path.read_text())


@pytest.mark.parametrize("source", PASSING, ids=lambda path: path.stem)
def test_a_correct_program_passes_its_own_check_and_is_clean(source: Path) -> None:
    done = gpuemu("run", str(source))
    assert (done.stdout.splitlines()[-1:], done.returncode) == (["PASS"], 0), done.stdout + done.stderr
    assert ("warning[" in done.stderr) == ("a warning" in source.read_text().partition("\n")[0])


def marked(lines: list[str], mark: str) -> int | None:
    """Return the number of the line with a comment, 0-based."""
    return next((number for number, line in enumerate(lines) if f"// {mark}" in line), None)


@pytest.mark.parametrize("source", sorted((HERE / "planted").glob("*.cu")), ids=lambda path: path.stem)
def test_a_planted_bug_is_found_on_its_line(source: Path, tmp_path: Path) -> None:
    lines = source.read_text().splitlines()
    line = marked(lines, "bug")
    assert line is not None
    rule = lines[line].rpartition("bug: ")[2]
    output = tmp_path / "result.json"
    done = gpuemu("run", str(source), "--format", "json", "--output", str(output))
    assert done.returncode == (2 if rule == "api/unsupported" else 1), done.stderr
    found = json.loads(output.read_text())["findings"]
    assert {(one["rule"], one["range"]["start"]["line"]) for one in found} == {(rule, line)}
    assert lines[0].partition("// says: ")[2] in found[0]["message"]
    related = {one["range"]["start"]["line"]: one["message"] for one in found[0]["related"]}
    allocation, launch = marked(lines, "allocated"), marked(lines, "launched")
    if allocation is not None:
        assert "bytes, allocated at" in related[allocation]
    if launch is not None:
        assert "launched here as" in related[launch]
    inlined = marked(lines, "inlined")
    if inlined is not None:
        assert related[inlined] == "inlined here"
    other = marked(lines, "the other access")
    if other is not None:
        assert related[other] == "the other access"


def test_a_copy_of_elements_that_were_not_written_is_information(tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    done = gpuemu("run", str(HERE / "clean" / "part_of_an_array.cu"), "--format", "json", "--output", str(output))
    assert done.returncode == 0, done.stderr
    (finding,) = json.loads(output.read_text())["findings"]
    assert (finding["rule"], finding["severity"]) == ("api/uninitialized-copy", "information")
    assert "400 bytes to the host of which 264 were never written, such as 136 to 399" in finding["message"]


def test_a_leak_is_reported_on_request(tmp_path: Path) -> None:
    output = tmp_path / "result.json"
    done = gpuemu("run", "--leaks", str(HERE / "planted" / "race.cu"), "--format", "json", "--output", str(output))
    assert done.returncode == 1, done.stderr
    found = {one["rule"]: one["range"]["start"]["line"] for one in json.loads(output.read_text())["findings"]}
    assert found["api/leak"] == 8


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("fixpoint", "checked 2101 of 2,101 launches (2,097 proved repeats)"),
        ("repeated_launches", "checked 495 of 495 launches (479 proved repeats)"),
        ("repeats_in_streams", "checked 200 of 200 launches (192 proved repeats)"),
        ("library_calls", "checked 0 of 0 launches and 3 library calls"),
    ],
)
def test_repeats_and_library_calls_are_counted(name: str, counts: str) -> None:
    done = gpuemu("run", str(HERE / "clean" / f"{name}.cu"))
    assert done.stdout == "PASS\n"
    assert counts in done.stderr


def test_memory_that_a_header_of_cuda_allocates_has_the_line_of_the_program(tmp_path: Path) -> None:
    header = tmp_path / "nvidia" / "cu13" / "vector.h"
    header.parent.mkdir(parents=True)
    header.write_text("inline int* values(int n) { int* x; cudaMalloc(&x, n * sizeof *x); return x; }\n")
    source = tmp_path / "past_end.cu"
    source.write_text(
        f'#include "{header}"\n'
        "__global__ void fill(int* x) { x[threadIdx.x] = 1; }\n"
        "int main() {\n    int* x = values(31);\n    fill<<<1, 32>>>(x);\n    return cudaDeviceSynchronize();\n}\n"
    )
    done = gpuemu("run", str(source))
    assert "124 bytes, allocated at past_end.cu:4" in done.stderr


def test_a_program_built_with_a_makefile_s_options_runs_with_arguments(tmp_path: Path) -> None:
    program = tmp_path / "saxpy"
    built = gpuemu("nvcc", "-O2", "-arch=sm_60", "-o", str(program), str(HERE / "clean" / "saxpy.cu"))
    assert built.returncode == 0, built.stderr
    done = gpuemu("run", str(program), "20")
    assert (done.stdout, done.returncode) == ("y[10] = 60\n", 7)
    alone = subprocess.run([program], capture_output=True, text=True, check=False)
    assert "start it with `gpuemu run`" in alone.stderr


@pytest.mark.parametrize("options", [("-Xcompiler", "-pie"), ("-O3", "-Xcompiler", "-no-pie")])
def test_lines_are_found_however_a_program_is_built(options: tuple[str, ...], tmp_path: Path) -> None:
    source = HERE / "planted" / "launch_at_the_end.cu"
    lines = source.read_text().splitlines()
    program, output = tmp_path / "program", tmp_path / "result.json"
    assert gpuemu("nvcc", *options, "-o", str(program), str(source)).returncode == 0
    gpuemu("run", str(program), "--format", "json", "--output", str(output))
    (finding,) = json.loads(output.read_text())["findings"]
    assert {one["range"]["start"]["line"] for one in finding["related"]} == {
        marked(lines, "launched"),
        marked(lines, "allocated"),
    }
    subprocess.run(["strip", "-g", str(program)], check=True)
    assert "compile the program's host code with -g" in gpuemu("run", str(program)).stderr


@pytest.mark.parametrize("per_thread", [False, True])
def test_the_default_stream_is_that_of_the_program_or_of_a_thread(per_thread: bool, tmp_path: Path) -> None:
    """The end of a host thread does not wait for its kernels, which a copy in the legacy default stream does."""
    source, program, output = tmp_path / "join.cu", tmp_path / "join", tmp_path / "result.json"
    source.write_text(
        "#include <thread>\n#include <cuda_runtime.h>\n"
        "__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }\n"
        "int main() {\n    int *x, y[64], z[64];\n    cudaMalloc(&x, sizeof y);\n"
        "    std::thread waits([&] { fill<<<1, 64>>>(x); cudaStreamSynchronize(0); });\n    waits.join();\n"
        "    cudaMemcpy(y, x, sizeof y, cudaMemcpyDefault);\n"
        "    std::thread goes([&] { fill<<<1, 64>>>(x); });\n    goes.join();\n"
        "    cudaMemcpy(z, x, sizeof z, cudaMemcpyDefault);\n    return y[9] != 9 || z[9] != 9;\n}\n"
    )
    options = ("--default-stream", "per-thread") if per_thread else ()
    built = gpuemu("nvcc", *options, "-o", str(program), str(source))
    assert built.returncode == 0, built.stderr
    done = gpuemu("run", str(program), "--format", "json", "--output", str(output))
    found = [(one["rule"], one["range"]["start"]["line"]) for one in json.loads(output.read_text())["findings"]]
    assert (found, done.returncode) == (([("api/stream-race", 11)], 1) if per_thread else ([], 0)), done.stderr


def test_a_program_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    source = tmp_path / "endless.cu"
    source.write_text("#include <cuda_runtime.h>\nint main() { int* x; cudaMalloc(&x, 4); for (;;) {} }\n")
    done = gpuemu("run", str(source), "--timeout", "2")
    assert done.returncode == 2
    assert "its time limit" in done.stderr


@pytest.mark.parametrize(
    ("loop", "rule"),
    [
        ("while (*(volatile int*)x == 0) {}", "sync/hang"),
        ("for (long i = 0; i < 1L << 50; i++) n = n * 3 + *(volatile int*)x;\n    *x = n;", "engine/timeout"),
    ],
)
def test_a_launch_that_is_stopped_hangs_only_if_it_waits(loop: str, rule: str, tmp_path: Path) -> None:
    source = tmp_path / "loop.cu"
    source.write_text(
        "#include <cuda_runtime.h>\n__global__ void run(int* x, int n) {\n    "
        f"{loop}\n}}\nint main() {{\n    int* x;\n    cudaMalloc(&x, 4);\n    cudaMemset(x, 0, 4);\n"
        "    run<<<2, 32>>>(x, 1);\n    return cudaDeviceSynchronize() == 0;\n}\n"
    )
    done = gpuemu("run", str(source), "--timeout", "4")
    assert done.returncode == (1 if rule == "sync/hang" else 2), done.stderr
    assert f"error[{rule}]" in done.stderr
    assert "loop.cu:3:" in done.stderr


def test_an_interrupt_reports_what_was_found_so_far(tmp_path: Path) -> None:
    text = (HERE / "planted" / "managed_bounds.cu").read_text()
    source = tmp_path / "endless.cu"
    source.write_text(
        "#include <cstdio>\n" + text.replace("return 0;", 'puts("found");\n    fflush(stdout);\n    for (;;) {}')
    )
    process = subprocess.Popen(
        [*GPUEMU, "run", str(source)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "found\n"
    os.killpg(process.pid, signal.SIGINT)
    _, report = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "memory/out-of-bounds" in report
    assert "interrupted" in report


def test_a_program_without_a_launch_is_not_clean() -> None:
    done = gpuemu("run", "/bin/true")
    assert done.returncode == 2
    assert "nothing was checked" in done.stderr


def test_a_program_built_by_a_makefile_and_cmake_has_the_findings_of_one_built_directly(tmp_path: Path) -> None:
    """Device code in two files, linked, once by make and once by CMake."""
    tool = shutil.which("cmake")
    if tool is None or shutil.which("make") is None:
        pytest.skip("cmake and make are not installed")
    (tmp_path / "element.cu").write_text(
        "__device__ void set(int* x, int i, int n) {\n    if (i <= n) x[i] = i;\n}\nint size() { return 100; }\n"
    )
    (tmp_path / "main.cu").write_text(
        "#include <cuda_runtime.h>\n"
        "extern __device__ void set(int* x, int i, int n); int size();\n"
        "__global__ void fill(int* x, int n) { set(x, blockIdx.x * blockDim.x + threadIdx.x, n); }\n"
        "int main() {\n    int* x;\n    cudaMalloc(&x, 400);\n    fill<<<4, 32>>>(x, size());\n"
        "    return cudaDeviceSynchronize();\n}\n"
    )
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(linked LANGUAGES CXX CUDA)\nfind_package(CUDAToolkit REQUIRED)\n"
        "set(CMAKE_CUDA_ARCHITECTURES 80 90)\nadd_executable(by_cmake main.cu element.cu)\n"
        "set_target_properties(by_cmake PROPERTIES CUDA_SEPARABLE_COMPILATION ON)\n"
        "target_link_libraries(by_cmake CUDA::cudart)\n"
    )
    (tmp_path / "Makefile").write_text(
        "NVCC = $(CUDA_HOME)/bin/nvcc\nby_make: main.o element.o\n\t$(NVCC) -arch=sm_90 -o $@ $^ -L$(CUDA_HOME)/lib64\n"
        "%.o: %.cu\n\t$(NVCC) -arch=sm_90 -dc -o $@ $<\n"
    )
    toolkit = gpuemu("nvcc", "--toolkit").stdout.strip()
    for command in (
        (tool, "-S", ".", "-B", "build", f"-DCMAKE_CUDA_COMPILER={toolkit}/bin/nvcc"),
        (tool, "--build", "build"),
        ("make", f"CUDA_HOME={toolkit}"),
        (*GPUEMU, "nvcc", "-rdc=true", "-o", "directly", "main.cu", "element.cu"),
        (*GPUEMU, "nvcc", "-lib", "-o", "libelement.a", "element.o"),
        (*GPUEMU, "nvcc", "-rdc=true", "-o", "with_library", "main.cu", "-L.", "-lelement"),
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    found = set()
    for program in ("build/by_cmake", "by_make", "directly", "with_library"):
        output = tmp_path / "result.json"
        done = gpuemu("run", str(tmp_path / program), "--format", "json", "--output", str(output))
        assert done.returncode == 1, done.stderr
        finding = json.loads(output.read_text())["findings"][0]
        places = [finding, *finding["related"]]
        found.add((finding["rule"], *((Path(one["path"]).name, one["range"]["start"]["line"]) for one in places)))
    assert found == {("memory/out-of-bounds", ("element.cu", 1), ("main.cu", 2), ("main.cu", 6), ("main.cu", 5))}
