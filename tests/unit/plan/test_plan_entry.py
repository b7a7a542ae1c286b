"""Selection of the kernel and of its instances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.kernel_names import name_expression, parameter_types
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.entry import choose_kernel, instances, overloads, split_arguments
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.source.model import SourceFile

_PLACE = Place("/gpuemu.toml", Range.of(0, 0, 0, 1))
_SPEC = KernelSpec("relu", "k.cu", None, places={"": _PLACE})
_TWO = "__global__ void relu(float* x) {}\nnamespace a { __global__ void gelu(float* x) {} }\n"


@pytest.mark.parametrize(
    ("name", "entry", "found"),
    [
        ("relu", None, "relu"),
        ("gelu", None, "a::gelu"),
        ("anything", "gelu", "a::gelu"),
        ("anything", "a::gelu", "a::gelu"),
        ("anything", "gelu<float>", "a::gelu"),
        ("other", None, "config/ambiguous-signature"),
        ("relu", "rellu", "compile/missing-entry"),
    ],
)
def test_choice_of_the_kernel(reader: Callable[[str], SourceFile], name: str, entry: str | None, found: str) -> None:
    """``entry``, else the name, else the only one; otherwise a finding."""
    decl, findings = choose_kernel(replace(_SPEC, name=name, entry=entry), reader(_TWO))
    assert (decl.qualified_name if decl else findings[0].rule) == found


def test_a_misspelt_entry_is_corrected(reader: Callable[[str], SourceFile]) -> None:
    """The message suggests the closest name."""
    _, findings = choose_kernel(replace(_SPEC, entry="rellu"), reader(_TWO))
    assert "Did you mean 'relu'?" in findings[0].message


@pytest.mark.parametrize(
    ("template", "host", "entry", "dtypes", "wanted"),
    [
        ("", "", None, None, ["k"]),
        ("template <typename T>", "", None, None, ["k<float>"]),
        ("template <typename T>", "", None, ("float16", "float64"), ["k<__half>", "k<double>"]),
        ("template <typename T, int B = 128>", "", None, None, ["k<float, 128>"]),
        ("template <typename T, int B>", "", "k<{T}, 64>", ("bfloat16",), ["k<__nv_bfloat16, 64>"]),
        (
            "template <int B>",
            "void f(float* x) { k<256><<<1, 256>>>(x); k<64><<<1, 64>>>(x); }",
            None,
            None,
            ["k<256>", "k<64>"],
        ),
        ("template <int B>", "void f(float* x) { const int C = 4; k<C * 8><<<1, 32>>>(x); }", None, None, ["k<32>"]),
        (
            "template <typename T>",
            "template <typename U> void f(U* x) { k<U><<<1, 32>>>(x); }",
            None,
            None,
            ["k<float>"],
        ),
        (
            "enum Kind { SUM, MOST }; template <typename T, Kind K>",
            "void f(float* x) { k<float, MOST><<<1, 32>>>(x); }",
            None,
            None,
            ["k<float, (Kind)1>"],
        ),
        ("template <int B>", "template __global__ void k<32>(float*);", None, None, ["k<32>"]),
        ("template <int B>", "", None, None, []),
    ],
)
def test_choice_of_instances(
    reader: Callable[[str], SourceFile],
    template: str,
    host: str,
    entry: str | None,
    dtypes: tuple[str, ...] | None,
    wanted: list[str],
) -> None:
    """Sources are ``entry``, dtypes, launches and defaults; without any, a finding shows the key to add."""
    source = reader(f"{template} __global__ void k(float* x) {{}}\n{host}\n")
    found, findings = instances(KernelContext(replace(_SPEC, entry=entry, dtypes=dtypes), source.kernels[0], source))
    assert [instance.expression for instance in found] == wanted
    if not wanted:
        assert 'entry = "k<B>"' in findings[0].message


_OVERLOADS = "__global__ void k(float* x, int n) {}\n__global__ void k(const half  *x , int n) {}\n"


def test_kernels_of_one_name_are_checked_alike(reader: Callable[[str], SourceFile]) -> None:
    """Where gpuemu.toml does not say which; an entry selects one by the types of its parameters."""
    source = reader(_OVERLOADS)
    context = KernelContext(KernelSpec("k", "k.cu", None, entry="k"), source.kernels[0], source)
    found = [instances(replace(context, declaration=each))[0] for each in overloads(context)]
    assert [each.expression for (each,) in found] == ["k(float*, int)", "k(const half*, int)"]
    decl, _ = choose_kernel(replace(_SPEC, entry="k( const half *,int)"), source)
    assert decl == source.kernels[1]
    _, (finding,) = choose_kernel(replace(_SPEC, entry="k(double*, int)"), source)
    assert (finding.rule, "k(float*, int), k(const half*, int)" in finding.message) == ("compile/missing-entry", True)


_TEMPLATES = """
template <typename T> __global__ void k(T* x, T y, int n) {}
template <typename T, int N> __global__ void k(T* x, const T* y, int n) {}
__global__ void k(float* x) {}
"""


@pytest.mark.parametrize(
    ("launch", "wanted"),
    [
        ("k<<<1, 32>>>(x);", [["k<float>(float*, float, int)"], [], ["k(float*)"]]),
        ("k<double><<<1, 32>>>(w, 2.0, n);", [["k<double>(double*, double, int)"], [], ["k(float*)"]]),
        (
            "k<double, 3><<<1, 32>>>(w, w, n);",
            [["k<float>(float*, float, int)"], ["k<double, 3>(double*, const double*, int)"], ["k(float*)"]],
        ),
    ],
)
def test_instances_of_templates_of_one_name(
    reader: Callable[[str], SourceFile], launch: str, wanted: list[list[str]]
) -> None:
    """Each has the instances of its own launches, with the types by which the compiler knows it from the others."""
    source = reader(_TEMPLATES + f"void f(float* x, double* w, int n) {{ {launch} }}\n")
    context = KernelContext(KernelSpec("k", "k.cu", None, entry="k"), source.kernels[0], source)
    found = [instances(replace(context, declaration=each))[0] for each in overloads(context)]
    assert [[each.expression for each in one] for one in found] == wanted


def test_entry_of_one_of_several_templates(reader: Callable[[str], SourceFile]) -> None:
    """With its own types, or with those of the instance; ``{T}`` is replaced in these too."""
    source = reader(_TEMPLATES)
    for entry in ("k<{T}, 2>({T}*, const {T}*, int)", "k<{T}, 2>(T*, const T*, int)"):
        spec = replace(_SPEC, entry=entry, dtypes=("float32", "float64"))
        decl, _ = choose_kernel(spec, source)
        assert decl == source.kernels[1]
        found, _ = instances(KernelContext(spec, decl, source))
        assert [each.expression for each in found] == [
            "k<float, 2>(float*, const float*, int)",
            "k<double, 2>(double*, const double*, int)",
        ]


@pytest.mark.parametrize(
    ("entry", "expression", "types"),
    [
        ("k(float*)", "(void(*)(float*))k", "float*"),
        ("ns::k<float, (Mode)1>( float *,int )", "(void(*)(float*, int))ns::k<float, (Mode)1>", "float*, int"),
        ("k<(Mode)1>", "k<(Mode)1>", None),
        ("k<void (*)(int)>", "k<void (*)(int)>", None),
        ("k<f>(void(*)(int), int)", "(void(*)(void(*)(int), int))k<f>", "void(*)(int), int"),
    ],
)
def test_types_in_an_entry(entry: str, expression: str, types: str | None) -> None:
    """They are in the parentheses at its end; those of template arguments are none."""
    assert (name_expression(entry), parameter_types(entry)) == (expression, types)


def test_arguments_split_at_top_level_only() -> None:
    """Commas inside brackets belong to their argument."""
    assert split_arguments("a, b<c, d>, (e, f), g[1, 2]") == ("a", "b<c, d>", "(e, f)", "g[1, 2]")
