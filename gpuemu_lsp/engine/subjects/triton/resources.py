"""Registers, spills and shared memory of Triton's PTX, as the ptxas reports them that Triton itself uses."""

from __future__ import annotations

import os
import re
from dataclasses import replace

from triton.backends.nvidia.compiler import get_ptxas

from gpuemu_lsp.engine.compile.assembler import AssemblerError, assemble, ptxas_path
from gpuemu_lsp.engine.compile.cache import DiskCache, default_folder, key_of
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.compile.program import NvrtcOutput
from gpuemu_lsp.engine.compile.ptxas import resources
from gpuemu_lsp.engine.ptx.slicing import without_source_lines

_SECONDS = 60.0
_OWN_NAME = re.compile(r"^ptxas-\w+ ", re.M)
_TARGET = re.compile(r"^\.target\s+(\w+)", re.M)
"""Triton compiles sm_90 as sm_90a, which ptxas assembles under that name only."""


def with_resources(artifact: Artifact, ptx: str) -> Artifact:
    """Return an artifact with the resource usage of ``ptx``; without any if there is no ptxas, or it fails."""
    path = _ptxas(artifact.arch)
    if path is None:
        return artifact
    store, text = DiskCache(default_folder()).reports, without_source_lines(ptx)
    key = key_of(("triton", artifact.toolchain, artifact.arch, path, text))
    known = store.load(key)
    if known is None:
        try:
            assembly = assemble(path, text, _target(text, artifact.arch), seconds=_SECONDS)
        except AssemblerError:
            return artifact
        if not assembly.succeeded:
            return artifact
        # It names itself, as in "ptxas-blackwell info".
        known = NvrtcOutput(True, _OWN_NAME.sub("ptxas ", assembly.log))
        store.store(key, known)
    return replace(artifact, resources=resources(known.log))


def machine_code(ptx: str, arch: str) -> bytes:
    """Return the cubin of PTX, with source lines; empty without a ptxas, or if it fails."""
    path = _ptxas(arch)
    if path is None:
        return b""
    try:
        return assemble(path, ptx, _target(ptx, arch), ("--generate-line-info",), _SECONDS).cubin
    except AssemblerError:
        return b""


def _target(ptx: str, arch: str) -> str:
    target = _TARGET.search(ptx)
    return target[1] if target else arch


def _ptxas(arch: str) -> str | None:
    bundled = get_ptxas(int(re.sub(r"\D", "", arch))).path
    return str(bundled) if os.access(bundled, os.X_OK) else ptxas_path()
