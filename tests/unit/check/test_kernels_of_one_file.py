"""Kernels of one file: work that depends on the text alone is done once, not once per kernel."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from support.check_project import run

from benchmarks.large_source import large_source
from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.compile.cache import DiskCache
from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.jobs.requests.targets import read_kernels
from gpuemu_lsp.engine.plan.model import PlanResult
from gpuemu_lsp.engine.plan.resolve import resolve
from gpuemu_lsp.engine.project.model import DimSpec, KernelSpec, Project
from gpuemu_lsp.engine.source.model import SourceFile
from gpuemu_lsp.engine.source.preprocessor import lexer
from gpuemu_lsp.engine.subjects.cuda import session as sessions
from gpuemu_lsp.engine.subjects.cuda.program import program_of
from gpuemu_lsp.engine.subjects.cuda.session import FileSession
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.subjects.unregistered import softened
from gpuemu_lsp.server.checks.requests import content_digest
from gpuemu_lsp.server.documents.parsed_files import ParsedFile

TEXT = large_source(8, 300)


def requests_of(folder: Path) -> list[CheckRequest]:
    path, project = str(folder / "kernels.cu"), Project(root=str(folder), config=None)
    found = read_kernels(project, path, TEXT)[1]
    return [CheckRequest(spec, registered=False, text=TEXT, batch="one") for spec, _ in found]


def test_the_text_of_a_file_is_lexed_once_for_all_its_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lexed, resolved = Counter[str](), Counter[str]()
    original = lexer.SourceText.__init__

    def lex(self: lexer.SourceText, text: str) -> None:
        lexed[text] += 1
        original(self, text)

    def resolve_counted(spec: KernelSpec, source: SourceFile, *entries: dict[str, str]) -> PlanResult:
        resolved[spec.name] += not entries
        return resolve(spec, source, *entries)

    requests = requests_of(tmp_path)
    monkeypatch.setattr(lexer.SourceText, "__init__", lex)
    monkeypatch.setattr(sessions, "resolve", resolve_counted)
    requests = [replace(request, batch="one") for request in requests]
    program = program_of(requests, sessions.session_of(requests[0]))
    for request in requests:
        assert prepare(replace(request, program=program)).artifact is not None
    assert len(requests) == 8
    assert lexed[TEXT] <= 1
    assert resolved == {request.spec.name: 1 for request in requests}


def test_entries_of_one_name_are_resolved_each(tmp_path: Path) -> None:
    request = requests_of(tmp_path)[0]
    other = replace(request, spec=replace(request.spec, dims={"n": DimSpec("n", 5, 5)}))
    session = FileSession()
    for one in (request, other, request):
        assert session.resolved(one, TEXT) == resolve(one.spec, session.source(one, TEXT))


def test_a_digest_has_the_text_and_the_overlay_of_every_kernel(tmp_path: Path) -> None:
    first, second = requests_of(tmp_path)[:2]
    parsed = ParsedFile(None, first.spec.source, TEXT)
    variants = [
        (first, second),
        (replace(first, text=f"{TEXT} "), replace(second, text=f"{TEXT} ")),
        (first, replace(second, text=f"{TEXT} ")),
        (replace(first, text=f"{TEXT} "), second),
        (replace(first, overlay={"/a.cuh": "int a;"}), replace(second, overlay={"/a.cuh": "int a;"})),
        (first, replace(second, overlay={"/a.cuh": "int a;"})),
        (first,),
        (second, first),
    ]
    assert len({content_digest(parsed, variant) for variant in variants}) == len(variants)
    moved = replace(first, spec=replace(first.spec, places={}))
    assert content_digest(parsed, (first, second)) == content_digest(parsed, (moved, second))


_TEMPLATES_OF_ONE_NAME = """
template <typename T>
__global__ void scale(T* x, T factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
template <typename T>
__global__ void scale(T* x, const T* factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i <LIMIT n) x[i] *= factor[0];
}
void both(int n) {
  float *x, *f;
  cudaMalloc(&x, n * sizeof(float));
  cudaMalloc(&f, sizeof(float));
  cudaMemset(x, 0, n * sizeof(float));
  cudaMemset(f, 0, sizeof(float));
  scale<float><<<(n + 255) / 256, 256>>>(x, 2.0f, n);
  scale<float><<<(n + 255) / 256, 256>>>(x, f, n);
}
"""


@pytest.mark.parametrize(("limit", "found"), [("=", {("memory/out-of-bounds", 9)}), ("", set())])
def test_templates_of_one_name_are_checked_by_their_own_launches(
    tmp_path: Path, limit: str, found: set[tuple[str, int]]
) -> None:
    path, text = tmp_path / "scale.cu", _TEMPLATES_OF_ONE_NAME.replace("LIMIT", limit)
    path.write_text(text)
    ((spec, _),) = read_kernels(Project(root=str(tmp_path), config=None), str(path), text)[1]
    report, findings, _ = run(CheckRequest(spec, registered=False))
    shown = [one for one in findings if one.severity is not Severity.HINT]
    assert {(one.rule, one.place.range.start.line) for one in shown} == found
    assert (report.status, report.cases.run > 4) == ("failed" if found else "unreferenced", True)


def test_a_name_of_several_kernels_is_not_one_that_is_excluded(tmp_path: Path) -> None:
    """The compiler's reason is shown where it does not know which kernel is meant."""
    text = "__global__ void k(float* x) {}\n__global__ void k(double* x) {}\n"
    for entry, cause in (("k", Cause.UNKNOWN_INSTANCE), ("q", Cause.EXCLUDED)):
        request = CompileRequest(str(tmp_path / "k.cu"), text, expressions=(entry,))
        (hint,) = map(softened, compile_source(request, cache=DiskCache(tmp_path / "cache")).findings)
        assert (hint.rule, hint.severity, hint.cause) == ("engine/not-executed", Severity.HINT, cause)
