"""Kernels and constants in inactive ``#if`` branches are ignored; unknown conditions count as active."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.source import read


@pytest.mark.parametrize(
    ("condition", "active"),
    [
        ("#if 1", True), ("#if 0", False), ("#if (2 + 3) * 2 == 10 && !0", True), ("#if 0x10 >> 2 != 4", False),
        ("#ifdef X", True), ("#ifndef X", False), ("#if defined(X) && X > 3", True), ("#if defined X && X > 4", False),
        ("#ifdef UNSET", False), ("#ifdef MY_FLAG", False), ("#ifdef INTERLEAVED", False), ("#if UNSET", False), ("#if UNSET == 0", True), ("#if !defined(UNSET)", True),
        ("#if Y == 8", True), ("#ifdef GONE", False), ("#if EMPTY", True), ("#if F(1)", True), ("#if 1 / 0", True),
        ("#ifdef __CUDACC__", True), ("#ifndef __CUDA_ARCH__", False), ("#if __CUDA_ARCH__ >= 800", True),
        ("#if __CUDA_ARCH__ < 800", True), ("#if defined(__CUDA_ARCH__) || UNSET", True), ("#if __cplusplus >= 201703L", True),
        ("#ifdef _WIN32", False), ("#ifdef _MSC_VER", False), ("#ifdef __linux__", True), ("#ifndef __linux__", True),
        ("#if CUDART_VERSION < 11000", True), ("#if UNSET && CUDART_VERSION < 11000", False), ("#if X ? 0 : 1", False),
        ("#if __has_include(<mma.h>)", True), ("#if nonsense nonsense", True), ("#if", True), ("#ifdef", True), ("#if 08", False),
    ],
)  # fmt: skip
def test_active_branches(condition: str, active: bool) -> None:
    text = (
        "#define X 4\n#define Y (X * 2)\n#define GONE\n#undef GONE\n#define EMPTY\n#define F(x) x\n"
        f"{condition}\n__global__ void k() {{}}\n#endif\n"
    )
    assert [kernel.name for kernel in read("/nowhere/k.cu", text).kernels] == ["k"] * active


@pytest.mark.parametrize(
    ("defines", "kind"),
    [((), "float"), (("-DD",), "double"), (("-D", "D=1"), "double"), (("-DD=0",), "float"), (("--define-macro=H",), "half"),
     (("-DD", "-UD"), "float")],
)  # fmt: skip
def test_define_options_select_the_branch(defines: tuple[str, ...], kind: str) -> None:
    text = "#if D\n#define T double\n#elif defined(H)\n#define T half\n#else\n#define T float\n#endif\n"
    text += "#if D\n__global__ void k(double* x) {}\n#elif defined(H)\n__global__ void k(half* x) {}\n"
    text += "#else\n__global__ void k(float* x) {}\n#endif\n"
    source = read("/nowhere/k.cu", text, options=defines)
    assert [kernel.params[0].type for kernel in source.kernels] == [kind]
    assert source.constants["T"] == kind


def test_conditions_use_macros_of_included_headers(tmp_path: Path) -> None:
    (tmp_path / "config.h").write_text("#ifndef CONFIG_H\n#define CONFIG_H\n#define USE_B\n#endif\n")
    text = '#include "config.h"\n#include "config.h"\n#ifdef USE_B\n__global__ void b() {}\n#else\n__global__ void a() {}\n#endif\n'
    assert [kernel.name for kernel in read(str(tmp_path / "k.cu"), text).kernels] == ["b"]


def test_definitions_under_an_unknown_condition_are_unknown() -> None:
    text = (
        "#ifdef __GNUC__\n#define A\n#endif\n#ifdef A\n__global__ void a() {}\n#else\n__global__ void b() {}\n#endif\n"
    )
    assert [kernel.name for kernel in read("/nowhere/k.cu", text).kernels] == ["a", "b"]
