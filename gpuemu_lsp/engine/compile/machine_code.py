"""Machine code of PTX, and ptxas' report on it, which are those of an earlier compilation if the code is equal.

NVRTC spends most of its time in ptxas. A comment or a blank line changes the source lines of the PTX, and nothing that
ptxas' report depends on. A file with much code is therefore compiled to PTX alone after an edit, and the report is that
of the last PTX with the same code, if there is one; otherwise the ptxas of NVRTC's version is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.compile.assembler import AssemblerError, assemble, assembler_options, matching_ptxas
from gpuemu_lsp.engine.compile.cache import DiskCache, key_of
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.compile.program import NvrtcOutput
from gpuemu_lsp.engine.compile.toolchain import toolchain
from gpuemu_lsp.engine.ptx.slicing import without_source_lines

_LARGE_PTX = 30_000
"""Characters that ptxas takes a tenth of a second for. Starting it takes 10 ms more than NVRTC's own, so that a short
compilation gains nothing from two steps."""


@dataclass(frozen=True, slots=True)
class AssemblyCache:
    """The reports of ptxas on one file's code, in ``store``. ``options`` are ptxas', None if they are not known."""

    store: DiskCache
    path: str
    arch: str
    options: tuple[str, ...] | None

    @staticmethod
    def of(store: DiskCache, path: str, arch: str, passed: Sequence[str]) -> AssemblyCache:
        """Return the cache of a file that is compiled with the NVRTC options ``passed``."""
        return AssemblyCache(store, path, arch, assembler_options(passed))

    @property
    def useful(self) -> bool:
        """Whether the file had much code before, and its PTX can be assembled as NVRTC would do it."""
        return (
            self.options is not None and self.store.load(self._large_key) is not None and matching_ptxas() is not None
        )

    def record(self, output: NvrtcOutput) -> None:
        """Store the report of a successful compilation for a real architecture, if there is much code."""
        if self.options is not None and len(output.ptx) >= _LARGE_PTX:
            self.store.store(self._large_key, NvrtcOutput(True, ""))
            report = [line for line in output.log.split("\n") if line.startswith("ptxas")]
            self.store.store(self._key(output.ptx), NvrtcOutput(True, "\n".join(report)))

    def assembled(self, output: NvrtcOutput) -> NvrtcOutput:
        """Return the output of a virtual architecture with ptxas' report in its log, but without a cubin.

        Raises
        ------
        AssemblerError
            If the code is new and ptxas cannot be run.
        """
        key = self._key(output.ptx)
        known = self.store.load(key)
        if known is None:
            path = matching_ptxas()
            if path is None or self.options is None:
                raise AssemblerError("no ptxas of NVRTC's release")
            # Line numbers are those of the PTX: see without_source_lines.
            assembly = assemble(path, without_source_lines(output.ptx), self.arch, self.options)
            if not assembly.succeeded:
                return replace(output, succeeded=False, log=f"{output.log}\n{assembly.log}")
            known = NvrtcOutput(True, assembly.log)
            self.store.store(key, known)
        return replace(output, log=f"{output.log}\n{known.log}")

    @property
    def _large_key(self) -> str:
        return key_of(("large", self.path, self.arch))

    def _key(self, ptx: str) -> str:
        return key_of(("ptxas", toolchain(), self.arch, *(self.options or ()), without_source_lines(ptx)))


def machine_code(artifact: Artifact) -> bytes:
    """Return the cubin of an artifact, which is assembled if the compilation left that out; empty without a ptxas."""
    if artifact.cubin or artifact.assembler_options is None:
        return artifact.cubin
    path = matching_ptxas()
    if path is None:
        return b""
    try:
        return assemble(path, artifact.ptx, artifact.arch, ("--generate-line-info", *artifact.assembler_options)).cubin
    except AssemblerError:
        return b""
