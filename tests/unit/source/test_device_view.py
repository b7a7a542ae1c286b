"""The device view: items that stay, items that are blanked, and unchanged columns."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.view_samples import SAMPLES

from gpuemu_lsp.engine.source import device_views, include_closure, read

_PIECES = (
    "__global__ void k(float* x) ", "{", "}", "(", ")", "<", ">", "<<<1, 2>>>", ";", ",", "=", "::", "~", "&", "[", "]",
    "#if 0\n", "#ifdef A\n", "#else\n", "#endif\n", "#define A(x) x##k {\n", "A(3)", "template ", "struct S ", "enum ", "namespace n ",
    'extern "C" ', "using ", "typedef ", "public:", "operator", '"', "'", "/*", "*/", "//", "\n", "\r\n", "\\\n", 'R"x(', ')x"',
    "\ufeff", "é", "à", "\0", "\ud800", "const int a = 1", "dim3 g", '#include "a.h"\n', "#include <cublas_v2.h>\n", "__half",
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=80), st.lists(st.sampled_from(_PIECES), max_size=40).map("".join)))
def test_any_text_keeps_the_length_of_each_line(text: str) -> None:
    view = read("/nowhere/kernel.cu", text).device_view
    before = text.encode("utf-8", "surrogatepass").split(b"\n")
    assert [len(line) for line in view.encode().split(b"\n")] == [len(line) for line in before]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_no_character_moves(sample: object) -> None:
    text = sample.text  # type: ignore[attr-defined]
    view = device_views("/nowhere/kernel.cu", text).view
    original, shown = text.encode(), view.encode()
    assert len(original) == len(shown)
    moved = [
        index for index, (old, new) in enumerate(zip(original, shown, strict=True)) if new != old and new != ord(" ")
    ]
    replaced = {original[:index].count(b"\n") for index in moved}
    assert all(text.split("\n")[line].startswith("#include") for line in replaced)


_K = "__global__ void k(float* x) { x[0] = f(x[0]) + N; }\n"


@pytest.mark.parametrize(
    ("text", "kept", "gone"),
    [
        ("inline float f(float v) { return v; }\nfloat unused(float v) { return v; }\n" + _K, ["float f"], ["unused"]),
        ("float g(float v) { return v; }\nfloat f(float v) { return g(v); }\n" + _K, ["float g", "float f"], []),
        ("float f(float);\n" + _K + "float f(float v) { return v; }\n", ["float f(float);", "float f(float v)"], []),
        ("__host__ float f(float v) { return v; }\n" + _K, [], ["float f"]),
        ("float f(float v) { return rand() * v; }\n" + _K, [], ["float f"]),
        ("float r() { return rand(); }\nfloat f(float v) { return r() * v; }\n" + _K, [], ["float f", "float r"]),
        ("float f(float time) { return time; }\n" + _K, ["float f"], []),
        ("const int N = 3; int M = 4;\n" + _K, ["const int N"], ["int M"]),
        ("int N = 3;\n" + _K, [], ["int N"]),
        ("constexpr int B = 2;\n#define N B\n" + _K, ["constexpr int B", "#define N"], []),
        ("enum { N = 3 };\nenum { M = 3 };\n" + _K, ["N = 3"], ["M = 3"]),
        ("void host() {\n#define N 3\n#if N\n foo();\n#endif\n}\n" + _K, ["#define N 3", "#if N", "#endif"], ["foo"]),
        ("struct N { std::vector<int> v; };\n" + _K, [], ["struct N"]),
        ("struct N { float a; std::string s() { return {}; } };\n" + _K, ["float a"], ["std::string"]),
        ("#pragma once\n#pragma omp parallel\n" + _K, ["#pragma once"], ["omp"]),
        ("#ifndef __linux__\n#error no\n#endif\n" + _K, ["#ifndef __linux__"], ["#error"]),
        ('#line 50\n# line 10 "k.tmpl"\n# 7 "k.h" 2\n' + _K, [], ["50", "10", "k.tmpl", "k.h"]),
        ("#define W 48\n#if W % 32\n#error W\n#endif\n" + _K, ["#error W"], []),
        ("void N(float* x) { k<<<1, 1>>>(x); }\n" + _K, [], ["<<<"]),
        ("__host__ __device__ void show() { std::cout << 1; }\n" + _K, [], ["cout"]),
        ("template void launch<float>(float*);\ntemplate __global__ void q<int>(int*);\n" + _K, ["q<int>"], ["launch"]),
        ("using namespace std;\nusing std::min;\nusing std::vector;\n" + _K, ["namespace std"], ["min", "vector"]),
        ("#include <cuda_fp16.h>\n#include <iostream>\n#include <cublas_v2.h>\n" + _K, ["cuda_fp16"], ["iostream", "cublas"]),
        ("#include <cub/cub.cuh>\n#include <cooperative_groups.h>\n" + _K, [], ["cub", "cooperative"]),
        ("#include <cublas_v2.h>\n__global__ void k(__half* x) {}\n", ["#include<cuda_fp16.h>"], ["cublas"]),
        ("#include <cstdio>\n__global__ void k(__half* x) {}\n", [], ["include"]),
    ],
)  # fmt: skip
def test_kept_and_blanked(text: str, kept: list[str], gone: list[str]) -> None:
    view = device_views("/nowhere/kernel.cu", text).view
    assert [piece for piece in kept if piece not in view] == []
    assert [piece for piece in gone if piece in view] == []
    assert _K.strip() in view or "__half* x" in view


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_reachability_spans_the_file_and_its_headers(tmp_path: Path) -> None:
    _write(
        tmp_path,
        {
            "util.h": '#include "deep/more.h"\nfloat f(float v) { return g(v); }\nfloat unused() { return 1; }\n',
            "deep/more.h": "float g(float v) { return v; }\nvoid host() { throw 1; }\n",
            "inc/own.h": "#ifdef __CUDACC_RTC__\n#endif\nvoid host();\n",
        },
    )
    text = '#include "util.h"\n#include <own.h>\n#include "absent.h"\n' + _K
    source = read(str(tmp_path / "k.cu"), text, [str(tmp_path / "inc")])
    assert sorted(Path(path).name for path in source.headers) == ["more.h", "util.h"]
    assert "float f" in source.headers[str(tmp_path / "util.h")]
    assert "unused" not in source.headers[str(tmp_path / "util.h")]
    assert "float g" in source.headers[str(tmp_path / "deep/more.h")]
    assert "throw" not in source.headers[str(tmp_path / "deep/more.h")]
    assert '#include "util.h"' in source.device_view
    assert "<own.h>" in source.device_view, "a header that supports NVRTC stays as on disk"
    assert "absent" not in source.device_view
    resolved = {include.target: include.resolved for include in source.includes}
    assert resolved == {
        "util.h": str(tmp_path / "util.h"),
        "own.h": str(tmp_path / "inc/own.h"),
        "absent.h": None,
    }


def test_overlay_replaces_the_file_on_disk(tmp_path: Path) -> None:
    _write(tmp_path, {"util.h": "int old;\n"})
    header = str(tmp_path / "util.h")
    text = '#include "util.h"\n' + _K
    views = device_views(str(tmp_path / "k.cu"), text, (), {header: "inline float f(float v) { return v; }\n"})
    assert "float f" in views.headers[header]


def test_include_closure(tmp_path: Path) -> None:
    _write(
        tmp_path,
        {
            "k.cu": '#include "a.h"\n#include <cuda_fp16.h>\n#include <stdio.h>\n#include <in.h>\n',
            "a.h": '#include "sub/b.h"\n#include "a.h"\n',
            "sub/b.h": '#include "../a.h"\n',
            "inc/in.h": "",
            "inc/stdio.h": "a C library's own header is not the user's\n",
        },
    )
    found = include_closure(str(tmp_path / "k.cu"), [str(tmp_path / "inc")])
    assert [str(Path(path).relative_to(tmp_path)) for path in found] == ["a.h", "inc/in.h", "sub/b.h"]
    assert include_closure(str(tmp_path / "missing.cu")) == ()
