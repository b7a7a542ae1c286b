"""Triton as a language of the engine."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Iterable
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.subjects.language import Language, PreparedKernel, SourceRequest

if TYPE_CHECKING:
    from gpuemu_lsp.engine.findings import Finding
    from gpuemu_lsp.engine.plan.model import Plan
    from gpuemu_lsp.engine.project.model import KernelSpec, Project
    from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
    from gpuemu_lsp.engine.source.python.model import PythonSource

_IMPORT = re.compile(r"^[ \t]*(?:import|from)[ \t]+triton\b", re.MULTILINE)


class Triton(Language):
    """Triton: the module is imported, and the kernel is compiled again for other types, values and alignments."""

    name = "triton"
    imports_module = True
    identified_by_tokens = True

    def may_occur(self, text: str) -> bool:
        """Return whether a text imports Triton and has its decorator; other packages have a ``jit``, too."""
        from gpuemu_lsp.engine.source.python import may_have_kernels

        return "triton" in text and _IMPORT.search(text) is not None and may_have_kernels(text)

    def kernel_names(self, source: PythonSource) -> Collection[str]:
        """Return the names of the module's ``@triton.jit`` functions."""
        return [kernel.name for kernel in source.triton]

    def unregistered(
        self, source: PythonSource, taken: Container[str], project: Project | None = None
    ) -> Iterable[KernelSpec]:
        """Return the kernels that the module launches, and with a project those that its other files launch."""
        from gpuemu_lsp.engine.plan.triton import unregistered_specs

        if project is None:
            return unregistered_specs(source, taken)
        from gpuemu_lsp.engine.plan.wrappers.launching_files import imported_specs, launching_files

        silent = [kernel.name for kernel in source.triton if not kernel.launched and kernel.name not in taken]
        launched = {kernel.name for _, kernel in launching_files(source.path, silent)}
        return (*unregistered_specs(source, taken, launched), *imported_specs(project, source))

    def declaration(self, spec: KernelSpec, text: str, module: PythonSource | None) -> KernelDecl | None:
        """Return the decorated function."""
        from gpuemu_lsp.engine.plan.triton import choose_triton_kernel
        from gpuemu_lsp.engine.source.model import KernelDecl, Param

        kernel = choose_triton_kernel(spec, module)[0] if module is not None else None
        if kernel is None:
            return None
        params = tuple(Param(param.name, "", False, False, param.range) for param in kernel.params)
        return KernelDecl(kernel.name, kernel.name, (), params, kernel.name_range, kernel.range)

    def plans(
        self, spec: KernelSpec, registered: bool, source: SourceFile, module: PythonSource | None
    ) -> tuple[Plan, ...]:
        """Return the plans from gpuemu.toml, or from a launch in the text."""
        from gpuemu_lsp.engine.plan.triton import Tuning, choose_triton_kernel, resolve_triton
        from gpuemu_lsp.engine.plan.wrappers.inference import inferred_kernel
        from gpuemu_lsp.engine.plan.wrappers.inferred_kernel import InferredKernel

        kernel = choose_triton_kernel(spec, module)[0] if module is not None else None
        if module is None or kernel is None:
            return ()
        if not registered:
            launch = inferred_kernel(spec, module.text, [function.name for function in module.triton])
            spec = launch.spec if isinstance(launch, InferredKernel) else spec
        return resolve_triton(spec, module, kernel, Tuning()).plans

    def prepare(self, source: SourceRequest) -> PreparedKernel:
        """Import the module, resolve the plans, and compile the first case of each."""
        from gpuemu_lsp.engine.subjects.triton.preparation import prepare_triton

        return prepare_triton(source)

    def claim_before_run(self, finding: Finding, text: str) -> Finding:
        """Return a finding with the claim that it has on types and sizes of which some may be assumed."""
        from gpuemu_lsp.engine.subjects.unregistered import claim_before_run

        return claim_before_run(finding, text)
