"""A language of kernels that only their program launches."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.runtime.python_process.language import LaunchingLanguage
from gpuemu_lsp.engine.subjects.language import Language, PreparedKernel, SourceRequest

if TYPE_CHECKING:
    from gpuemu_lsp.engine.findings import Finding
    from gpuemu_lsp.engine.project.model import KernelSpec, Project
    from gpuemu_lsp.engine.source.model import KernelDecl
    from gpuemu_lsp.engine.source.python.model import LaunchingKernel, PythonSource


class Launching(Language):
    """One of the languages whose programs use our runtime: the program compiles its kernels."""

    imports_module = True
    only_launched = True

    def __init__(self, launches: LaunchingLanguage) -> None:
        self.launches = launches
        self.name = launches.key

    def may_occur(self, text: str) -> bool:
        """Return whether a text imports the language's package and has its decorator."""
        from gpuemu_lsp.engine.source.python.launching_kernels import LAUNCHING

        return any(syntax.language == self.name and syntax.occurs(text) for syntax in LAUNCHING)

    def kernel_names(self, source: PythonSource) -> Collection[str]:
        """Return the names of the decorated functions, with those of what is around them."""
        return [kernel.name for kernel in self._kernels(source)]

    def unregistered(
        self, source: PythonSource, taken: Container[str], project: Project | None = None
    ) -> Iterable[KernelSpec]:
        """Return the kernels of the module."""
        from gpuemu_lsp.engine.findings import Place
        from gpuemu_lsp.engine.project.model import KernelSpec

        kernels = {kernel.name: kernel for kernel in self._kernels(source) if kernel.name not in taken}
        return [
            KernelSpec(
                name.rpartition(".")[2],
                source.path,
                None,
                entry=name,
                language=self.name,
                places={"": Place(source.path, kernel.name_range)},
            )
            for name, kernel in kernels.items()
        ]

    def declaration(self, spec: KernelSpec, text: str, module: PythonSource | None) -> KernelDecl | None:
        """Return the decorated function."""
        from gpuemu_lsp.engine.source.model import KernelDecl

        wanted = spec.entry or spec.name
        kernels = self._kernels(module) if module is not None else []
        kernel = next((kernel for kernel in kernels if kernel.name == wanted), None)
        if kernel is None:
            return None
        name = kernel.name.rpartition(".")[2]
        return KernelDecl(name, kernel.name, (), (), kernel.name_range, kernel.range)

    def prepare(self, source: SourceRequest) -> PreparedKernel:
        """Return what the last run of the program has compiled and launched."""
        from gpuemu_lsp.engine.source.python import read_python
        from gpuemu_lsp.engine.subjects.program_kernels.preparation import prepare_launching

        module = read_python(source.spec.source, source.text)
        return prepare_launching(source, self.launches, self.declaration(source.spec, source.text, module))

    def claim_before_run(self, finding: Finding, text: str) -> Finding:
        """Return a finding as it is; that a kernel has not run yet is a hint."""
        from gpuemu_lsp.engine.subjects.unregistered import softened

        return softened(finding)

    def _kernels(self, source: PythonSource) -> list[LaunchingKernel]:
        return [kernel for kernel in source.launching if kernel.language == self.name]
