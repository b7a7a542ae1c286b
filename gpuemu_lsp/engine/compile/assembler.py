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


def assemble(path: str, ptx: str, arch: str, options: Sequence[str] = (), seconds: float | None = None) -> Assembly:
    """Run the ptxas at ``path`` with ``--verbose`` and at most for ``seconds``.

    Raises
    ------
    AssemblerError
        If it cannot be run, or takes longer.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, image = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        try:
            source.write_text(ptx, encoding="utf-8", errors="replace")
            command = [path, "-v", f"--gpu-name={arch}", *options, "-o", str(image), str(source)]
            done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
            cubin = image.read_bytes() if done.returncode == 0 else b""
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AssemblerError(str(error)) from error
    log = (done.stderr + done.stdout).decode(errors="replace")
    return Assembly(done.returncode == 0, _FILE_LINE.sub(r"ptxas application ptx input, line \1;", log), cubin)


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
