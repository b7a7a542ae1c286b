"""Kernels of a ``.py`` file as entries of the server: CUDA code in strings, and functions of Triton and pyptx.

Nothing of the file is imported. A file without a call that compiles a kernel is not parsed either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TypeVar

from gpuemu_lsp.engine.findings import Finding, Range
from gpuemu_lsp.engine.jobs.requests.cuda_strings import code_of, kernels_in_strings, variable_of
from gpuemu_lsp.engine.jobs.requests.targets import mentions
from gpuemu_lsp.engine.plan.triton import choose_triton_kernel, unregistered_specs
from gpuemu_lsp.engine.project.model import KernelSpec, Project
from gpuemu_lsp.engine.source import read, usual_include_dirs
from gpuemu_lsp.engine.source.model import KernelDecl, LaunchSite, Param, SourceFile
from gpuemu_lsp.engine.source.python import may_have_cuda, may_have_kernels, may_have_pyptx, read_python
from gpuemu_lsp.engine.source.python.model import EmbeddedCuda, PythonSource, TritonKernel
from gpuemu_lsp.engine.subjects.languages import PYPTX, TRITON, language_of
from gpuemu_lsp.engine.subjects.ops.preparation import definition_of
from gpuemu_lsp.engine.subjects.pyptx.planning import choose_pyptx_kernel, unregistered_pyptx

_IMPORTS_TRITON = re.compile(r"^[ \t]*(?:import|from)[ \t]+triton\b", re.MULTILINE)
_Ranged = TypeVar("_Ranged", KernelDecl, LaunchSite)


@dataclass(frozen=True, slots=True)
class PythonKernel:
    """A kernel of a ``.py`` file.

    ``decl`` has the places of the ``.py``; it is None where the code that a registered kernel names does not declare
    it. ``source`` is the CUDA code that is compiled, which launches are read from; ``triton`` the function, for a
    Triton kernel, whose ``source`` is empty. ``variable`` has the code in the program, where one has it alone.
    """

    spec: KernelSpec
    registered: bool
    decl: KernelDecl | None
    source: SourceFile
    triton: TritonFunction | None = None
    variable: str | None = None
    pyptx: bool = False
    """Whether it is a kernel of pyptx, which has no CUDA code either."""


@dataclass(frozen=True, slots=True)
class TritonFunction:
    """A Triton kernel and the module that it is part of."""

    kernel: TritonKernel
    module: PythonSource


@dataclass(frozen=True, slots=True)
class PythonKernels:
    """The kernels of a ``.py`` file, registered ones first, and what is not known of them without running the file."""

    kernels: tuple[PythonKernel, ...] = ()
    launches: tuple[LaunchSite, ...] = ()
    findings: tuple[Finding, ...] = ()


def python_kernels(project: Project, path: str, text: str) -> PythonKernels:
    """Return the kernels of the text of a ``.py`` file."""
    registered = [spec for spec in project.kernels if spec.source == path]
    if not registered and not (may_have_cuda(text) or may_have_pyptx(text) or _may_have_triton(text)):
        return PythonKernels()
    source = read_python(path, text)
    codes = _Codes(source)
    kernels = [
        op_entry(spec, text)
        or _triton(spec, source, registered=True)
        or _pyptx(spec, source, registered=True)
        or codes.kernel(spec, registered=True)
        for spec in registered
    ]
    if project.broken and mentions(project, path):
        return PythonKernels(tuple(kernels), codes.launches)
    specs, findings = kernels_in_strings(path, text, registered)
    # The files that PyTorch's load compiles are documents of their own.
    kernels += [codes.kernel(spec, registered=False) for spec in specs if spec.source == path]
    if _may_have_triton(text):
        taken = {one.triton.kernel.name for one in kernels if one.triton is not None}
        unregistered = (_triton(spec, source, registered=False) for spec in unregistered_specs(source, taken))
        kernels += [one for one in unregistered if one is not None]
    registered_names = {spec.entry or spec.name for spec in registered}
    others = (_pyptx(spec, source, registered=False) for spec in unregistered_pyptx(source, registered_names))
    kernels += [one for one in others if one is not None]
    return PythonKernels(tuple(kernels), codes.launches, tuple(findings))


def op_entry(spec: KernelSpec, text: str) -> PythonKernel | None:
    """Return an op with its function in the text, or with its entry for one whose source is gpuemu.toml; else None."""
    if spec.op is None:
        return None
    place = definition_of(spec, spec.op, text) or spec.places.get("name")
    if place is None or place.path != spec.source:
        return PythonKernel(spec, True, None, read(spec.source, ""))
    declaration = KernelDecl(spec.name, spec.name, (), (), place.range, place.range)
    return PythonKernel(spec, True, declaration, read(spec.source, ""))


def _may_have_triton(text: str) -> bool:
    """Return whether a ``.py`` file may have Triton kernels; other packages have a decorator ``jit``, too."""
    return "triton" in text and _IMPORTS_TRITON.search(text) is not None and may_have_kernels(text)


def _triton(spec: KernelSpec, source: PythonSource, registered: bool) -> PythonKernel | None:
    """Return a Triton kernel; None for a kernel in a string."""
    if language_of(spec, source) is not TRITON:
        return None
    empty = read(spec.source, "")
    kernel, _ = choose_triton_kernel(spec, source)
    if kernel is None:
        return PythonKernel(spec, registered, None, empty)
    params = tuple(Param(one.name, "", False, False, one.range) for one in kernel.params)
    declaration = KernelDecl(kernel.name, kernel.name, (), params, kernel.name_range, kernel.range)
    return PythonKernel(spec, registered, declaration, empty, TritonFunction(kernel, source))


def _pyptx(spec: KernelSpec, source: PythonSource, registered: bool) -> PythonKernel | None:
    """Return a kernel of pyptx; None for another one."""
    if language_of(spec, source) is not PYPTX:
        return None
    kernel, _ = choose_pyptx_kernel(spec, source)
    declaration = None
    if kernel is not None:
        declaration = KernelDecl(kernel.name, kernel.name, (), (), kernel.name_range, kernel.range)
    return PythonKernel(spec, registered, declaration, read(spec.source, ""), pyptx=True)


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
        wanted = (spec.entry or spec.name).split("<")[0].strip()
        declared = [one for one in inner.kernels if wanted in (one.name, one.qualified_name)]
        if not declared and len(inner.kernels) == 1 and spec.entry is None:
            declared = list(inner.kernels)
        located = self._located(declared[0], code) if declared else None
        variable = variable_of(self._source, spec.string) if spec.string is not None else None
        return PythonKernel(spec, registered, located, inner, variable=variable)

    @property
    def launches(self) -> tuple[LaunchSite, ...]:
        """Launches in the host code of the strings, at their places in the ``.py``."""
        return tuple(self._located(launch, code) for inner, code in self._read.values() for launch in inner.launches)

    def _inner(self, spec: KernelSpec, code: EmbeddedCuda) -> SourceFile:
        text = code.text.text
        return read(spec.source, text, spec.include_dirs or usual_include_dirs(spec.source, text))

    def _located(self, item: _Ranged, code: EmbeddedCuda) -> _Ranged:
        if isinstance(item, KernelDecl):
            params = tuple(replace(param, range=self._range(param.range, code)) for param in item.params)
            name_range = self._range(item.name_range, code)
            return replace(item, name_range=name_range, range=self._range(item.range, code), params=params)
        return replace(item, range=self._range(item.range, code))

    def _range(self, span: Range, code: EmbeddedCuda) -> Range:
        place = code.text.place(span, self._source.files)
        # Code of a constant that the module imports is shown at the call that compiles it.
        return place.range if place.path == self._source.path else code.range
