"""Compile one request: the page that ties options, NVRTC, the log and the report together."""

from __future__ import annotations

import time
from pathlib import Path

from gpuemu_lsp.engine.compile import diagnose, messages, ptxas
from gpuemu_lsp.engine.compile.model import Artifact, CompileRequest, CompileResult
from gpuemu_lsp.engine.compile.program import Product, build
from gpuemu_lsp.engine.compile.toolchain import cuda_include_dirs, toolchain
from gpuemu_lsp.engine.findings import Place, Range


def compile_source(request: CompileRequest) -> CompileResult:
    """Compile a device view with NVRTC, to PTX and cubin in one call.

    Raises
    ------
    ToolchainError
        If NVRTC or CUDA's headers are absent.
    """
    start = time.perf_counter()
    product = build(request.text, request.path, _options(request), request.expressions)
    read = messages.parse(product.log)
    origin = request.origin or Place(request.path, Range.of(0, 0, 0, 0))
    sources = diagnose.Sources(
        request.path, origin, lambda path: request.text if path == request.path else None, lambda path: None
    )
    return CompileResult(
        artifact=_artifact(request, product) if product.succeeded else None,
        findings=diagnose.findings(read, sources),
        log=product.log,
        milliseconds=(time.perf_counter() - start) * 1e3,
    )


def _options(request: CompileRequest) -> tuple[str, ...]:
    folders = (str(Path(request.path).parent), *request.include_dirs, *cuda_include_dirs())
    return (
        f"--gpu-architecture={request.arch}",
        "--std=c++17",
        "--device-as-default-execution-space",
        "--ptxas-options=-v",
        "-lineinfo" if request.optimize else "--device-debug",
        *request.options,
        *(f"--include-path={folder}" for folder in folders),
    )


def _artifact(request: CompileRequest, product: Product) -> Artifact:
    return Artifact(
        path=request.path,
        arch=request.arch,
        ptx=product.ptx,
        cubin=product.cubin,
        entries=product.lowered,
        resources=ptxas.resources(product.log),
        toolchain=toolchain(),
    )
