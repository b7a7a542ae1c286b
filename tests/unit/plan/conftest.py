"""Fixtures: sources on disk, and plans of unregistered kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuemu_lsp.engine.compile.cache import DiskCache
from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.emulator.analysis.kernel_facts import kernel_facts
from gpuemu_lsp.engine.plan.model import PlanResult
from gpuemu_lsp.engine.plan.resolve import resolve, unregistered
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.model import SourceFile

Reader = Callable[[str], SourceFile]


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """Return a function that reads a text as the file ``k.cu``."""

    def read_text(text: str) -> SourceFile:
        path = tmp_path / "k.cu"
        path.write_text(text)
        return read(str(path), text, ())

    return read_text


@pytest.fixture
def bare(reader: Reader) -> Callable[[str], PlanResult]:
    """Return a function that resolves the last kernel of a text, without gpuemu.toml."""

    def resolved(text: str) -> PlanResult:
        source = reader(text)
        return resolve(unregistered(source, source.kernels[-1]), source)

    return resolved


@pytest.fixture
def compiled(reader: Reader) -> Callable[[str], PlanResult]:
    """Return a function that resolves the last kernel of a text with what its compiled code shows."""

    def resolved(text: str) -> PlanResult:
        source = reader(text)
        spec = unregistered(source, source.kernels[-1])
        entries = resolve(spec, source).entries
        request = CompileRequest(source.path, source.device_view, expressions=entries)
        artifact = compile_source(request, DiskCache(Path("/nonexistent/cache"))).artifact
        assert artifact is not None
        return resolve(spec, source, artifact.entries, lambda mangled: kernel_facts(artifact.ptx, mangled))

    return resolved
