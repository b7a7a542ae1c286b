"""Where launches are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.hostcode.cpp.launch_sites import launch_sites, sites_in_includers
from gpuemu_lsp.engine.source import device_views


def sites(text: str) -> list[tuple[str, int]]:
    """Return the launches in a text, with their lines."""
    found = launch_sites(device_views("/nowhere/kernel.cu", text))
    return [(site.kernel, site.range.start.line) for site in found]


@pytest.mark.parametrize(
    "text",
    [
        "void f() {\n k<float, 256><<<1, 2>>>(x, n); }",
        "void f() {\n a::b::k<half>\n  <<<1, 2, 0, s>>>\n  (x + 1, g<1, 2>(y)); }",
        'void f() {\n DISPATCH(t, "n", ([&] { k<scalar_t><<<1, 2>>>(p.data_ptr<scalar_t>()); })); }',
        "template <typename T> struct L { void operator()() {\n k<T><<<1, 2>>>(x); } };",
        "void f() { void* args[] = {&x, (void*)&n};\n cudaLaunchKernel((void*)k<float>, 1, 2, args, 0, s); }",
        "void f() { void *args[2] = {&x, &n};\n CHECK(cudaLaunchCooperativeKernel((const void*)k, 1, 2, args)); }",
        "#define RUN(B) k<<<1, B>>>(x)\nvoid f() { RUN(64); }",
    ],
)
def test_a_launch_has_its_kernel_and_its_line(text: str) -> None:
    assert sites(text) == [("k", 1)]


@pytest.mark.parametrize(
    "text",
    [
        "// k<<<1, 2>>>(x);\n",
        'void f() { puts("k<<<1, 2>>>(x)"); }',
        "#if 0\nvoid f() { k<<<1, 2>>>(x); }\n#endif\n",
        "#define RUN(T) k<T><<<1, 2>>>(x)\n",
        "void f() { k<<<1, 2",
        "int a = b <<< c;",
    ],
)
def test_other_code_has_no_launch(text: str) -> None:
    assert sites(text) == []


def test_the_range_is_that_of_the_launch() -> None:
    (site,) = launch_sites(device_views("/nowhere/kernel.cu", "void f() {\n  k<<<1, 2>>>(x); }"))
    assert (site.range.start.column, site.range.end.line, site.range.end.column) == (2, 1, 16)


def test_a_header_is_launched_where_it_is_included(tmp_path: Path) -> None:
    header = tmp_path / "k.cuh"
    header.write_text("__global__ void k(float* x) {}\n")
    (tmp_path / "main.cu").write_text('#include "k.cuh"\nint main() { k<<<1, 2>>>(nullptr); other<<<1, 2>>>(); }\n')
    (tmp_path / "apart.cu").write_text("__global__ void k() {}\nint main() { k<<<1, 2>>>(); }\n")
    (site,) = sites_in_includers(str(header), ["k"])
    assert (site.path, site.range.start.line) == (str(tmp_path / "main.cu"), 1)
