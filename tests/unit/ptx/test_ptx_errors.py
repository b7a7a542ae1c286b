"""Damaged PTX: the parser returns a module or raises PtxError with a line of the text."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.ptx_text import HEADER, compiled

from gpuemu_lsp.engine.ptx import PtxError, arithmetic_precisions, linear_only, normalise, parse

CODE = r"""
__device__ __noinline__ float f(float x) { return x / 3; }
__constant__ float table[4] = {1, 2};
__device__ const char* names[2] = {"a;{", "b"};
template <typename T> __global__ void k(T* x, int n) {
  __shared__ T s[32];
  s[threadIdx.x] = x[n];
  __syncthreads();
  asm volatile("{ .reg .pred p; L: setp.eq.s32 p, %0, 0; @p bra L; }" :: "r"(n));
  if (n > 2) printf("%s %f\n", names[n & 1], (double)s[0]);
  float4 v = ((float4*)x)[1];
  x[0] = f(v.x + v.w) + table[n & 3] + __shfl_down_sync(~0u, s[n & 7], 1);
}
"""

PIECES = [
    "{", "}", ";", '"', "/*", "//", "[", "]", "(", ")", ",", "%", "<", "9" * 40, "\0", "é", "٣", "@", ".", "0f", "0d", "-",
    "|", "!", ":", "\n", "{" * 60, "[[[[[", "generic(", "0xFF(x)", ".reg .b32 %r<99999999>;", "1e999", "U",
    ".global .b8 x[999999999999] = {1};", ".section .debug_str {", ".loc 1 1 1, function_name x, inlined_at 1 1 1\n",
    ".branchtargets", ".callprototype", "call (", ".entry", ".func f(", ".version",
]  # fmt: skip


def check(text: str) -> None:
    try:
        module = parse(text)
    except PtxError as error:
        assert 0 <= error.line <= text.count("\n") + 1
        assert str(error).startswith(f"PTX line {error.line + 1}: ")
        return
    normalise(module)
    for name in module.functions:
        arithmetic_precisions(module, name)
        linear_only(module, name)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 120), st.sampled_from(["", *PIECES])), max_size=4))
def test_truncated_and_mutated_text(edits: list[tuple[float, int, str]]) -> None:
    text = compiled(CODE, "k<float>")
    for where, length, piece in edits:
        start = int(where * len(text))
        text = text[:start] + piece + text[start + length :]
    check(text)


def test_every_truncation() -> None:
    text = compiled(CODE, "k<float>")
    generator = random.Random(7)
    for _ in range(200):
        check(text[: generator.randrange(len(text))])


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.sampled_from('{}[]();,.%@!|:"/*+-$_ \n\tabx019'), max_size=80))
def test_any_text(noise: str) -> None:
    check(noise)
    check(f"{HEADER}.entry k() {{ .reg .b32 %r<4>; {noise} }}")
    check(f"{HEADER}.global .b32 x[4] = {noise};")


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("", 0, ".version"),
        ("hello", 0, "';'"),
        (f"{HEADER}.entry k() {{\n ret", 4, "';'"),
        (f"{HEADER}.entry k() {{\n ret;\n", 4, "'}'"),
        (f"{HEADER}.entry k()\n ret; }}", 3, "parameters"),
        (
            f"{HEADER}.entry k(.param .u64 x, .param .u32 y, .param .u64 x) {{ ret; }}",
            3,
            "redefinition of parameter 'x'",
        ),
        (f"{HEADER}.entry k() {{\n\n add.s32 %r1, , 2; }}", 5, "expected an operand"),
        (f"{HEADER}.entry k() {{\n add.s32 %r1, %r2, 2x; }}", 4, "'2x'"),
        (f"{HEADER}.entry k() {{\n ld.global.b32 %r1, [%r2; }}", 4, "']'"),
        (f"{HEADER}.entry k() {{\n mov.b64 %r1, {{%r2, %r3; }}", 4, "'}'"),
        (f"{HEADER}.entry k() {{\n .reg .b33 %r<4>; }}", 4, ".reg"),
        (f"{HEADER}.entry k() {{\n .reg .b32 %r<2000000>; }}", 4, "too many"),
        (f"{HEADER}add.s32 %r1, %r2, 1;", 3, "outside a function"),
        (f"{HEADER}.global .b32 x[2] = {{1, 2, 3}};", 3, "more initial values"),
        (f"{HEADER}.global .b99 x;", 3, ".b99"),
        (f"{HEADER}}}", 3, "unmatched '}'"),
        (f"{HEADER}.global .f32 x = 1e300;", 3, "cannot hold"),
    ],
)
def test_error_messages_and_lines(text: str, line: int, expected: str) -> None:
    with pytest.raises(PtxError) as caught:
        parse(text)
    assert expected in caught.value.reason
    assert caught.value.line == line
