"""Recompilation of a file with much code: what ptxas reported on equal code is used again, and on no other code."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gpuemu_lsp.engine.compile import compiler
from gpuemu_lsp.engine.compile.assembler import Assembly
from gpuemu_lsp.engine.compile.cache import DiskCache
from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.machine_code import machine_code
from gpuemu_lsp.engine.compile.model import Artifact, CompileRequest, CompileResult
from gpuemu_lsp.engine.compile.program import NvrtcOutput

LINES = [
    "template <int N> __global__ void filled(float* x) {",
    "    #pragma unroll",
    "    for (int i = 0; i < N; ++i) x[i * N + threadIdx.x] = sinf(x[i + threadIdx.x]) * N;",
    "}",
    "__global__ void __launch_bounds__(1024) small(float* x) {",
    "    __shared__ float s[64];",
    "    s[threadIdx.x] = x[threadIdx.x];",
    "    __syncthreads();",
    "    x[threadIdx.x] = s[63 - threadIdx.x] * 3.0f;",
    "}",
]
ENTRIES = ("filled<40>", "small")


class Compiler:
    """Compiles texts under one path and records the architectures that NVRTC, and the runs of ptxas, were for."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nvrtc: list[str] = []
        self.ptxas: list[str] = []
        self._path = str(folder / "k.cu")
        self.cache = DiskCache(folder / "cache")
        module = importlib.import_module("gpuemu_lsp.engine.compile.machine_code")
        build, assemble = compiler.build, module.assemble

        def counted_build(text: str, name: str, options: Sequence[str], *rest: object) -> NvrtcOutput:
            if name != "prefix":
                self.nvrtc.append(options[0].removeprefix("--gpu-architecture="))
            return build(text, name, options, *rest)  # type: ignore[arg-type]

        def counted_assemble(path: str, ptx: str, arch: str, *rest: Sequence[str]) -> Assembly:
            self.ptxas.append(arch)
            return assemble(path, ptx, arch, *rest)  # type: ignore[no-any-return]

        monkeypatch.setattr(compiler, "build", counted_build)
        monkeypatch.setattr(module, "assemble", counted_assemble)

    def result(self, lines: list[str], arch: str = "sm_80", options: tuple[str, ...] = ()) -> CompileResult:
        request = CompileRequest(self._path, "\n".join(lines) + "\n", arch, ENTRIES, options)
        return compile_source(request, self.cache)

    def __call__(self, lines: list[str], arch: str = "sm_80", options: tuple[str, ...] = ()) -> Artifact:
        artifact = self.result(lines, arch, options).artifact
        assert artifact is not None
        return artifact


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    return Compiler(tmp_path, monkeypatch)


def afresh(lines: list[str], folder: Path, arch: str = "sm_80", options: tuple[str, ...] = ()) -> CompileResult:
    """Compile with an empty cache, in one call of NVRTC."""
    request = CompileRequest(str(folder / "k.cu"), "\n".join(lines) + "\n", arch, ENTRIES, options)
    return compile_source(request, DiskCache(folder / "other"))


@pytest.mark.parametrize(
    "edit",
    [
        lambda lines: ["// a comment", "", *lines],
        lambda lines: [*lines[:5], "    // a comment", *lines[5:]],
        lambda lines: [line + "  // a comment" for line in lines],
        lambda lines: [*lines[:6], "", *lines[6:]],
    ],
)
def test_a_comment_moves_lines_and_assembles_nothing(
    edit: Callable[[list[str]], list[str]], compiled: Compiler, tmp_path: Path
) -> None:
    before, edited = compiled(LINES), compiled(edit(LINES))
    assert (compiled.nvrtc, compiled.ptxas) == (["sm_80", "compute_80"], [])
    alone = afresh(edit(LINES), tmp_path).artifact
    assert alone is not None
    assert edited.resources == before.resources == alone.resources and len(alone.resources) == 2
    assert edited.ptx == alone.ptx


def test_another_constant_is_assembled_again(compiled: Compiler, tmp_path: Path) -> None:
    compiled(LINES)
    lines = [line.replace("s[64]", "s[96]").replace("3.0f", "5.0f") for line in LINES]
    edited, alone = compiled(lines), afresh(lines, tmp_path).artifact
    assert compiled.ptxas == ["sm_80"]
    assert alone is not None and edited.resources == alone.resources
    assert edited.resources[edited.entries["small"]].static_shared_bytes == 4 * 96
    # The code of the first text is still known.
    assert compiled(["", *LINES]).resources[edited.entries["small"]].static_shared_bytes == 4 * 64
    assert compiled.ptxas == ["sm_80"]


def test_another_architecture_or_option_of_ptxas_is_assembled_for_itself(compiled: Compiler, tmp_path: Path) -> None:
    compiled(LINES)
    options = ("-Xptxas", "-O0")
    other = compiled(["", *LINES], options=options).resources
    assert compiled.ptxas == ["sm_80"]
    assert other == afresh(LINES, tmp_path, options=options).artifact.resources  # type: ignore[union-attr]
    assert other != compiled(LINES).resources
    assert compiled(LINES, "sm_90").resources == afresh(LINES, tmp_path, "sm_90").artifact.resources  # type: ignore[union-attr]


def test_unknown_options_leave_assembly_to_nvrtc(compiled: Compiler) -> None:
    compiled(LINES)
    compiled(["", *LINES], options=("--dopt=on",))
    assert (compiled.nvrtc, compiled.ptxas) == (["sm_80", "sm_80"], [])


def test_an_error_of_ptxas_is_on_its_line_after_an_edit(compiled: Compiler, tmp_path: Path) -> None:
    compiled(LINES)
    lines = ["", *LINES[:8], '    asm("bogus.u32 %0;" :: "f"(x[0]));', *LINES[8:]]
    (found,) = compiled.result(lines).findings
    assert compiled.nvrtc[-1] == "compute_80" and compiled.ptxas == ["sm_80"]
    (alone,) = afresh(lines, tmp_path).findings
    assert (found.rule, found.message, found.place) == (alone.rule, alone.message, alone.place)
    assert found.place.range.start.line == 9


def test_a_warning_of_ptxas_stays_after_a_comment(compiled: Compiler) -> None:
    lines = [line.replace("(1024)", "(1024, 2)") for line in LINES]
    first = compiled.result(lines, "sm_75").findings
    assert [item.message for item in first if "minnctapersm" in item.message]
    assert compiled.result(["// a comment", *lines], "sm_75").findings == first
    assert compiled.nvrtc == ["sm_75", "compute_75"]


def test_an_error_of_the_text_is_the_same_from_ptx_alone(compiled: Compiler, tmp_path: Path) -> None:
    compiled(LINES)
    lines = [*LINES[:8], "    undeclared = 1;", *LINES[8:]]
    assert compiled.result(lines).findings == afresh(lines, tmp_path).findings != ()


def test_machine_code_is_assembled_on_request(compiled: Compiler) -> None:
    compiled(LINES)
    edited = compiled(["", *LINES])
    assert edited.cubin == b"" and not compiled.ptxas
    assert machine_code(edited).startswith(b"\x7fELF") and compiled.ptxas == ["sm_80"]
    assert b"k.cu" in machine_code(edited)  # in its line table


def test_unoptimised_code_is_not_assembled(compiled: Compiler, tmp_path: Path) -> None:
    request = CompileRequest(str(tmp_path / "k.cu"), "\n".join(LINES), expressions=ENTRIES, optimize=False)
    artifact = compile_source(request, compiled.cache).artifact
    assert artifact is not None and ".entry" in artifact.ptx
    assert compiled.nvrtc == ["compute_80"]
