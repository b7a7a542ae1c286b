"""Parsed files: kernels, their configuration entries, launches and headers. Parsing never runs on the event loop.

A short file parses in a millisecond, a long one in a tenth of a second. Launches of a header's kernels may be in any
file of its folder, and a gpuemu.toml may have hundreds of entries. Handlers therefore use the last result, or await the
one parser thread.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import ParamSpec, TypeVar

from gpuemu_lsp.engine.findings import Finding, Range
from gpuemu_lsp.engine.hostcode.cpp.launch_sites import LaunchSite, launch_sites, sites_in_includers
from gpuemu_lsp.engine.jobs.requests.targets import read_kernels
from gpuemu_lsp.engine.kernel_names import without_arguments
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.model import KernelSpec, Project
from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.source import device_views, read
from gpuemu_lsp.engine.source.headers.includes import closure
from gpuemu_lsp.engine.source.headers.kernel_files import mentions_kernels
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
from gpuemu_lsp.engine.source.preprocessor.lexer import source_text
from gpuemu_lsp.engine.source.python.model import PythonSource
from gpuemu_lsp.engine.subjects.language import Language
from gpuemu_lsp.engine.subjects.languages import CUDA, SUFFIXES, language_of_entry
from gpuemu_lsp.server.documents.python_files import PythonKernels, python_kernels
from gpuemu_lsp.server.workspace.projects import Projects

_MAX_FILES = 512
_KERNEL = re.compile(r"\b__global__\b")
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True)
class KernelEntry:
    """A kernel to check, from gpuemu.toml (``registered``) or found in the text.

    ``decl`` is None where the text does not declare the kernel that gpuemu.toml names. ``source`` is the file, or for a
    kernel of a ``.py`` file the CUDA code in its string, which is that of ``variable`` in the program. ``module`` is
    the ``.py`` of a kernel that is a function of Python.
    """

    spec: KernelSpec
    registered: bool
    decl: KernelDecl | None
    source: SourceFile = field(repr=False, compare=False)
    variable: str | None = field(default=None, compare=False)
    language: Language = field(default=CUDA, compare=False)
    module: PythonSource | None = field(default=None, repr=False, compare=False)

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """Its plans from its launches; reading them takes 10 ms, or a second for all kernels of a large file."""
        return self.language.plans(self.spec, self.registered, self.source, self.module)

    @property
    def runs_python(self) -> bool:
        """Whether the user's module is executed already to compile it."""
        return self.language.imports_module

    @property
    def id(self) -> str:
        """Identity of the kernel within its file."""
        return kernel_id(self.spec)


@dataclass(frozen=True, slots=True)
class ParsedFile:
    """A text and the kernels in it. ``project`` is None where gpuemu.toml has never been valid TOML.

    ``launches`` returns those in the text and, for a header, in the files that include it; it takes milliseconds.
    ``headers`` are the user headers it includes, directly or not; ``missing`` are names of headers that do not exist.
    ``findings`` are hints on code of a ``.py`` file that is not known without running it.
    """

    project: Project | None
    path: str
    text: str
    kernels: tuple[KernelDecl, ...] = ()
    entries: tuple[KernelEntry, ...] = ()
    headers: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()
    launches: Callable[[], tuple[LaunchSite, ...]] = field(default=tuple, compare=False)
    findings: tuple[Finding, ...] = ()

    @property
    def has_kernels(self) -> bool:
        """Whether there is anything in the file to attend to."""
        return bool(self.kernels or self.entries or self.findings)

    @property
    def python_folders(self) -> frozenset[Path]:
        """Folders of references and, for a ``.py`` with kernels, its own: modules in them may be imported."""
        references = {entry.spec.reference for entry in self.entries} - {None}
        own = [self.path] if is_python(self.path) and self.entries else []
        packages = frozenset(Path(entry.spec.op.folder) for entry in self.entries if entry.spec.op is not None)
        return packages | frozenset(Path(one).parent for one in (*references, *own) if one is not None)

    @property
    def functions(self) -> frozenset[Range]:
        """Ranges of the kernels that are functions of Python."""
        return frozenset(one.decl.range for one in self.entries if one.runs_python and one.decl is not None)

    def name_of(self, entry: KernelEntry) -> str:
        """Return the name of a kernel for users and clients, which no other kernel of the file has.

        Functions of several namespaces, and of several strings of a ``.py``, may share a name. The names in gpuemu.toml
        are unique.
        """
        spec = entry.spec
        alike = [one for one in self.entries if one.spec.name == spec.name]
        if entry.registered or len(alike) == 1:
            return spec.name
        if spec.entry is not None and sum(one.spec.entry == spec.entry for one in alike) == 1:
            return spec.entry
        if spec.string is None:
            return spec.name
        return f"{spec.name}:{entry.variable}" if entry.variable is not None else f"{spec.name}#{spec.string + 1}"

    def ids_of(self, kernel: str) -> frozenset[str]:
        """Return the identity of the kernel of this name by :meth:`name_of`, else those of all that share the name."""
        exact = frozenset(entry.id for entry in self.entries if self.name_of(entry) == kernel)
        return exact or frozenset(entry.id for entry in self.entries if entry.spec.name == kernel)

    def name_at(self, kernel: str, line: int) -> str:
        """Return the name, as of :meth:`name_of`, of the kernel of a name that a 0-based line is part of."""
        alike = [entry for entry in self.entries if entry.spec.name == kernel]
        around = [one for one in alike if one.decl and one.decl.range.start.line <= line <= one.decl.range.end.line]
        return self.name_of(around[0]) if around else kernel

    def decl_of(self, spec: KernelSpec) -> KernelDecl | None:
        """Return the kernel function that an entry of gpuemu.toml refers to."""
        if is_python(self.path) or Path(self.path).name == CONFIG_NAME:
            identity = kernel_id(spec)
            return next((entry.decl for entry in self.entries if entry.id == identity), None)
        return _decl_of(self.kernels, spec)

    def depends_on(self, path: str) -> bool:
        """Return whether another file affects the results of this one.

        That is a header it includes, or would include if the header existed, or a Python file in the folder of a
        reference or of a ``.py`` with kernels, either of which may import it.
        """
        if path.endswith(".py"):
            return Path(path).parent in self.python_folders
        return path in self.headers or Path(path).name in self.missing


def parse_file(project: Project | None, path: str, text: str) -> ParsedFile:
    """Parse a text; one that is not CUDA by name, mentions no kernel and is the source of no entry has no kernels."""
    if is_python(path):
        return _parse_python(project, path, text)
    if Path(path).name == CONFIG_NAME:
        return _parse_config(project, path, text)
    named = Path(path).suffix in SUFFIXES or (project is not None and is_source(project, path))
    if not named and not mentions_kernels(text):
        return ParsedFile(project, path, text)
    if project is None:
        return ParsedFile(None, path, text, read(path, text).kernels)
    source, found = read_kernels(project, path, text)
    tokens = source_text(text)
    if named and not found and not source.kernels and _KERNEL.search(tokens.code):
        # A kernel's declaration is incomplete, or #if excludes every kernel: the compiler reports which.
        found = [(KernelSpec(Path(path).stem, path, None), False)]
    headers = {
        header: None
        for folders in {spec.include_dirs for spec, _ in found} or {()}
        for header in closure(tokens, path, folders, {})
    }
    return ParsedFile(
        project,
        path,
        text,
        source.kernels,
        tuple(KernelEntry(spec, registered, _decl_of(source.kernels, spec), source) for spec, registered in found),
        tuple(headers),
        frozenset(Path(include.target).name for include in source.includes if include.resolved is None),
        partial(_launches, source, next((spec.include_dirs for spec, _ in found), ())),
    )


def _launches(source: SourceFile, include_dirs: Sequence[str]) -> tuple[LaunchSite, ...]:
    """Return the launches in a file; for a header, those of its kernels in the files that include it."""
    own = launch_sites(device_views(source.path, source.text, include_dirs))
    return own or sites_in_includers(source.path, (kernel.name for kernel in source.kernels), include_dirs)


def _parse_config(project: Project | None, path: str, text: str) -> ParsedFile:
    """Parse a gpuemu.toml as the source of the ops that have no file in the project."""
    specs = [spec for spec in project.kernels if spec.source == path] if project is not None else []
    entries = tuple(
        KernelEntry(spec, True, language.declaration(spec, "", None), read(spec.source, ""), language=language)
        for spec in specs
        if (language := language_of_entry(spec)) is not None and language.calls_function
    )
    return ParsedFile(project, path, text, tuple(one.decl for one in entries if one.decl is not None), entries)


def _parse_python(project: Project | None, path: str, text: str) -> ParsedFile:
    """Parse the text of a ``.py``: as that of a CUDA file, each string with CUDA code for itself."""
    found = python_kernels(project or Project(str(Path(path).parent), None), path, text)
    declared = dict.fromkeys(kernel.decl for kernel in found.kernels if kernel.decl is not None)
    kernels = tuple(sorted(declared, key=lambda decl: decl.name_range.start))
    if project is None:
        return ParsedFile(None, path, text, kernels)
    return ParsedFile(
        project,
        path,
        text,
        kernels,
        tuple(
            KernelEntry(one.spec, one.registered, one.decl, one.source, one.variable, one.language, one.module)
            for one in found.kernels
        ),
        tuple(_headers(path, found)),
        frozenset(
            Path(include.target).name
            for one in found.kernels
            for include in one.source.includes
            if include.resolved is None
        ),
        found.launches,
        found.findings,
    )


def _headers(path: str, found: PythonKernels) -> dict[str, None]:
    codes = {(one.source.text, one.spec.include_dirs) for one in found.kernels if one.source.includes}
    return {header: None for text, folders in codes for header in closure(source_text(text), path, folders, {})}


def is_python(path: str) -> bool:
    """Return whether a file is Python, which the server attends to only if it has kernels."""
    return path.endswith(".py")


def kernel_id(spec: KernelSpec) -> str:
    """Return the identity of a kernel within its file.

    Functions of several namespaces, and of several strings of a ``.py``, may share a name.
    """
    identity = spec.name if spec.entry is None else f"{spec.name} = {spec.entry}"
    return identity if spec.string is None else f"{identity}, string {spec.string + 1}"


def is_source(project: Project, path: str) -> bool:
    """Return whether gpuemu.toml names the file as the source of a kernel."""
    return any(spec.source == path for spec in project.kernels)


def refers_to(spec: KernelSpec, decl: KernelDecl, alone: bool) -> bool:
    """Return whether an entry refers to a kernel function.

    Without ``entry`` it refers to the function of its name, or to any name if that is the file's only one (``alone``).
    """
    if spec.entry is None and alone:
        return True
    return function_of(spec) in (decl.name, decl.qualified_name)


def function_of(spec: KernelSpec) -> str:
    """Return the name of the kernel function that an entry refers to, without template arguments."""
    return without_arguments(spec.entry or spec.name)


def text_on_disk(path: str) -> str | None:
    """Return a file's text on disk; None where it does not exist or is not UTF-8."""
    try:
        return file_bytes(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


class ParsedFiles:
    """The last parse of every file, and the parser thread."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects
        self._last: dict[str, ParsedFile] = {}
        self._configs: dict[str, tuple[str, Project]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gpuemu-parse")

    def __len__(self) -> int:
        return len(self._last)

    def last(self, path: str) -> ParsedFile | None:
        """Return the last parse of a file, whatever its text is now."""
        return self._last.get(path)

    def unregistered(self, root: str) -> list[KernelSpec]:
        """Return the unregistered kernels of a project's files, as last parsed."""
        files = [one for one in self._last.values() if one.project is not None and one.project.root == root]
        return [entry.spec for one in files for entry in one.entries if not entry.registered]

    async def parse(self, path: str, text: str | None, fresh: bool = False) -> ParsedFile | None:
        """Parse a text, or the file on disk where it is None.

        The last parse of the same text is reused unless ``fresh``, which also reads headers and launches again.
        """
        known = self._last.get(path)
        if known is not None and not fresh and known.text == text and known.project is self._projects.of(path):
            return known
        parsed = await self.run_in_thread(self._parse, path, text)
        if parsed is None:
            self._last.pop(path, None)
            return None
        if len(self._last) >= _MAX_FILES:
            self._last.pop(next(iter(self._last)))
        self._last[path] = parsed
        return parsed

    async def read_plans(self, parsed: ParsedFile) -> bool:
        """Read the plans of a parse's kernels; return False if a newer parse has taken its place.

        Each kernel is a call of its own, so that a parse waits for one of them at most.
        """
        for entry in parsed.entries:
            if self._last.get(parsed.path) is not parsed:
                return False
            await self.run_in_thread(getattr, entry, "plans")
        return self._last.get(parsed.path) is parsed

    async def parse_config(self, path: str, text: str) -> Project:
        """Parse the text of an open gpuemu.toml. The project that checks use changes only on save."""
        loaded = self._configs.get(path)
        if loaded is None or loaded[0] != text:
            loaded = self._configs[path] = text, await self.run_in_thread(load, Path(path), text)
        return loaded[1]

    def forget_config(self, path: str) -> None:
        """Parse a configuration again although its text is the same, because files that it names have changed."""
        self._configs.pop(path, None)

    async def run_in_thread(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function in the parser thread, after the calls that were queued before."""
        assert not kwargs
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    def close(self) -> None:
        """Drop queued calls and accept no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _parse(self, path: str, text: str | None) -> ParsedFile | None:
        if text is None:
            text = text_on_disk(path)
        if text is None:
            return None
        return parse_file(self._projects.read(path), path, text)


def _decl_of(kernels: Sequence[KernelDecl], spec: KernelSpec) -> KernelDecl | None:
    return next((decl for decl in kernels if refers_to(spec, decl, alone=len(kernels) == 1)), None)
