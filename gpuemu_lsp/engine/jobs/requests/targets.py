"""Resolution of command-line targets: projects, folders, .cu files and kernel names become check requests."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from gpuemu_lsp.engine.build.context import build_context, with_context
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.kernel_names import without_arguments
from gpuemu_lsp.engine.plan.resolve import unregistered
from gpuemu_lsp.engine.project import discover, load
from gpuemu_lsp.engine.project.files import problem
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.model import KernelSpec, Project
from gpuemu_lsp.engine.recordings.project_files import store_folder
from gpuemu_lsp.engine.regular_file import file_bytes, file_text
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source import include_closure, read
from gpuemu_lsp.engine.source.headers.kernel_files import may_have_kernels, mentions_kernels
from gpuemu_lsp.engine.source.model import SourceFile
from gpuemu_lsp.engine.source.notebooks.files import SUFFIX as NOTEBOOK
from gpuemu_lsp.engine.source.notebooks.files import Notebook, NotebookError, read_notebook
from gpuemu_lsp.engine.subjects.languages import LANGUAGES, SUFFIXES, calls_function, has_programs, language_of_path
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

_PYTHON = ".py"
_MOST_NAMED = 4
_SKIPPED = frozenset({"node_modules", "build", "dist", "__pycache__", "site-packages"})

_Found: TypeAlias = "list[tuple[KernelSpec, bool]]"
"""Specs, each with whether it is registered in gpuemu.toml."""


class TargetError(ValueError):
    """An argument that is neither a path nor a kernel; the message lists the kernels."""


@dataclass(frozen=True, slots=True)
class Targets:
    """Check requests, findings in the configuration, and the files to watch for changes.

    Requests and findings about a cell of ``notebooks`` have the path of the source that the cell is.
    """

    root: str
    requests: tuple[CheckRequest, ...]
    findings: tuple[Finding, ...]
    watched: tuple[str, ...] = ()
    projects: tuple[Project, ...] = field(default=())
    notebooks: tuple[Notebook, ...] = ()


def collect(arguments: Sequence[str], options: CheckOptions, cwd: Path) -> Targets:
    """Resolve the command line's targets.

    Raises
    ------
    TargetError
        If an argument is neither an existing path nor the name of a registered kernel.
    """
    collection = _TargetCollector(options)
    for argument in arguments or ["."]:
        collection.add(argument, cwd)
    return collection.targets(cwd)


class _TargetCollector:
    """Accumulates the requests and findings of several arguments."""

    def __init__(self, options: CheckOptions) -> None:
        self._options = options
        self._projects: dict[Path | None, Project] = {}
        self._wanted: dict[tuple[str, str, str, str | None, int | None], CheckRequest] = {}
        self._findings: list[Finding] = []
        self._notebooks: list[Notebook] = []

    def add(self, argument: str, cwd: Path) -> None:
        path = Path(os.path.normpath(cwd / argument))
        if not os.path.lexists(path):
            self._kernel(argument, cwd)
        elif path.is_dir():
            self._folder(path)
        elif path.name == CONFIG_NAME:
            self._folder(path.parent)
        else:
            self._file(self._project(path.parent), path)

    def targets(self, cwd: Path) -> Targets:
        projects = tuple(self._projects.values())
        root = projects[0].root if len(projects) == 1 else str(cwd)
        requests = tuple(self._wanted.values())
        notebooks = tuple(self._notebooks)
        watched = _watched(projects, requests, notebooks)
        return Targets(root, requests, tuple(self._findings), watched, projects, notebooks)

    def _project(self, folder: Path) -> Project:
        config = discover(folder)
        if config not in self._projects:
            self._projects[config] = load(config) if config else Project(root=str(folder), config=None)
            self._findings += self._projects[config].findings
        return self._projects[config]

    def _kernel(self, name: str, folder: Path) -> None:
        """Add the kernel of a name from the folder's configuration, or where it has none, from those below it."""
        projects = [self._project(folder)]
        if projects[0].config is None and folder != folder.parent:
            projects = [self._project(inner) for inner in projects_below(folder)] or projects
        named = [(project, spec) for project in projects for spec in project.kernels if spec.name == name]
        if not named:
            raise TargetError(_unknown(projects, name))
        for project, spec in named:
            self._want(project, [(spec, True)])

    def _folder(self, folder: Path) -> None:
        """Add the registered kernels and other kernels in their files; if none is registered, of all files."""
        project = self._project(folder)
        if folder == folder.parent and project.config is None:
            raise TargetError(f"'{folder}' is the root of the file system; name the folder with your kernels.")
        whole = project.config is not None and Path(project.config).parent.is_relative_to(folder)
        registered = [spec for spec in project.kernels if whole or Path(spec.source).is_relative_to(folder)]
        if registered or whole:
            self._want(project, [(spec, True) for spec in registered])
            for source in dict.fromkeys(spec.source for spec in registered if not calls_function(spec)):
                self._file(project, Path(source))
            return
        for path in _walk(folder):
            if path.name == CONFIG_NAME:
                if discover(path.parent) != (Path(project.config) if project.config else None):
                    self._folder(path.parent)
            else:
                self._file(project, path)

    def _file(self, project: Project, path: Path) -> None:
        """Add the kernels of a file."""
        if path.suffix != NOTEBOOK:
            self._want(project, _in_file(project, path, self._findings))
            return
        notebook, trouble = _notebook(path)
        sources = _sources(notebook) if notebook is not None else []
        if notebook is None or not sources:
            message = f"{path.name} {trouble or 'has no kernels in its cells, so there is nothing to check'}."
            self._findings.append(make("engine/not-executed", message, _begin(path)))
            return
        self._notebooks.append(notebook)
        for source, text in sources:
            self._want(project, _in_text(project, source, text, self._findings), text)

    def _want(self, project: Project, found: _Found, text: str | None = None) -> None:
        """Add kernels, those of a ``text`` that no file has without a store: their cases could not be run again."""
        for spec, registered in found:
            if registered:
                spec = built(project, spec)
            chosen = replace(
                self._options,
                executor=project.executor if self._options.executor == "auto" else self._options.executor,
                store_root=store_folder(project.root, project.config) if text is None else None,
            )
            request = CheckRequest(spec, chosen, project.validation, registered, text=text, root=project.root)
            self._wanted.setdefault((project.root, spec.name, spec.source, spec.entry, spec.string), request)


def _unknown(projects: Sequence[Project], name: str) -> str:
    """Return the message for a name that is neither a file nor a kernel of these configurations."""
    names = [spec.name for project in projects for spec in project.kernels]
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        hint = f"did you mean '{close[0]}'?"
    elif any(name in project.broken for project in projects):
        hint = "its entry in gpuemu.toml has errors: run --check without arguments to see them."
    elif names:
        hint = f"there are: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"
    else:
        hint = "there is no gpuemu.toml with kernels here."
    return f"'{name}' is neither a file nor a registered kernel; {hint}"


def projects_below(folder: Path) -> list[Path]:
    """Return the folders below ``folder`` that have a configuration of their own."""
    return [path.parent for path in _walk(folder) if path.name == CONFIG_NAME]


def files_naming(folder: Path, names: Collection[str]) -> list[str]:
    """Return the files with kernels below a folder that have one of some names in their text."""
    texts = ((path, _text(path)[0] or "") for path in _walk(folder))
    return [path.as_posix() for path, text in texts if any(name in text for name in names)]


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files with kernels below a folder; for a nested folder with a configuration, that file instead."""
    for name, folders, files in os.walk(folder):
        here = Path(name)
        if CONFIG_NAME in files and here != folder:
            folders.clear()
            yield here / CONFIG_NAME
            continue
        folders[:] = sorted(inner for inner in folders if not inner.startswith(".") and inner not in _SKIPPED)
        for file in sorted(files):
            if file.startswith("."):
                continue
            text_decides = file.endswith((_PYTHON, NOTEBOOK)) or may_have_kernels(file)
            if has_programs(file) or (text_decides and _has_kernels(here / file)):
                yield here / file


def _has_kernels(path: Path) -> bool:
    """Return whether a file whose name does not say so has kernels."""
    if path.suffix == NOTEBOOK:
        notebook, _ = _notebook(path)
        return notebook is not None and bool(_sources(notebook))
    text, trouble = _text(path)
    return trouble is None and _has_kernels_in(path, text)


def _notebook(path: Path) -> tuple[Notebook | None, str]:
    """Return a notebook, or None and the reason why it cannot be read."""
    text, trouble = _text(path)
    try:
        return (read_notebook(path.as_posix(), text), "") if trouble is None else (None, trouble)
    except NotebookError as error:
        return None, str(error)


def _sources(notebook: Notebook) -> list[tuple[Path, str]]:
    """Return the paths and texts of what the cells with kernels are."""
    sources = [(Path(document.path), document.text) for document in notebook.documents]
    return [(path, text) for path, text in sources if _has_kernels_in(path, text)]


def _has_kernels_in(path: Path, text: str) -> bool:
    return _module_has_kernels(path, text) if path.suffix == _PYTHON else mentions_kernels(text)


def _module_has_kernels(path: Path, text: str) -> bool:
    """Return whether a module has kernels: CUDA code in strings, or functions that it or others launch."""
    # The reader of Python is loaded where there is Python: in most projects there is none.
    from gpuemu_lsp.engine.plan.wrappers.launching_files import launching_files
    from gpuemu_lsp.engine.source.python import may_have_cuda, may_have_launching, read_python

    # A class may have the name of a function that compiles strings.
    if not (may_have_cuda(text) or "triton" in text or "pyptx" in text or may_have_launching(text)):
        return False
    source = read_python(path.as_posix(), text)
    if source.launching:
        return True
    if source.cuda or source.unread or source.cuda_files or any(one.launched for one in source.triton) or source.pyptx:
        return True
    silent = [one.name for one in source.triton]
    return next(launching_files(source.path, silent), None) is not None


def _in_file(project: Project, path: Path, findings: list[Finding]) -> _Found:
    """Return the kernels of a file, registered ones first."""
    mine = [(built(project, spec), True) for spec in project.kernels if Path(spec.source) == path]
    if not (path.suffix in (*SUFFIXES, _PYTHON) or may_have_kernels(path.name) or mine):
        raise TargetError(f"'{path.name}' is not a .cu, .hip, .py or .ipynb file, a header, a folder or a gpuemu.toml")
    text, trouble = _text(path)
    if trouble is not None:
        if not mine:  # the check of a registered kernel reports it itself
            findings.append(make("engine/not-executed", f"{path.name} {trouble}.", _begin(path)))
        return mine
    return _in_text(project, path, text, findings)


def _begin(path: Path) -> Place:
    return Place(path.as_posix(), Range.of(0, 0, 0, 1))


def _in_text(project: Project, path: Path, text: str, findings: list[Finding]) -> _Found:
    """Return the kernels of a text, registered ones first."""
    place = _begin(path)
    if path.suffix == _PYTHON:
        registered = [(built(project, spec), True) for spec in project.kernels if Path(spec.source) == path]
        return [*registered, *_in_strings(project, path, text, place, findings)]
    found = kernels_in(project, path.as_posix(), text) or _in_headers(project, path, text)
    if not found and not (project.broken and mentions(project, path)):
        language = language_of_path(path.as_posix())
        word = language.kernel_word if language is not None else "__global__"
        message = f"{path.name} has no {word} function, so there is nothing to check."
        findings.append(make("engine/not-executed", message, place))
    return found


def own_folder(project: Project, path: Path) -> Path:
    """Return the folder below which headers are of the project of a file."""
    return Path(project.root) if project.config is not None else path.parent.parent


def _in_headers(project: Project, path: Path, text: str) -> _Found:
    """Return the kernels of the project's headers that a source without kernels includes."""
    own = own_folder(project, path)
    include_dirs = build_context(path.as_posix(), text, project).include_dirs
    headers = [Path(header) for header in include_closure(path.as_posix(), include_dirs)]
    texts = [(header, _text(header)[0] or "") for header in headers if header.is_relative_to(own)]
    return [one for header, code in texts if mentions_kernels(code) for one in kernels_in(project, str(header), code)]


def _in_strings(project: Project, path: Path, text: str, place: Place, findings: list[Finding]) -> _Found:
    """Return the unregistered kernels of a ``.py`` file: functions of Triton and pyptx, and CUDA code in strings."""
    from gpuemu_lsp.engine.jobs.requests.cuda_strings import kernels_in_strings
    from gpuemu_lsp.engine.source.python import may_have_cuda, read_python

    if project.broken and mentions(project, path):
        return []
    mine = any(spec.source == path.as_posix() for spec in project.kernels)
    registered = {spec.entry or spec.name for spec in project.kernels if spec.source == path.as_posix()}
    source = read_python(path.as_posix(), text)
    silent = [one.name for one in source.triton if not one.launched and one.name not in registered]
    others = [(spec, False) for language in LANGUAGES for spec in language.unregistered(source, registered, project)]
    if (mine or others) and not may_have_cuda(text):
        return others
    specs, hints = kernels_in_strings(path.as_posix(), text, project.kernels)
    findings += hints
    if not (mine or others or specs or hints):
        names = ", ".join(silent[:_MOST_NAMED]) + (", ..." if len(silent) > _MOST_NAMED else "")
        compiles = "compiles no CUDA code from a string"
        if "__global__" in text:
            compiles = "compiles its CUDA code by no function that is known (RawKernel, RawModule, load_inline, ...)"
        what = f"{path.name} has no pyptx kernel, launches no Triton kernel and {compiles}"
        message = f"{what}, so there is nothing to check."
        if silent:
            message = (
                f"{what}, and no file that imports {names} launches it. Register kernels in gpuemu.toml to check them."
            )
        findings.append(make("engine/not-executed", message, place))
    return [*others, *((spec, False) for spec in specs)]


def kernels_in(project: Project, path: str, text: str) -> list[tuple[KernelSpec, bool]]:
    """Return the kernels in ``text``, registered ones first, each with whether it is registered."""
    return read_kernels(project, path, text)[1]


def read_kernels(project: Project, path: str, text: str) -> tuple[SourceFile, list[tuple[KernelSpec, bool]]]:
    """Return the parsed ``text``, and its kernels as :func:`kernels_in` does."""
    context = build_context(path, text, project)
    mine = [(with_context(spec, context, registered=True), True) for spec in project.kernels if spec.source == path]
    include_dirs = mine[0][0].include_dirs if mine else context.include_dirs
    source = read(path, text, include_dirs, None, mine[0][0].compile_options if mine else context.options)
    if project.broken and mentions(project, Path(path)):
        # The broken entry may configure a kernel of this file, so none of them is run with inferred arguments.
        return source, mine
    taken = {without_arguments(spec.entry or spec.name) for spec, _ in mine}
    if any(spec.entry is None for spec, _ in mine) and len(source.kernels) == 1:
        return source, mine
    names = [decl.qualified_name for decl in source.kernels]
    others = [
        (with_context(unregistered(source, decl, include_dirs), context, registered=False), False)
        for index, decl in enumerate(source.kernels)
        if decl.name not in taken and decl.qualified_name not in taken and decl.qualified_name not in names[:index]
    ]
    return source, mine + others


def built(project: Project, spec: KernelSpec) -> KernelSpec:
    """Return a registered spec with the settings of its project's build."""
    if Path(spec.source).suffix not in SUFFIXES:
        return spec
    text, trouble = _text(Path(spec.source))
    return spec if trouble is not None else with_context(spec, build_context(spec.source, text, project), True)


def _text(path: Path) -> tuple[str, str | None]:
    """Return a file's text, and the reason if it cannot be read."""
    reason = problem(str(path), want_folder=False)
    if reason is not None:
        return "", reason
    try:
        return file_bytes(path).decode("utf-8-sig"), None
    except (OSError, UnicodeDecodeError) as error:
        return "", f"cannot be read as UTF-8 text ({error})"


def mentions(project: Project, path: Path | str) -> bool:
    """Return whether the configuration's text mentions a file, so that an entry with errors may be about it."""
    if project.config is None:
        return False
    return Path(path).name in file_text(project.config, errors="replace")


def _watched(
    projects: Iterable[Project], requests: Iterable[CheckRequest], notebooks: Iterable[Notebook]
) -> tuple[str, ...]:
    files = {project.config for project in projects if project.config}
    files |= {notebook.path for notebook in notebooks}
    for request in requests:
        files.add(request.spec.source)
        files.update(include_closure(request.spec.source, request.spec.include_dirs))
        if request.spec.reference:
            files.add(request.spec.reference)
    return tuple(sorted(files))
