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
class Launch:
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
    """Integer constants and simple definitions visible at the launch (macros, constexpr, locals), name -> C text."""


@dataclass(frozen=True, slots=True)
class Include:
    """An ``#include``; ``resolved`` is the absolute path of a user header when it was found on disk."""

    target: str
    quoted: bool
    range: Range
    resolved: str | None = None


@dataclass(frozen=True, slots=True)
class SourceFile:
    """Everything the other rooms need to know of one .cu file. ``has_errors``: the text did not fully parse."""

    path: str
    text: str
    kernels: tuple[KernelDecl, ...]
    launches: tuple[Launch, ...]
    includes: tuple[Include, ...]
    constants: Mapping[str, str]
    """File-level integer constants: ``#define N 4``, ``constexpr int N = 4``, ``const int N = 4``, enumerators."""
    device_view: str
    has_errors: bool = False
    dynamic_shared: Mapping[str, str] = field(default_factory=dict)
    """Kernel name -> element type of its ``extern __shared__`` array, where it has one."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Absolute path -> device view, for each user header that the compiler must not see as it is on disk."""
