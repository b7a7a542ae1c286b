"""What the source room finds in a .cu file. Texts are as written; ranges are in UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Range


@dataclass(frozen=True, slots=True)
class TemplateParam:
    """``typename T`` -> kind "typename", name "T"; ``int BLOCK = 256`` -> kind "int", default "256"."""

    kind: str
    name: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Param:
    """One kernel parameter.

    ``type`` is the element type without qualifiers for pointers and arrays (``float``, ``T``, ``__half``), the type
    itself for scalars and structs. ``const`` says the pointee is const. ``name`` may be empty for an unnamed one.
    """

    name: str
    type: str
    pointer: bool
    const: bool
    range: Range
    pointer_depth: int = 0
    restrict: bool = False


@dataclass(frozen=True, slots=True)
class KernelDecl:
    """A ``__global__`` function with a body.

    ``qualified_name`` includes namespaces. ``name_range`` is the name token, ``range`` the whole definition including
    the template header. ``extern_c`` says its PTX name is not mangled.
    """

    name: str
    qualified_name: str
    template: tuple[TemplateParam, ...]
    params: tuple[Param, ...]
    name_range: Range
    range: Range
    extern_c: bool = False
    max_threads: int | None = None
    """First number of ``__launch_bounds__`` when it is a literal."""


@dataclass(frozen=True, slots=True)
class LaunchSite:
    """A ``kernel<args><<<grid, block, shared, stream>>>(arguments)`` in host code.

    ``grid``, ``block`` are one to three C expressions each (``dim3 g(a, b)`` is resolved to ``("a", "b")``); local
    constants of the enclosing function are substituted as far as they are plain expressions. What cannot be resolved
    stays as written: the plan room decides whether it can use it.
    """

    kernel: str
    template_args: tuple[str, ...]
    grid: tuple[str, ...]
    block: tuple[str, ...]
    shared: str | None
    arguments: tuple[str, ...]
    range: Range
    host_function: str | None = None
    locals: Mapping[str, str] = field(default_factory=dict)
    """Simple definitions visible at the launch, name -> C text: locals of the host function, and what a caller in the
    file passes for its parameters and template parameters."""
    path: str | None = None
    """The file it stands in, None for the one that was read."""


@dataclass(frozen=True, slots=True)
class Include:
    """An ``#include``; ``resolved`` is the absolute path of a user header when it was found on disk.

    ``hidden`` says that it names neither that, nor a header of CUDA's or the standard library: the device view leaves
    it out, and device code that needs it cannot compile (``torch/extension.h``, a folder missing in ``include_dirs``).
    """

    target: str
    quoted: bool
    range: Range
    resolved: str | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class SourceFile:
    """Everything the other rooms need to know of one .cu file. ``has_errors``: the text did not fully parse."""

    path: str
    text: str
    kernels: tuple[KernelDecl, ...]
    launches: tuple[LaunchSite, ...]
    includes: tuple[Include, ...]
    constants: Mapping[str, str]
    """File-level integer constants: ``#define N 4``, ``constexpr int N = 4``, ``const int N = 4``, enumerators."""
    device_view: str
    has_errors: bool = False
    dynamic_shared: Mapping[str, str] = field(default_factory=dict)
    """Kernel name -> element type of its ``extern __shared__`` array, where it has one."""
    instances: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Explicit instantiations of kernels: ``template __global__ void k<float, 4>(...)`` is ("k", ("float", "4"))."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Absolute path -> device view, for each user header that the compiler must not see as it is on disk."""
