"""Records of the kernels in a ``.py`` file. Columns are UTF-8 bytes, as everywhere in the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Range
from gpuemu_lsp.engine.source.python.mapped_text import MappedText
from gpuemu_lsp.engine.source.python.source_files import SourceFiles


@dataclass(frozen=True, slots=True)
class EmbeddedCuda:
    """CUDA source code in a string, as one call compiles it.

    ``api`` is the function that compiles it: ``RawKernel``, ``RawModule``, ``load_inline`` or ``SourceModule``.
    ``entries`` are the kernels that the program names, as C++ name expressions: the second argument of ``RawKernel``,
    ``name_expressions``, and the arguments of ``get_function``. ``options`` are the compiler options that are literals.
    ``variables`` are the names that gpuemu.toml may use for it: those that hold the code, and the one that the result
    of the call is assigned to. ``api`` is empty for a variable that no such call compiles.
    """

    api: str
    text: MappedText
    range: Range
    """The call."""
    entries: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadCuda:
    """A call that compiles CUDA code which is not known without running the program, and the reason."""

    api: str
    range: Range
    reason: str
    variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CudaFile:
    """A file of CUDA code that a call of the module compiles; ``path`` is absolute."""

    api: str
    path: str
    range: Range
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TritonParam:
    """A parameter of a Triton kernel. ``constexpr``: annotated with ``tl.constexpr``, so it is compiled in."""

    name: str
    constexpr: bool
    range: Range
    default: str | None = None


@dataclass(frozen=True, slots=True)
class TritonKernel:
    """A function with ``@triton.jit``.

    ``decorators`` are the texts of its decorators in order, ``autotuned`` and ``heuristics`` whether one of them is
    ``triton.autotune`` or ``triton.heuristics``. ``launched`` is False for a function that the file only calls from
    other kernels, which is not a kernel of its own.
    """

    name: str
    params: tuple[TritonParam, ...]
    name_range: Range
    range: Range
    decorators: tuple[str, ...] = ()
    autotuned: bool = False
    heuristics: bool = False
    launched: bool = False


@dataclass(frozen=True, slots=True)
class TritonLaunch:
    """A launch ``kernel[grid](arguments)``; the texts of its parts are as written."""

    kernel: str
    grid: str
    arguments: tuple[str, ...]
    keywords: Mapping[str, str]
    range: Range
    function: str | None = None
    """The function that contains the launch, None at module level."""


@dataclass(frozen=True, slots=True)
class PyptxCall:
    """A call whose arguments are integer literals, or constants of the module: sizes that a pyptx kernel is used with.

    It is a call of the function that builds the kernel, or of the kernel's own ``ptx``.
    """

    range: Range
    values: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class PyptxKernel:
    """A function with ``@pyptx.kernel``.

    ``builder`` is the name of the function at the top level of the module that contains it and returns it, None for a
    kernel at the top level. ``params`` are the parameters of the builder, or the keyword-only ones of the kernel, by
    name: each with its default as written, None without one.
    """

    name: str
    builder: str | None
    params: Mapping[str, str | None]
    name_range: Range
    range: Range
    """The function with its decorators."""
    calls: tuple[PyptxCall, ...] = ()

    @property
    def entry(self) -> str:
        """The name at the top level of the module by which the kernel is found."""
        return self.builder or self.name


@dataclass(frozen=True, slots=True)
class LaunchingKernel:
    """A kernel that only its program launches.

    ``language`` is the name of its language in gpuemu.toml. ``name`` has the names of the functions and classes around
    it, with dots; ``range`` is the function with its decorators.
    """

    language: str
    name: str
    name_range: Range
    range: Range


@dataclass(frozen=True, slots=True)
class PythonSource:
    """A ``.py`` file with kernels."""

    path: str
    text: str
    cuda: tuple[EmbeddedCuda, ...] = ()
    unread: tuple[UnreadCuda, ...] = ()
    triton: tuple[TritonKernel, ...] = ()
    launches: tuple[TritonLaunch, ...] = field(default=())
    files: SourceFiles = field(default_factory=SourceFiles)
    """The files that the origins of texts are in: this one, and those whose constants it uses."""
    cuda_files: tuple[CudaFile, ...] = ()
    pyptx: tuple[PyptxKernel, ...] = ()
    launching: tuple[LaunchingKernel, ...] = ()
