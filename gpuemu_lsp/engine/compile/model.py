"""Compile requests, artifacts and results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Finding, Place


@dataclass(frozen=True, slots=True)
class CompileRequest:
    """One source file for one architecture.

    ``text`` is the device view: same lines and columns as the saved file. ``expressions`` are the C++ name expressions
    of the requested kernels (``softmax_rows<float>``); plain ``extern "C"`` names are allowed. With ``optimize``
    False the PTX is unoptimised. ``options`` are the user's and follow the built-in ones. ``program`` are the name
    expressions of all kernels of the file, which are compiled as one program.

    ``headers`` are device views of user headers by absolute path, which NVRTC reads in place of the files on disk.
    Findings about the request rather than the text are placed at ``origin``, where the kernel is configured, and
    ``options_place``, the value of ``compile_options``; the default for both is the top of the file.
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
    program: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """Resource usage of one kernel on one architecture as ptxas reports it.

    Registers are per thread, spills, stack, shared and constant memory in bytes.
    """

    registers: int
    spill_stores: int
    spill_loads: int
    stack_bytes: int
    static_shared_bytes: int
    constant_bytes: int
    barriers: int


@dataclass(frozen=True, slots=True)
class Specialisation:
    """The variant of a kernel that Triton compiled: values by parameter, and the parameters divisible by 16.

    ``shared_bytes`` is the shared memory of a program, which Triton allocates at the launch.
    """

    values: Mapping[str, str]
    divisible: tuple[str, ...]
    warps: int
    stages: int
    shared_bytes: int

    def __str__(self) -> str:
        values = [f"{name} = {value}" for name, value in self.values.items()]
        aligned = [f"{', '.join(self.divisible)} divisible by 16"] if self.divisible else []
        shared = f"{self.shared_bytes} B of shared memory"
        return ", ".join([*values, *aligned, f"num_warps = {self.warps}", f"num_stages = {self.stages}", shared])


@dataclass(frozen=True, slots=True)
class Artifact:
    """The output of one successful compilation.

    ``entries`` maps each requested name expression to its mangled PTX name. ``ptx`` has these kernels and what they
    use; ``cubin`` and ``resources``, by mangled name, also have the other kernels of the program. ``cubin`` is empty if
    the resources are those of equal code that was compiled before: see
    :func:`~gpuemu_lsp.engine.compile.machine_code`. ``assembler_options`` are ptxas',
    None if they are not known. ``debug_sections`` is the text of the PTX's debug sections, of unoptimised code alone.
    ``wavefront`` is the number of lanes that the source is written for; more than 32 run in lockstep.
    """

    path: str
    arch: str
    ptx: str
    cubin: bytes
    entries: Mapping[str, str]
    resources: Mapping[str, ResourceUsage]
    toolchain: str
    assembler_options: tuple[str, ...] | None = None
    debug_sections: str = ""
    wavefront: int = 32


@dataclass(frozen=True, slots=True)
class CompileResult:
    """An artifact, or None with at least one finding that explains the failure.

    Warnings are included in both cases. ``milliseconds`` is wall time.
    """

    artifact: Artifact | None
    findings: tuple[Finding, ...]
    log: str = ""
    milliseconds: float = 0.0
    include_closure: tuple[str, ...] = ()
    """Absolute paths of all user headers that were read, for cache keys and for checking dependents again."""
    extra: Mapping[str, str] = field(default_factory=dict)
