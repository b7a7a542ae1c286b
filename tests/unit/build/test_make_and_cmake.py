"""Makefiles and CMake projects."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.build.context import build_context
from gpuemu_lsp.engine.build.model import BuildContext


def _context(root: Path, name: str = "k.cu", **files: str) -> BuildContext:
    (root / ".git").mkdir(exist_ok=True)
    for file, text in files.items():
        path = root / file.replace("__", "/").replace("_txt", ".txt").replace("_mk", ".mk")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("__global__ void k() {}\n")
    return build_context(path.as_posix(), path.read_text())


def test_a_recipe_with_variables(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    makefile = """
NVCC := $(shell which nvcc)
INCLUDES = -I$(CURDIR)/inc -Imissing
PRECISION ?= BF16
FLAGS = -std=c++20 -O3
FLAGS += -DENABLE_$(PRECISION)
ifeq ($(PRECISION), FP32)
  FLAGS += -DWRONG
else
  FLAGS += -DRIGHT
endif

host: k.c
\t$(CC) -DHOST $^ -o $@

program: k.cu other.o
\t$(NVCC) $(FLAGS) $(INCLUDES) \\
\t  $^ -o $@
"""
    context = _context(tmp_path, Makefile=makefile)
    assert context.include_dirs == ((tmp_path / "inc").as_posix(),)
    assert context.options == ("-std=c++20", "-DENABLE_BF16", "-DRIGHT")


def test_a_pattern_rule_in_a_folder_above_and_an_included_file(tmp_path: Path) -> None:
    makefile = "include common/flags.mk\n%.o: %.cu\n\tnvcc $(FLAGS) -c $< -o $@\n"
    context = _context(tmp_path, "src/k.cu", Makefile=makefile, common__flags_mk="FLAGS = -DN=4 # a comment\n")
    assert context.options == ("-DN=4",)


def test_a_recipe_for_another_file_gives_no_macros(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    context = _context(tmp_path, Makefile="other: other.cu\n\tnvcc -Iinc -DOTHER other.cu\n")
    assert context.include_dirs == ((tmp_path / "inc").as_posix(),)
    assert context.options == ()


@pytest.mark.parametrize(
    "text", ["A = $(A)\nk: k.cu\n\tnvcc -D$(A) k.cu\n", "endif\nelse\nnvcc\n", "A = $(\nk: k.cu\n\tnvcc $(\n"]
)
def test_odd_makefiles_are_not_errors(tmp_path: Path, text: str) -> None:
    assert _context(tmp_path, Makefile=text).include_dirs == ()


def test_cmake_directories_definitions_and_options(tmp_path: Path) -> None:
    for folder in ("common", "src/own"):
        (tmp_path / folder).mkdir(parents=True)
    top = """
project(demo LANGUAGES CUDA) # include_directories(commented)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_ARCHITECTURES "90")
set(CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS} -DFLAG --use_fast_math")
include_directories(${PROJECT_SOURCE_DIR}/common)
add_definitions(-DTOP)
add_subdirectory(src)
"""
    inner = """
file(GLOB SOURCES *.cu)
add_executable(other other.cu)
target_compile_definitions(other PRIVATE OTHER)
add_library(demo_lib STATIC ${SOURCES})
target_include_directories(demo_lib PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/own> $<INSTALL_INTERFACE:x>)
target_compile_definitions(demo_lib PRIVATE TILE=16)
target_compile_options(demo_lib PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-DCUDA_ONLY;-lineinfo> $<$<CONFIG:Debug>:-DDEBUG;-G>)
"""
    (tmp_path / "src/k.cu").write_text("")
    context = _context(tmp_path, "src/k.cu", CMakeLists_txt=top, src__CMakeLists_txt=inner)
    assert context.include_dirs == ((tmp_path / "common").as_posix(), (tmp_path / "src/own").as_posix())
    assert context.options == ("-DFLAG", "--use_fast_math", "-DTOP", "-DTILE=16", "-DCUDA_ONLY", "-std=c++20")
    assert context.arch == ("sm_90",)


def test_several_architectures_with_an_older_one_leave_the_default(tmp_path: Path) -> None:
    assert _context(tmp_path, CMakeLists_txt="set(CMAKE_CUDA_ARCHITECTURES 75 80 90)\n").arch == ()


def test_an_unknown_variable_does_not_make_a_search_of_the_whole_disk(tmp_path: Path) -> None:
    text = "file(GLOB_RECURSE FILES ${UNKNOWN}/*.cu)\nfile(GLOB_RECURSE OWN **/*.cu src/*.cu)\nadd_library(a ${FILES} ${OWN})\n"
    context = _context(tmp_path, "src/deep/k.cu", CMakeLists_txt=f"{text}target_compile_definitions(a PRIVATE A)\n")
    assert context.options == ("-DA",)
