"""The table of languages, and the language of a kernel."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from gpuemu_lsp.engine.runtime.python_boot.languages import LANGUAGES as LAUNCHING_LANGUAGES
from gpuemu_lsp.engine.source.headers.hip import is_hip
from gpuemu_lsp.engine.subjects.cuda.language import Cuda
from gpuemu_lsp.engine.subjects.hip.language import Hip
from gpuemu_lsp.engine.subjects.ops.language import Ops
from gpuemu_lsp.engine.subjects.program_kernels.language import Launching
from gpuemu_lsp.engine.subjects.ptx.language import Ptx
from gpuemu_lsp.engine.subjects.pyptx.language import Pyptx
from gpuemu_lsp.engine.subjects.triton.language import Triton

if TYPE_CHECKING:
    from gpuemu_lsp.engine.project.model import KernelSpec
    from gpuemu_lsp.engine.source.python.model import PythonSource
    from gpuemu_lsp.engine.subjects.language import Language

CUDA: Final[Language] = Cuda()
HIP: Final[Language] = Hip()
TRITON: Final[Language] = Triton()
PYPTX: Final[Language] = Pyptx()
PTX: Final[Language] = Ptx()
OPS: Final[Language] = Ops()
LANGUAGES: Final[tuple[Language, ...]] = (CUDA, HIP, TRITON, PYPTX, PTX, OPS, *map(Launching, LAUNCHING_LANGUAGES))
"""All languages; an entry that names no kernel of its file is in the first one that occurs there."""
SUFFIXES: Final = frozenset[str]().union(*(language.suffixes for language in LANGUAGES))
"""How the names of files end that have kernels in a language of their own."""


def language_of_path(path: str) -> Language | None:
    """Return the language of the files with a name like this one, None if that says nothing."""
    suffix = PurePath(path).suffix
    return next((language for language in LANGUAGES if suffix in language.suffixes), None)


def has_programs(path: str) -> bool:
    """Return whether a file with a name like this one may be a program, which ``gpuemu run`` builds."""
    language = language_of_path(path)
    return language is not None and PurePath(path).suffix in language.program_suffixes


def remark_of(name: str) -> str:
    """Return what a verdict on a kernel in the language of that name adds, empty if nothing."""
    return next((language.remark for language in LANGUAGES if language.name == name), "")


def language_of_entry(spec: KernelSpec) -> Language | None:
    """Return the language of a kernel as far as its entry alone says it, None where the text of its ``.py`` does."""
    if spec.op is not None:
        return OPS
    language = language_of_path(spec.source)
    if language not in (None, CUDA):
        return language
    if not spec.source.endswith(".py") or spec.string is not None or spec.variable is not None:
        return CUDA
    return next((language for language in LANGUAGES if language.name == spec.language), None)


def calls_function(spec: KernelSpec) -> bool:
    """Return whether each case of a kernel is a call of the user's function, which its entry alone says."""
    language = language_of_entry(spec)
    return language is not None and language.calls_function


def language_of(spec: KernelSpec, source: PythonSource) -> Language:
    """Return the language of a kernel of a ``.py``: as gpuemu.toml says, else as the file shows.

    A ``.py`` file may have kernels in Python and CUDA code in strings; then the name of the kernel decides.
    """
    stated = language_of_entry(spec)
    if stated is not None:
        return stated
    wanted = spec.entry or spec.name
    named = (language for language in LANGUAGES if wanted in language.kernel_names(source))
    occurring = (language for language in LANGUAGES if language.occurs(source))
    return next(named, None) or next(occurring, CUDA)


def language_of_text(spec: KernelSpec, text: str) -> Language:
    """Return the language of a kernel of a file with that text."""
    stated = language_of_entry(spec)
    if stated is CUDA and spec.string is None and is_hip(spec.source, text):
        return HIP
    if stated is not None:
        return stated
    # Most workers never read a .py, and the reader is fifteen modules.
    from gpuemu_lsp.engine.source.python import read_python

    return language_of(spec, read_python(spec.source, text))
