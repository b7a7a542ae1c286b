"""The protocol of languages, with its records: what a preparation gets, and its result before a kernel runs.

Each language is a folder next to this module, whose ``language.py`` implements the protocol, and a row of the table in
:mod:`.languages`. Neither imports a reader or a compiler: front ends that only name a language start quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Protocol

from gpuemu_lsp.engine.compile.model import Artifact, CompileResult, ResourceUsage, Specialisation
from gpuemu_lsp.engine.findings import Finding, Json, Place, Range
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.regular_file import readable_text
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.headers.hip import is_own_header

if TYPE_CHECKING:
    from gpuemu_lsp.engine.execution import Executor
    from gpuemu_lsp.engine.plan.model import Plan
    from gpuemu_lsp.engine.project.model import Project
    from gpuemu_lsp.engine.ptx.model import Module
    from gpuemu_lsp.engine.source.ignore_comments import IgnoreComments
    from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
    from gpuemu_lsp.engine.source.python.model import PythonSource
    from gpuemu_lsp.engine.subjects.ahead import PlansAhead, TranslatePlan
    from gpuemu_lsp.engine.subjects.model import Subject
    from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
    from gpuemu_lsp.engine.subjects.source_map import SourceMap


class Closeable(Protocol):
    """A process, or several."""

    def close(self) -> None:
        """End it."""
        ...


class PendingLint(Protocol):
    """Lint of compiled code, for which another process still computes the resource usage."""

    def finish(self) -> tuple[tuple[Artifact, ...], tuple[Finding, ...]]:
        """Return the artifacts with their resource usage, and the findings on them."""
        ...


def _no_comments() -> IgnoreComments:
    from gpuemu_lsp.engine.source.ignore_comments import IgnoreComments

    return IgnoreComments(lambda _: None)


@dataclass(frozen=True, slots=True)
class SourceRequest:
    """A kernel to prepare: the request of its check, the text of its file, and the place of its entry.

    ``ahead`` translates the code of a plan in another process. With it, findings may be pending, and processes must be
    closed.
    """

    request: CheckRequest
    text: str
    place: Place
    ahead: TranslatePlan | None = None

    @property
    def spec(self) -> KernelSpec:
        """The kernel."""
        return self.request.spec

    @property
    def options(self) -> CheckOptions:
        """The extent of the check."""
        return self.request.options

    @property
    def arch(self) -> tuple[str, ...]:
        """The architectures to compile for, the first of which runs."""
        return (self.options.arch,) if self.options.arch else self.spec.arch

    def text_of(self, path: str) -> str | None:
        """Return the text of a file as the editor has it, else as it is on disk; None if it cannot be read."""
        if path == self.spec.source:
            return self.text
        return self.request.overlay.get(path) or readable_text(path)

    def stopped(self, *findings: Finding, place: Place | None = None) -> PreparedKernel:
        """Return the result for a kernel that cannot run; the findings say why."""
        return PreparedKernel(findings, place or self.place)

    def not_run(self, why: str, place: Place | None = None) -> Finding:
        """Return the finding that the kernel was not run, for a reason that is the end of a sentence."""
        message = f"'{self.spec.name}' was not run: {why}."
        data = {"reason": why}
        return make("engine/not-executed", message, place or self.place, kernel=self.spec.name, data=data)

    def function(self, name: str, name_range: Range, whole: Range) -> SourceFile:
        """Return a function of Python as the only declaration of its file."""
        from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile

        declared = KernelDecl(name, name, (), (), name_range, whole, extern_c=True)
        return SourceFile(self.spec.source, self.text, (declared,), (), {})


@dataclass(frozen=True, slots=True)
class ProgramLaunches:
    """The launches of a kernel in a run of its program.

    ``checked`` of the ``count`` launches were executed with all checkers, or proved repeats of such; ``failed`` are
    those with findings.
    """

    count: int
    checked: int
    failed: int


@dataclass(frozen=True, slots=True)
class PreparedKernel:
    """Everything that is known of a kernel before it runs.

    ``artifacts`` has one compilation per requested architecture, in that order; ``artifact`` is the first of them, the
    one to execute. ``headers`` has the device views of included files by path. ``ignores`` applies the ignore comments
    of the source. ``overlay`` has the unsaved texts of headers. ``subject`` gives cases their code, if the kernel
    compiles. ``language`` is None for a file that cannot be read.
    """

    findings: tuple[Finding, ...]
    place: Place
    source: SourceFile | None = None
    plans: tuple[Plan, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    resources: Mapping[str, ResourceUsage] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    compile_ms: float = 0.0
    ignores: IgnoreComments = field(default_factory=_no_comments)
    overlay: Mapping[str, str] = field(default_factory=dict)
    subject: Subject | None = None
    language: Language | None = None
    unoptimized: Callable[[], CompileResult] | None = None
    """Compiles the kernel without optimisation, where all cases of a plan have the same code."""
    specialisation: Specialisation | None = None
    pending: PendingLint | None = None
    ahead: PlansAhead | None = None
    launches: ProgramLaunches | None = None
    """Of a kernel that only its program launches: what a run of it has checked, and all that there is to check."""
    processes: tuple[Closeable, ...] = ()
    """Processes that work for this check, to be closed at its end."""

    @property
    def artifact(self) -> Artifact | None:
        """The artifact to execute, None if the kernel does not compile."""
        return self.artifacts[0] if self.artifacts else None

    @property
    def calls_function(self) -> bool:
        """Whether a case is a call of the user's function."""
        return self.language is not None and self.language.calls_function

    def without_optimization(self) -> CompileResult:
        """Compile the kernel again without optimisation.

        Raises
        ------
        ToolchainError
            If the compiler is no longer available.
        """
        assert self.unoptimized is not None
        return self.unoptimized()

    def finished(self) -> tuple[PreparedKernel, tuple[Finding, ...]]:
        """Return the kernel with the resource usage of its artifacts, and the findings that were pending."""
        if self.pending is None:
            return self, ()
        artifacts, findings = self.pending.finish()
        return replace(self, artifacts=artifacts, resources=resources_of(artifacts), pending=None), findings

    def source_map(self, module: Module, plan: Plan) -> SourceMap:
        """Return the source map of a module that was compiled from this kernel's file."""
        from gpuemu_lsp.engine.subjects.source_map import SourceMap

        source = self.source
        assert source is not None

        @cache
        def text_of(path: str) -> str | None:
            if path == source.path:
                return source.text
            if path not in self.headers or is_own_header(path):
                return None
            return self.overlay.get(path) or readable_text(path)

        return SourceMap(module.files, text_of, plan.place, python=False)


class Language(Protocol):
    """A language of kernels; defaults are those of a language whose code is compiled ahead and run by an executor."""

    name: str
    """Its value of the key ``language`` in gpuemu.toml."""
    suffixes: frozenset[str] = frozenset()
    """How the names of files end whose kernels are in this language."""
    remark: str = ""
    """What a verdict adds on the device that such a kernel was compiled for."""
    kernel_word: str = "__global__"
    """The word that makes a function of such a file a kernel."""
    program_suffixes: frozenset[str] = frozenset()
    """Those of them that are compiled for themselves: such a file may have ``main``, and ``gpuemu run`` builds it."""
    imports_module: bool = False
    """Preparation executes the user's module."""
    identified_by_tokens: bool = False
    """The tokens of the module and the versions of packages determine a verdict; else the compiled code does."""
    only_launched: bool = False
    """Only programs launch kernels of this language: a run of the program is what checks them."""
    calls_function: bool = False
    """A case is a call of the user's function, which may end the process; it has no PTX."""

    def may_occur(self, text: str) -> bool:
        """Return whether a ``.py`` may have kernels in this language. Fast: most files have none and are not read."""
        return False

    def kernel_names(self, source: PythonSource) -> Collection[str]:
        """Return the names by which an entry of gpuemu.toml may mean a kernel of a module in this language."""
        return ()

    def occurs(self, source: PythonSource) -> bool:
        """Return whether a module has kernels in this language."""
        return bool(self.kernel_names(source))

    def executor(self) -> Executor | None:
        """Return what runs cases, None for the executor that the user has chosen."""
        return None

    def unregistered(
        self, source: PythonSource, taken: Container[str], project: Project | None = None
    ) -> Iterable[KernelSpec]:
        """Return the kernels of a module that no gpuemu.toml mentions: those whose names are not ``taken``.

        With a ``project`` its other files count too, if they launch kernels of the module.
        """
        return ()

    def declaration(self, spec: KernelSpec, text: str, module: PythonSource | None) -> KernelDecl | None:
        """Return the function that is the kernel of an entry, None if its file has no such function."""
        return None

    def plans(
        self, spec: KernelSpec, registered: bool, source: SourceFile, module: PythonSource | None
    ) -> tuple[Plan, ...]:
        """Return the plans of a kernel as far as they are known without running anything of its file."""
        return ()

    def origin(self, spec: KernelSpec) -> Mapping[str, Json]:
        """Return what a baseline says of a kernel in this language only, such as the library that it is of."""
        return {}

    def prepare(self, source: SourceRequest) -> PreparedKernel:
        """Find the kernel, resolve its plans, compile and lint what its first cases run.

        Parameters
        ----------
        source : SourceRequest
            The kernel, and the text of its file.

        Returns
        -------
        PreparedKernel
            Its ``subject`` gives each case its code. Without one its findings say why nothing runs.
        """
        ...

    def claim_before_run(self, finding: Finding, text: str) -> Finding:
        """Return a finding of the preparation as it is claimed about a kernel that no gpuemu.toml mentions.

        ``text`` is that of the kernel's file.
        """
        return finding


def resources_of(artifacts: Iterable[Artifact]) -> dict[str, ResourceUsage]:
    """Return the resource usage of a kernel by architecture, as far as it is known."""
    return {item.arch: next(iter(item.resources.values())) for item in artifacts if item.resources}
