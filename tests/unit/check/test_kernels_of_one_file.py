"""Kernels of one file: work that depends on the text alone is done once, not once per kernel."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.large_source import large_source
from gpuemu_lsp.engine.check.prepare import prepare
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
