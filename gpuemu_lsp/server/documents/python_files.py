"""Kernels of a ``.py`` file as entries of the server: CUDA code in strings, and functions of Triton and pyptx.

Nothing of the file is imported. A file without a call that compiles a kernel is not parsed either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.findings import Finding, Range
from gpuemu_lsp.engine.hostcode.cpp.launch_sites import LaunchSite, launch_sites
from gpuemu_lsp.engine.jobs.requests.cuda_strings import code_of, kernels_in_strings, variable_of
from gpuemu_lsp.engine.jobs.requests.targets import mentions
from gpuemu_lsp.engine.kernel_names import without_arguments
from gpuemu_lsp.engine.project.model import KernelSpec, Project
from gpuemu_lsp.engine.source import device_views, read, usual_include_dirs
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
from gpuemu_lsp.engine.source.python import read_python
from gpuemu_lsp.engine.source.python.model import EmbeddedCuda, PythonSource
from gpuemu_lsp.engine.subjects.language import Language
from gpuemu_lsp.engine.subjects.languages import CUDA, LANGUAGES, language_of


@dataclass(frozen=True, slots=True)
class PythonKernel:
    """A kernel of a ``.py`` file.

    ``decl`` has the places of the ``.py``; it is None where the code that a registered kernel names does not declare
    it. ``source`` is the CUDA code that is compiled, which launches are read from; it is empty for a function of
    Python, which ``module`` has. ``variable`` has the code in the program, where one has it alone.
    """

    spec: KernelSpec
    registered: bool
    decl: KernelDecl | None
    source: SourceFile
    variable: str | None = None
    language: Language = CUDA
    module: PythonSource | None = None


@dataclass(frozen=True, slots=True)
class PythonKernels:
    """The kernels of a ``.py`` file, registered ones first, and what is not known of them without running the file."""

    kernels: tuple[PythonKernel, ...] = ()
    launches: Callable[[], tuple[LaunchSite, ...]] = tuple
    findings: tuple[Finding, ...] = ()


def python_kernels(project: Project, path: str, text: str) -> PythonKernels:
    """Return the kernels of the text of a ``.py`` file."""
    registered = [spec for spec in project.kernels if spec.source == path]
    languages = [language for language in LANGUAGES if language.may_occur(text)]
    if not registered and not languages:
        return PythonKernels()
    source = read_python(path, text)
    codes = _Codes(source)
    kernels = [_entry(spec, source, codes, registered=True) for spec in registered]
    if project.broken and mentions(project, path):
        return PythonKernels(tuple(kernels), codes.launches)
    specs, findings = kernels_in_strings(path, text, registered)
    # The files that PyTorch's load compiles are documents of their own.
    others = [spec for spec in specs if spec.source == path]
    for language in languages:
        own = [kernel for kernel in kernels if kernel.language is language]
        taken = {kernel.spec.entry or kernel.spec.name for kernel in own}
        taken |= {kernel.decl.name for kernel in own if kernel.decl is not None}
        others += language.unregistered(source, taken)
    kernels += [_entry(spec, source, codes, registered=False) for spec in others]
    return PythonKernels(tuple(kernels), codes.launches, tuple(findings))


def _entry(spec: KernelSpec, source: PythonSource, codes: _Codes, registered: bool) -> PythonKernel:
    """Return a kernel with its declaration: in a string, or a function of Python."""
    language = language_of(spec, source)
    if not language.imports_module:
        return codes.kernel(spec, registered)
    declaration = language.declaration(spec, source.text, source)
    return PythonKernel(spec, registered, declaration, read(spec.source, ""), language=language, module=source)


class _Codes:
    """The CUDA code of a module, each string read once."""

    def __init__(self, source: PythonSource) -> None:
        self._source = source
        self._read: dict[int, tuple[SourceFile, EmbeddedCuda]] = {}

    def kernel(self, spec: KernelSpec, registered: bool) -> PythonKernel:
        """Return a kernel with its declaration."""
        code = code_of(self._source, spec)
        if isinstance(code, Finding):
            return PythonKernel(spec, registered, None, read(spec.source, ""))
        if id(code) not in self._read:
            self._read[id(code)] = self._inner(spec, code), code
        inner, _ = self._read[id(code)]
        wanted = without_arguments(spec.entry or spec.name)
        declared = [one for one in inner.kernels if wanted in (one.name, one.qualified_name)]
        if not declared and len(inner.kernels) == 1 and spec.entry is None:
            declared = list(inner.kernels)
        located = self._located(declared[0], code) if declared else None
        variable = variable_of(self._source, spec.string) if spec.string is not None else None
        return PythonKernel(spec, registered, located, inner, variable=variable)

    def launches(self) -> tuple[LaunchSite, ...]:
        """Launches in the host code of the strings, at their places in the ``.py``."""
        return tuple(
            replace(launch, range=self._range(launch.range, code))
            for inner, code in self._read.values()
            for launch in launch_sites(device_views(inner.path, inner.text))
        )

    def _inner(self, spec: KernelSpec, code: EmbeddedCuda) -> SourceFile:
        text = code.text.text
        return read(spec.source, text, spec.include_dirs or usual_include_dirs(spec.source, text))

    def _located(self, kernel: KernelDecl, code: EmbeddedCuda) -> KernelDecl:
        params = tuple(replace(param, range=self._range(param.range, code)) for param in kernel.params)
        name_range = self._range(kernel.name_range, code)
        return replace(kernel, name_range=name_range, range=self._range(kernel.range, code), params=params)

    def _range(self, span: Range, code: EmbeddedCuda) -> Range:
        place = code.text.place(span, self._source.files)
        # Code of a constant that the module imports is shown at the call that compiles it.
        return place.range if place.path == self._source.path else code.range
