"""What the compile room takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Finding, Place


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One source file for one architecture.

    ``text`` is the device view: same lines and columns as the saved file. ``expressions`` are the C++ name expressions
    of the kernels wanted (``softmax_rows<float>``); plain ``extern "C"`` names are allowed. ``optimize`` False asks
    for unoptimised PTX (the deep check). ``options`` are the user's own, after ours.

    ``headers`` are device views of the user's headers by absolute path: NVRTC sees them in place of the files on disk.
    ``origin`` is where the kernel was asked for, ``options_place`` where the options stand: findings about the request
    rather than about the text sit there (the top of the file by default).
    """

    path: str
    text: str
    arch: str = "sm_80"
    expressions: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    include_dirs: tuple[str, ...] = ()
    optimize: bool = True
    headers: Mapping[str, str] = field(default_factory=dict)
    origin: Place | None = None
    options_place: Place | None = None


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """What ptxas gave one kernel on one architecture, from its own report. Counts per thread, sizes in bytes."""

    registers: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int
    static_shared_bytes: int
    constant_bytes: int
    barriers: int


@dataclass(frozen=True, slots=True)
class Artifact:
    """The product of one successful compilation.

    ``entries`` maps each requested name expression to its mangled PTX name. ``resources`` is by mangled name.
    """

    path: str
    arch: str
    ptx: str
    cubin: bytes
    entries: Mapping[str, str]
    resources: Mapping[str, ResourceUsage]
    toolchain: str


@dataclass(frozen=True, slots=True)
class CompileResult:
    """An artifact, or None with at least one finding that says why: an error, or what we cannot compile.

    Warnings come either way. ``milliseconds`` is wall time.
    """

    artifact: Artifact | None
    findings: tuple[Finding, ...]
    log: str = ""
    milliseconds: float = 0.0
    include_closure: tuple[str, ...] = ()
    """Absolute paths of every user header that was read, for re-checks and cache keys."""
    extra: Mapping[str, str] = field(default_factory=dict)
