"""``T name(...)`` at namespace scope: a variable with a parenthesised initialiser or a function declaration."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.preprocessor.lexer import SourceText
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.initialisers import is_initialiser

_KERNEL = "__global__ void k(float* x) { x[0] = A; }\n"
_BEFORE = "#define M 3\nconstexpr int N = 8;\nenum { E = 4 };\nstruct T { int v; constexpr T(int v) : v(v) {} };\n"


@pytest.mark.parametrize(
    "line",
    [
        "constexpr unsigned A(N / 2);", "const int A(3);", "constexpr int A(N);", "const int A(N);", "const int A(M);",
        "const int A(E);", "const int A(-N);", "const int A(N * 2);", "const int A(N * N);", "const int A((N + 1));",
        "const int A(sizeof(float));", "const float A(1.5f);", "const bool A(true);", "const int A(N > 2 ? 1 : 2);",
        "const int A(N << 2);", "const int A(int(3.5f));", "const int A(f(N));", "const int A(f(N) + 1);",
        "const int A(static_cast<int>(N));", "constexpr int A(T(3).v);", "const T A(3), B(4);", "static const int A(1 + N);",
        "constexpr int A(Unknown);", "template <int W> constexpr int A(W / 2);", "const int A(limits<int>::max());",
        "const float A(.5f);", "const char A('c');",
    ],
)  # fmt: skip
def test_variables_with_parenthesised_initialisers_stay(line: str) -> None:
    view = read("/nowhere/kernel.cu", f"{_BEFORE}{line}\n{_KERNEL}").device_view
    assert line in view


@pytest.mark.parametrize(
    "line",
    [
        "int A(int);", "int A(int n);", "const int A(T);", "T A(T t);", "int A();", "int A(void);", "int A(float* x);",
        "int A(const T& t, int n = 3);", "int A(T *t);", "int A(T &&t);", "int A(...);", "std::string A(std::string s);",
        "std::vector<int> A(std::vector<int> v, int n);", "int A(int (*f)(int));", "int A(unsigned n) noexcept;",
        "int A(float x[4]);", "int A(std::array<int, 4>);", "int A(Unknown, Unknown);", "auto A(int n) -> int;",
    ],
)  # fmt: skip
def test_function_declarations_are_functions(line: str) -> None:
    text = SourceText(f"{_BEFORE}{line}\n")
    start = text.code.index(line)
    assert not is_initialiser(text.code, start, text.code.index("A(", start) + 1, MacroTable([text]), text.code[:start])


@pytest.mark.parametrize("line", ["constexpr unsigned A(N / 2);", "const int A(N);", "const T A{3}, B(4);"])
def test_a_kernel_with_such_a_variable_compiles(line: str, tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(f"{_BEFORE}{line}\n__global__ void k(int* x) {{ x[0] = sizeof(A); }}\n")
    source = read(str(path), path.read_text())
    result = compile_source(CompileRequest(str(path), source.device_view, expressions=("k",), headers=source.headers))
    assert not [finding for finding in result.findings if finding.severity is Severity.ERROR]
