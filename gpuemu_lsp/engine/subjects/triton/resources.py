"""Registers, spills and shared memory of Triton's PTX, as the ptxas reports them that Triton itself uses."""

from __future__ import annotations

import contextlib
import os
import re
from dataclasses import dataclass, replace

from triton.backends.nvidia.compiler import get_ptxas

from gpuemu_lsp.engine.compile.assembler import AssemblerError, RunningAssembly, assemble, ptxas_path, start_assembly
from gpuemu_lsp.engine.compile.cache import DiskCache, default_folder, key_of
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.compile.program import NvrtcOutput
from gpuemu_lsp.engine.compile.ptxas import resources
from gpuemu_lsp.engine.ptx.slicing import without_source_lines

_SECONDS = 60.0
_OWN_NAME = re.compile(r"^ptxas-\w+ ", re.M)
_TARGET = re.compile(r"^\.target\s+(\w+)", re.M)
"""Triton compiles sm_90 as sm_90a, which ptxas assembles under that name only."""


@dataclass(slots=True)
class ResourceReport:
    """The resource usage of an artifact, which ptxas may still be computing."""

    artifact: Artifact
    _key: str = ""
    _log: str | None = None
    _assembly: RunningAssembly | None = None

    @staticmethod
    def start(artifact: Artifact, ptx: str) -> ResourceReport:
        """Begin to assemble the PTX of an artifact, unless the result is known."""
        path = _ptxas(artifact.arch)
        if path is None:
            return ResourceReport(artifact)
        text = without_source_lines(ptx)
        key = key_of(("triton", artifact.toolchain, artifact.arch, path, text))
        known = DiskCache(default_folder()).reports.load(key)
        if known is not None:
            return ResourceReport(artifact, key, known.log)
        with contextlib.suppress(AssemblerError):
            running = start_assembly(path, text, _target(text, artifact.arch))
            return ResourceReport(artifact, key, None, running)
        return ResourceReport(artifact)

    def wait(self) -> Artifact:
        """Return the artifact with its resource usage; without any if there is no ptxas, or it fails."""
        if self._assembly is not None:
            running, self._assembly = self._assembly, None
            with contextlib.suppress(AssemblerError):
                assembly = running.wait(_SECONDS)
                if assembly.succeeded:
                    # It names itself, as in "ptxas-blackwell info".
                    self._log = _OWN_NAME.sub("ptxas ", assembly.log)
                    DiskCache(default_folder()).reports.store(self._key, NvrtcOutput(True, self._log))
        return self.artifact if self._log is None else replace(self.artifact, resources=resources(self._log))

    def close(self) -> None:
        """End ptxas if it still runs."""
        if self._assembly is not None:
            self._assembly.close()


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
