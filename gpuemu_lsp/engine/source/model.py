"""Records of what a .cu file declares and includes. Texts are as written; columns are UTF-8 bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gpuemu_lsp.engine.findings import Range


@dataclass(frozen=True, slots=True)
class TemplateParam:
    """One template parameter.

    ``typename T`` has the kind "typename" and the name "T"; ``int BLOCK = 256`` the kind "int" and the default "256".
    """

    kind: str
    name: str
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Param:
    """One kernel parameter.

    ``type`` is the element type without qualifiers for pointers and arrays (``float``, ``T``, ``__half``), the type
    itself for scalars and structs. ``const`` refers to the pointee. ``name`` is empty for an unnamed parameter.
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
    the template header. With ``extern_c`` the PTX entry has the plain name.
    """

    name: str
    qualified_name: str
    template: tuple[TemplateParam, ...]
    params: tuple[Param, ...]
    name_range: Range
    range: Range
    extern_c: bool = False
    max_threads: int | None = None
    """First argument of ``__launch_bounds__`` (maximum threads per block) where it is a literal."""


@dataclass(frozen=True, slots=True)
class StructField:
    """A data member: ``const float* x[2]`` has the type ``float``, the pointer depth 1 and the sizes ``("2",)``."""

    name: str
    type: str
    pointer_depth: int = 0
    const: bool = False
    sizes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StructDecl:
    """A ``struct``, ``class``, ``union`` or ``enum``; an enum has one field of its underlying type.

    ``alignments`` are the texts inside ``alignas`` and ``__align__``. ``problem`` is the reason why its layout cannot
    be computed, to follow the name of the struct.
    """

    name: str
    kind: str
    fields: tuple[StructField, ...]
    template: tuple[TemplateParam, ...] = ()
    alignments: tuple[str, ...] = ()
    problem: str | None = None
    aliases: tuple[tuple[str, str], ...] = ()
    """Types that are members, with their C text."""
    base: str = ""
    """The class it derives from, if it is one."""
    plain: bool = True
    """Whether the ABI lays it out as a C struct: no constructors, no initialisers, all members public."""


@dataclass(frozen=True, slots=True)
class Include:
    """An ``#include``; ``resolved`` is the absolute path of a user header that was found on disk.

    A ``hidden`` include names neither a user header nor one of CUDA or the standard library, so the device view omits
    it and device code that needs it fails to compile: ``torch/extension.h``, or a header of a directory that is missing
    in ``include_dirs``.
    """

    target: str
    quoted: bool
    range: Range
    resolved: str | None = None
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class EmbeddingModule:
    """The Python module that has a file's code in a string, the ``string``-th of its strings with CUDA code."""

    text: str
    string: int


class CompiledTexts(Protocol):
    """What NVRTC compiles of a file and its user headers, made when it is first asked for."""

    @property
    def view(self) -> str:
        """The device view of the file."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Device views of user headers by absolute path; NVRTC reads them in place of the files on disk."""
        ...


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One .cu file as read by :func:`~gpuemu_lsp.engine.source.reader.read`. ``has_errors``: unbalanced brackets."""

    path: str
    text: str
    kernels: tuple[KernelDecl, ...]
    includes: tuple[Include, ...]
    constants: Mapping[str, str]
    """File-level integer constants: ``#define N 4``, ``constexpr int N = 4``, ``const int N = 4``, enumerators."""
    views: CompiledTexts | None = field(default=None, compare=False, repr=False)
    """None for a language that is compiled as it is."""
    has_errors: bool = False
    dynamic_shared: Mapping[str, str] = field(default_factory=dict)
    """Element type of the ``extern __shared__`` array, by name of the kernel that declares it."""
    instances: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Explicit instantiations of kernels, each a name and its template arguments: ``("k", ("float", "4"))``."""
    structs: Mapping[str, StructDecl] = field(default_factory=dict)
    """Structs and enums of the file and its headers, by name without scopes; empty if no kernel takes one by value."""
    module: EmbeddingModule | None = None
    """The Python module that launches the kernels; ``path`` is then its path."""
    type_names: Mapping[str, str] = field(default_factory=dict)
    """The C text behind typedefs and aliases of plain types, by name."""

    @property
    def device_view(self) -> str:
        """The text that is compiled."""
        return self.text if self.views is None else self.views.view

    @property
    def headers(self) -> Mapping[str, str]:
        """The user headers that are compiled, by absolute path."""
        return {} if self.views is None else self.views.headers
