"""A .ptx as a source: its entries with the parameters that their code shows."""

from __future__ import annotations

import pytest
from support.ptx_texts import SCALE, line_of

from gpuemu_lsp.engine.source import read


def _kinds(text):
    (kernel,) = read("/k.ptx", text).kernels
    return [(one.name, one.type, one.pointer, one.const) for one in kernel.params]


def test_an_entry_and_its_parameters():
    source = read("/k.ptx", SCALE)
    (kernel,) = source.kernels
    assert (kernel.qualified_name, kernel.extern_c, source.has_errors) == ("scale", True, False)
    start = kernel.name_range.start
    assert (start.line, start.column) == (line_of(".entry"), 16)
    assert (kernel.range.start.line, kernel.range.end.line) == (line_of(".entry"), line_of("}"))
    assert _kinds(SCALE) == [
        ("param_0", "float", True, True),
        ("param_1", "float", True, False),
        ("param_2", "int", False, False),
    ]


def test_untyped_accesses_have_the_type_of_what_is_computed():
    """LLVM writes registers and accesses without a type."""
    text = SCALE.replace("ld.global.f32", "ld.global.b32").replace("st.global.f32", "st.global.b32")
    assert _kinds(text)[:2] == [("param_0", "float", True, True), ("param_1", "float", True, False)]
    copied = text.replace("add.f32 %f2, %f1, %f1", "mov.b32 %f2, %f1")
    assert [kind for _, kind, *_ in _kinds(copied)][:2] == ["unsigned int", "unsigned int"]


@pytest.mark.parametrize(
    ("declared", "kind"), [(".f32", "float"), (".u64", "long long"), (".align 8 .b8 scale_param_2[24]", "struct")]
)
def test_values(declared, kind):
    parameter = declared if "param" in declared else f"{declared} scale_param_2"
    text = SCALE.replace(".u32 scale_param_2", parameter).replace(
        "ld.param.u32 %r1, [scale_param_2];", "mov.u32 %r1, 8;"
    )
    _, shown, pointer, _ = _kinds(text)[2]
    assert shown.startswith(kind) and not pointer


def test_a_text_that_is_half_written_has_entries_without_parameters():
    source = read("/k.ptx", SCALE.replace("[%rd7], %f2;", "[%rd7"))
    assert source.has_errors
    assert [(kernel.name, kernel.params) for kernel in source.kernels] == [("scale", ())]
