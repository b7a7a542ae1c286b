"""Kernel launches in host code: configuration, local definitions, arguments, callers."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.model import LaunchSite


def launches(text: str) -> tuple[LaunchSite, ...]:
    return read("/nowhere/kernel.cu", text).launches


@pytest.mark.parametrize(
    ("body", "grid", "block"),
    [
        ("k<<<1, 2>>>(x);", ("1",), ("2",)),
        ("k<<<(n + 255) / 256, 256>>>(x);", ("(n + 255) / 256",), ("256",)),
        ("k<<<n >> 3, f(a, b)>>>(x);", ("n >> 3",), ("f(a, b)",)),
        ("k<<<dim3(1, 2, 3), dim3(4)>>>(x);", ("1", "2", "3"), ("4",)),
        ("k<<<{1, 2}, {4}>>>(x);", ("1", "2"), ("4",)),
        ("dim3 g(DIV(n, 32), 4), b(16, 16); k<<<g, b>>>(x);", ("DIV(n, 32)", "4"), ("16", "16")),
        ("dim3 g = {1, 2}; dim3 b{8}; k<<<g, b>>>(x);", ("1", "2"), ("8",)),
        ("dim3 g = dim3(1, 2); auto b = dim3(8); k<<<g, b>>>(x);", ("1", "2"), ("8",)),
        ("const dim3 g(n); constexpr dim3 b(8, 1, 1); k<<<g, b>>>(x);", ("n",), ("8", "1", "1")),
        ("dim3 g, b(8); g.x = n; g.y = 2; k<<<g, b>>>(x);", ("n", "2", "1"), ("8",)),
        ("dim3 g(1), b(8); if (n) g.x = 2; k<<<g, b>>>(x);", ("?",), ("8",)),
        ("dim3 g(1); g = dim3(2); k<<<g, 8>>>(x);", ("2",), ("8",)),
        ("dim3 g(1); { dim3 g(2); } k<<<g, 8>>>(x);", ("?",), ("8",)),
        ("k<<<G, B>>>(x);", ("1", "2"), ("64",)),
        ("dim3 g(n ? !n : 1); k<<<g, 8>>>(x);", ("?",), ("8",)),
        ("dim3 g; g.y = n; while (g.x < 4) g.x <<= 1; k<<<g, 8>>>(x);", ("?",), ("8",)),
        ("dim3 g(1); g = chosen(&n); k<<<g, 8>>>(x);", ("chosen(&n)",), ("8",)),
        ("auto g = chosen([&] { return n; }); k<<<g, 8>>>(x);", ("?",), ("8",)),
    ],
)
def test_grid_and_block(body: str, grid: tuple[str, ...], block: tuple[str, ...]) -> None:
    (found,) = launches(f"#define G dim3(1, 2)\nconst dim3 B(64);\nvoid host(int n) {{ {body} }}")
    assert (found.grid, found.block) == (grid, block)


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("int a = 1, b(2), c{3}; k<<<a, b>>>(x);", {"a": "1", "b": "2", "c": "3"}),
        ("const unsigned int a = n * 2; k<<<a, 1>>>(x);", {"a": "n * 2"}),
        ("int a; a = n / 2; k<<<a, 1>>>(x);", {"a": "n / 2"}),
        ("u32 a = n / 2; real b = 2; k<<<a, 1>>>(x);", {"a": "n / 2", "b": "2"}),
        ("size_t s = 4 * sizeof(float); k<<<1, 1, s>>>(x);", {"s": "4 * sizeof(float)"}),
        ("int a = 1; a = 2; k<<<a, 1>>>(x);", {"a": "2"}),
        ("int a = 1; if (n) a = 2; k<<<a, 1>>>(x);", {}),
        ("int a = 1; if (n) { a = 2; } k<<<a, 1>>>(x);", {}),
        ("int a = 1; a += 2; k<<<a, 1>>>(x);", {}),
        ("int a = 1; a++; k<<<a, 1>>>(x);", {}),
        ("int a = 1; change(&a); k<<<a, 1>>>(x);", {}),
        ("for (int a = 1; a < n; a *= 2) { k<<<a, 1>>>(x); }", {}),
        ("int a = compute(n, [&] { return 1; }); k<<<a, 1>>>(x);", {}),
    ],
)
def test_locals(body: str, values: dict[str, str]) -> None:
    (found,) = launches(f"void host(int n) {{ {body} }}")
    assert dict(found.locals) == values
    assert found.host_function == "host"


@pytest.mark.parametrize(
    ("text", "kernel", "template", "arguments"),
    [
        ("void f() { k<float, 256><<<1, 2>>>(x, n); }", "k", ("float", "256"), ("x", "n")),
        ("void f() { a::b::k<half>\n  <<<1, 2, 0, s>>>\n  (x + 1, g<1, 2>(y)); }", "k", ("half",), ("x + 1", "g<1, 2>(y)")),
        ("void f() { k<T, (N > 3)><<<1, 2>>>(); }", "k", ("T", "(N > 3)"), ()),
        ('void f() { DISPATCH(t, "n", ([&] { k<scalar_t><<<1, 2>>>(p.data_ptr<scalar_t>()); })); }',
         "k", ("scalar_t",), ("p.data_ptr<scalar_t>()",)),
        ("template <typename T> struct L { void operator()() { k<T><<<1, 2>>>(x); } };", "k", ("T",), ("x",)),
        ("auto f = [](int n) { k<<<1, 2>>>(n); };", "k", (), ("n",)),
        ("void f() { auto q = &k<int, 4>; q<<<1, 2>>>(x); }", "k", ("int", "4"), ("x",)),
        ("void f() { void* args[] = {&x, (void*)&n}; cudaLaunchKernel((void*)k<float>, 1, 2, args, 0, s); }",
         "k", ("float",), ("x", "n")),
        ("void f() { void *args[2] = {&x, &n}; CHECK(cudaLaunchCooperativeKernel((const void*)k, 1, 2, args)); }",
         "k", (), ("x", "n")),
        ("#define RUN(T, B) case B: k<T, B><<<g, B>>>(x); break;\nvoid f() { switch (b) { RUN(float, 64) } }",
         "k", ("float", "64"), ("x",)),
    ],
)  # fmt: skip
def test_kernel_and_arguments(text: str, kernel: str, template: tuple[str, ...], arguments: tuple[str, ...]) -> None:
    (found,) = launches(text)
    assert (found.kernel, found.template_args, found.arguments) == (kernel, template, arguments)


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
def test_no_launch(text: str) -> None:
    assert launches(text) == ()


def test_a_launch_in_a_macro_is_located_at_the_invocation() -> None:
    (found,) = launches("#define RUN(B) k<<<1, B>>>(x)\nvoid f() {\n  RUN(64);\n}\n")
    assert (found.range.start.line, found.range.start.column, found.range.end.column) == (2, 2, 9)
    assert found.block == ("64",)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("template <typename T, int B> void go(T* x) { k<T, B><<<1, B>>>(x); }\n"
         "int main() { go<float, 64>(p); go<half, 32>(p); go<float, 64>(q); }", [{"T": "float", "B": "64"}, {"T": "half", "B": "32"}]),
        ("void go(float* x, int n, const int block) { k<<<n, block>>>(x); }\nint main() { int b = 128; go(p, n, b); }",
         [{"block": "128"}]),
        ("#define B 32\nvoid go(int block) { k<<<1, block>>>(); }\nint main() { go(B); go(f(3)); }", [{"block": "32"}]),
        ("void go(int block) { if (block > 64) block = 64; k<<<1, block>>>(); }\nint main() { go(128); }", [{}]),
        ("void go(int block) { k<<<1, block>>>(); }", [{}]),
        ("void go(int block) { const int b = block * 2; k<<<1, b>>>(); }\nint main() { go(128); }", [{"block": "128", "b": "block * 2"}]),
    ],
)  # fmt: skip
def test_arguments_of_callers_are_locals(text: str, values: list[dict[str, str]]) -> None:
    assert [dict(launch.locals) for launch in launches(text)] == values
