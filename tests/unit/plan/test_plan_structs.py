"""Layout of structs that kernels take by value: offsets as nvcc computes them, and what cannot be laid out."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.plan.struct_layout import LayoutError, struct_layout
from gpuemu_lsp.engine.source.model import SourceFile

STRUCTS = {
    "pointers and scalars": ("struct P { float* x; int n; float eps; };", "P"),
    "tail padding": ("struct P { double* x; char c; };", "P"),
    "small members": ("struct P { bool a; short b; bool c; int d; bool e; double f; char g; };", "P"),
    "several declarators": ("struct P { const float *a, *b; int n = 3, m{4}, w[2]; };", "P"),
    "arrays": ("constexpr int K = 3;\nstruct P { char a; float w[K][2 * K]; long long* x[2]; };", "P"),
    "vectors": (
        "struct P { char a; char3 b; char4 c; short2 d; int2 e; float3 f; char g; float4 h; double2 i; longlong3 j; };",
        "P",
    ),
    "nested": (
        "struct Q { char c; double d; };\nstruct R { Q q[2]; char e; };\nstruct P { char a; R r; Q q; char b; };",
        "P",
    ),
    "half": (
        "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\nstruct P { __half a; __half2 b; __nv_bfloat16 c; half d; float e; };",
        "P",
    ),
    "enums": ("enum A { X, Y };\nenum class B : unsigned char { Z };\nstruct P { B b; A a; B c; };", "P"),
    "aliases": ("typedef long long index_t;\nusing real = double;\nstruct P { int a; index_t b; real c[1]; };", "P"),
    "typedef": ("typedef struct { int a; double b; } P;", "P"),
    "template": ("template <typename T, int N = 3> struct S { T* x; T w[N]; char c; };", "S<short>"),
    "alignment": ("struct alignas(16) P { int a; };\n", "P"),
    "alignment of a member": ("struct __align__(8) Q { int a; };\nstruct P { char c; Q q; };", "P"),
    "functions": (
        "struct P { int n; static constexpr int K = 4; using T = int; __host__ __device__ P() {}\n"
        "__host__ __device__ int size() const { return n; } char c; };",
        "P",
    ),
    "empty": ("struct P {};", "P"),
    "base": ("struct Q { double* x; int n; };\nstruct P : public Q { int m; char c; };", "P"),
    "empty base": ("struct Q {};\nstruct P : Q { int m; };", "P"),
    "member types of a base": ("struct Q { using T = short; T a; };\nstruct P : Q { T b; int c; };", "P"),
    "dim3": ("struct P { char a; dim3 grid; };", "P"),
    "namespace": ("namespace a { struct P { char c; int* x; }; }", "a::P"),
}


def compiled(text: str, name: str, paths: list[str], folder: Path) -> tuple[int, list[int]]:
    """Return the size of a struct and the offsets of members: the constants that NVRTC's PTX stores."""
    values = [f"sizeof({name})", *(f"offsetof({name}, {path})" for path in paths)]
    stores = " ".join(f"y[{at}] = {value};" for at, value in enumerate(values))
    code = f"{text}\n__global__ void k(unsigned long long* y) {{ {stores} }}\n"
    result = compile_source(CompileRequest(str(folder / "k.cu"), code, expressions=("k",)))
    assert result.artifact is not None, result.findings
    constants = dict(re.findall(r"mov\.[bu]64 \t?(%rd\d+), (\d+);", result.artifact.ptx))
    stored = re.findall(r"st\.global\.u64 \t?\[%rd\d+(?:\+(\d+))?\], (%rd\d+);", result.artifact.ptx)
    size, *offsets = (int(constants[register]) for _, register in sorted(stored, key=lambda one: int(one[0] or 0)))
    return size, offsets


@pytest.mark.parametrize("name", STRUCTS)
def test_offsets_are_those_of_the_compiler(reader: Callable[[str], SourceFile], tmp_path: Path, name: str) -> None:
    text, struct = STRUCTS[name]
    layout = struct_layout(struct, reader(f"{text}\n__global__ void k({struct} p) {{}}"), {"K": "3"})
    assert layout is not None
    paths = [leaf.path for leaf in layout.leaves]
    assert (layout.size, [leaf.offset for leaf in layout.leaves]) == compiled(text, struct, paths, tmp_path)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("struct Q { int a; };\nstruct R { int c; };\nstruct P : Q, R { int b; };", "it derives from `Q, R`"),
        ("struct Q { int a; };\nstruct R : Q { int c; };\nstruct P : R { int b; };", "is itself derived"),
        ("struct Q { int a; char c = 1; };\nstruct P : Q { char b; };", "it derives from `Q`, whose padding"),
        ("class Q { int a; char c; };\nstruct P : Q { char b; };", "it derives from `Q`, whose padding"),
        ("union P { int a; float b; };", "it is a union"),
        ("struct P { int a : 3; int b; };", "it has the bit-field `int a : 3`"),
        ("struct P { virtual void f(); int a; };", "it has virtual functions"),
        ("struct P { int& a; };", "it has the member `int& a`"),
        ("struct P { float (*f)(float); int a; };", "it has the member `float (*f)(float)`"),
        ("struct P { Unknown u; };", "the type `Unknown` of its field `u` is not defined"),
        ("struct P { float w[LIMIT]; };", "the size of `w`, `LIMIT`, is not known"),
        ("struct P { alignas(8) int a; };", "it has the aligned member"),
        ("union U { int a; float b; };\nstruct P { U u; };", "its field `u` is a U: it is a union"),
        ("#define MEMBERS(T) T a;\nstruct P { MEMBERS(int) };", "it has the member"),
        ("struct P { struct { int a; } inner; };", "a type that is defined in it"),
    ],
)
def test_what_cannot_be_laid_out_has_a_reason(reader: Callable[[str], SourceFile], text: str, why: str) -> None:
    with pytest.raises(LayoutError, match=re.escape(why)):
        struct_layout("P", reader(f"{text}\n__global__ void k(P p) {{}}"), {})
