"""One program for all kernels of a file: what it shares, and what it keeps apart."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.compile import compiler
from gpuemu_lsp.engine.compile.compiler import CompileSession, compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest, CompileResult
from gpuemu_lsp.engine.compile.program import NvrtcOutput

TEXT = """\
template <class T> __global__ void scale(T* x) { x[threadIdx.x] = T(2) * x[threadIdx.x]; }
template <class T> __global__ void member(T* x) { x[threadIdx.x].y = 0; }
__global__ void plain(float* x) { __shared__ float tile[64]; tile[threadIdx.x] = x[0]; x[1] = tile[3]; }
"""


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The name expressions of every call of NVRTC; it runs, and no cache is used."""
    seen: list[tuple[str, ...]] = []
    build = compiler.build

    def counted(text: str, name: str, options: object, expressions: tuple[str, ...] = (), *rest: object) -> NvrtcOutput:
        seen.append(tuple(expressions))
        return build(text, name, options, expressions, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(compiler, "build", counted)
    return seen


def compile_all(*expressions: str, text: str = TEXT) -> dict[str, CompileResult]:
    session, cache = CompileSession(), _NoCache()
    requests = {
        name: CompileRequest("/kernels/k.cu", text, expressions=(name,), program=expressions) for name in expressions
    }
    return {name: compile_source(request, cache, session) for name, request in requests.items()}  # type: ignore[arg-type]


class _NoCache:
    @property
    def reports(self) -> _NoCache:
        return self

    def load(self, key: str) -> None:
        return None

    def store(self, key: str, output: NvrtcOutput) -> None:
        pass


def test_one_call_compiles_all_kernels(builds: list[tuple[str, ...]]) -> None:
    found = compile_all("scale<float>", "scale<double>", "plain")
    assert builds == [("plain", "scale<double>", "scale<float>")]
    for name, result in found.items():
        assert result.artifact is not None and list(result.artifact.entries) == [name]
        assert result.artifact.ptx.count(".entry ") == 1
        assert result.artifact.entries[name] in result.artifact.resources


def test_registers_and_spills_are_those_of_a_kernel_compiled_alone() -> None:
    names = ("scale<float>", "scale<double>", "plain")
    for name, result in compile_all(*names).items():
        alone = compile_source(CompileRequest("/kernels/k.cu", TEXT, expressions=(name,))).artifact
        assert alone is not None and result.artifact is not None
        entry = alone.entries[name]
        assert result.artifact.resources[entry] == alone.resources[entry]
        assert result.artifact.ptx.split("{", 1)[1] == alone.ptx.split("{", 1)[1]


def test_a_template_that_does_not_compile_stops_no_other(builds: list[tuple[str, ...]]) -> None:
    found = compile_all("scale<float>", "member<float>", "plain")
    assert [name for name, result in found.items() if result.artifact is None] == ["member<float>"]
    assert [item.rule for item in found["member<float>"].findings] == ["compile/error"]
    assert not found["scale<float>"].findings


def test_an_error_in_the_text_is_compiled_for_once(builds: list[tuple[str, ...]]) -> None:
    found = compile_all("scale<float>", "plain", text=TEXT + "__global__ void broken() { undeclared = 1; }\n")
    assert {tuple(item.rule for item in result.findings) for result in found.values()} == {("compile/error",)}
    assert len(builds) == 2


def test_a_name_that_is_not_a_kernel_is_reported_for_itself_only() -> None:
    found = compile_all("scale<float>", "missing", "plain")
    assert {name: [item.rule for item in result.findings] for name, result in found.items()} == {
        "scale<float>": [],
        "missing": ["compile/missing-entry"],
        "plain": [],
    }
