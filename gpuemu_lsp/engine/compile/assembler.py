"""The ptxas executable of CUDA's wheels, for PTX that NVRTC did not assemble itself."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpuemu_lsp.engine.compile.toolchain import toolchain

_VERSION = re.compile(r"\bV(\d+(?:\.\d+)+)")
_FILE_LINE = re.compile(r"^ptxas \S+, line (\d+);", re.MULTILINE)
_FOR_PTXAS = re.compile(r"--maxrregcount=|--ptxas-options=")
_FOR_THE_FRONT_END = re.compile(
    r"-D|-U|--pre-include=|--diag-suppress=|--?use_fast_math$|--?(?:ftz|prec-div|prec-sqrt|fmad)=|--?restrict$"
    r"|--?extra-device-vectorization$"
)
"""Options of NVRTC whose effect is in the PTX."""
_IMAGE = "kernel.cubin"


@dataclass(frozen=True, slots=True)
class Assembly:
    """Result of one run of ptxas. ``log`` has the form that NVRTC gives its messages; ``cubin`` is empty on failure."""

    succeeded: bool
    log: str
    cubin: bytes = b""


class AssemblerError(RuntimeError):
    """ptxas could not be run."""


def ptxas_path() -> str | None:
    """Return the path of ptxas, preferably that of the CUDA wheels; None if there is none."""
    return next(_ptxas_paths(), None)


@cache
def matching_ptxas() -> str | None:
    """Return the path of a ptxas of NVRTC's version, which assembles as NVRTC does; None if there is none."""
    version = toolchain().removeprefix("NVRTC ")
    return next((path for path in _ptxas_paths() if f"{_version(path)}.".startswith(f"{version}.")), None)


def assembler_options(passed: Sequence[str]) -> tuple[str, ...] | None:
    """Return the options that NVRTC passes on to ptxas; None if it is not known whether there are others."""
    own = [option for option in passed if not _FOR_THE_FRONT_END.match(option)]
    if not all(_FOR_PTXAS.match(option) for option in own):
        return None
    return tuple(option.removeprefix("--ptxas-options=") for option in own)


@dataclass(slots=True)
class RunningAssembly:
    """A run of ptxas that has not ended, and the folder of its files."""

    process: subprocess.Popen[bytes]
    folder: tempfile.TemporaryDirectory[str]

    def wait(self, seconds: float | None = None) -> Assembly:
        """Return the result, and remove the files.

        Raises
        ------
        AssemblerError
            If it takes longer than ``seconds``.
        """
        try:
            output, errors = self.process.communicate(timeout=seconds)
            done = self.process.returncode == 0
            cubin = (Path(self.folder.name) / _IMAGE).read_bytes() if done else b""
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AssemblerError(str(error)) from error
        finally:
            self.close()
        log = (errors + output).decode(errors="replace")
        return Assembly(done, _FILE_LINE.sub(r"ptxas application ptx input, line \1;", log), cubin)

    def close(self) -> None:
        """End ptxas if it still runs, and remove its files."""
        with self.process:
            self.process.kill()
        self.folder.cleanup()


def start_assembly(path: str, ptx: str, arch: str, options: Sequence[str] = ()) -> RunningAssembly:
    """Start the ptxas at ``path`` with ``--verbose``.

    Raises
    ------
    AssemblerError
        If it cannot be run.
    """
    folder = tempfile.TemporaryDirectory()
    source, image = Path(folder.name) / "kernel.ptx", Path(folder.name) / _IMAGE
    command = [path, "-v", f"--gpu-name={arch}", *options, "-o", str(image), str(source)]
    try:
        source.write_text(ptx, encoding="utf-8", errors="replace")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        folder.cleanup()
        raise AssemblerError(str(error)) from error
    return RunningAssembly(process, folder)


def assemble(path: str, ptx: str, arch: str, options: Sequence[str] = (), seconds: float | None = None) -> Assembly:
    """Run the ptxas at ``path`` with ``--verbose`` and at most for ``seconds``.

    Raises
    ------
    AssemblerError
        If it cannot be run, or takes longer.
    """
    return start_assembly(path, ptx, arch, options).wait(seconds)


def _ptxas_paths() -> Iterator[str]:
    spec = importlib.util.find_spec("nvidia")
    for location in (spec.submodule_search_locations if spec is not None else None) or ():
        for package in ("cuda_nvcc", "cu13"):
            candidate = Path(location) / package / "bin" / "ptxas"
            if os.access(candidate, os.X_OK):
                yield str(candidate)
    if (found := shutil.which("ptxas")) is not None:
        yield found


def _version(path: str) -> str:
    """Return the version that an executable reports, ``"12.9.86"``, or the empty string."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    match = _VERSION.search(done.stdout)
    return match[1] if match is not None else ""
