"""What the user asked for: a project, a folder, a .cu file or kernel names, as one request per kernel."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuemu_lsp.engine.check.model import CheckOptions, CheckRequest
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.plan.resolve import unregistered
from gpuemu_lsp.engine.project import discover, load
from gpuemu_lsp.engine.project.model import KernelSpec, Project
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source import read

SUFFIXES = frozenset({".cu", ".cuh"})
_SKIPPED = frozenset({"node_modules", "build", "dist", "__pycache__", "site-packages"})


class TargetError(ValueError):
    """An argument that is neither a path nor a kernel; the message says what there is."""


@dataclass(frozen=True, slots=True)
class Targets:
    """The requests, what is wrong with the configuration, and the files a watcher should look at."""

    root: str
    requests: tuple[CheckRequest, ...]
    findings: tuple[Finding, ...]
    watched: tuple[str, ...] = ()
    projects: tuple[Project, ...] = field(default=())


def collect(arguments: Sequence[str], options: CheckOptions, cwd: Path) -> Targets:
    """Resolve the command line's targets.

    Raises
    ------
    TargetError
        If an argument is neither an existing path nor the name of a registered kernel.
    """
    projects: dict[Path | None, Project] = {}
    wanted: dict[tuple[str, str, str], CheckRequest] = {}
    findings: list[Finding] = []
    for argument in arguments or ["."]:
        path = (cwd / argument).absolute()
        exists = path.exists()
        start = path if exists else cwd
        config = discover(start if start.is_dir() else start.parent)
        if config not in projects:
            projects[config] = (
                load(config) if config else Project(root=str(start if start.is_dir() else start.parent), config=None)
            )
            findings += projects[config].findings
        project = projects[config]
        if not exists:
            found = [_named(project, argument)]
        elif path.is_dir():
            found = _in_folder(project, path, findings)
        else:
            found = _in_file(project, path, findings)
        for spec, registered in found:
            request = _request(project, spec, registered, options)
            wanted.setdefault((project.root, spec.name, spec.source), request)
    for project in projects.values():
        findings += [_op(project, op.name, op.place) for op in project.ops]
    root = next(iter(projects.values())).root if len(projects) == 1 else str(cwd)
    watched = _watched(projects.values(), wanted.values())
    return Targets(root, tuple(wanted.values()), tuple(findings), watched, tuple(projects.values()))


def _request(project: Project, spec: KernelSpec, registered: bool, options: CheckOptions) -> CheckRequest:
    chosen = options if options.executor != "auto" else replace(options, executor=project.executor)
    return CheckRequest(spec, chosen, project.validation, registered, root=project.root)


def _named(project: Project, name: str) -> tuple[KernelSpec, bool]:
    for spec in project.kernels:
        if spec.name == name:
            return spec, True
    names = [spec.name for spec in project.kernels]
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        hint = f"did you mean '{close[0]}'?"
    elif name in project.broken:
        hint = "its entry in gpuemu.toml has errors: run --check without arguments to see them."
    elif names:
        hint = f"there are: {', '.join(names[:12])}{', ...' if len(names) > 12 else ''}"
    else:
        hint = "there is no gpuemu.toml with kernels here."
    raise TargetError(f"'{name}' is neither a file nor a registered kernel; {hint}")


def _in_folder(project: Project, folder: Path, findings: list[Finding]) -> list[tuple[KernelSpec, bool]]:
    inside = [
        spec for spec in project.kernels if Path(spec.source).is_relative_to(folder) or _holds_config(project, folder)
    ]
    if inside or (project.config is not None and _holds_config(project, folder)):
        return [(spec, True) for spec in inside]
    found: list[tuple[KernelSpec, bool]] = []
    for path in _sources(folder):
        found += _in_file(project, path, findings)
    return found


def _holds_config(project: Project, folder: Path) -> bool:
    return project.config is not None and Path(project.config).parent.is_relative_to(folder)


def _sources(folder: Path) -> Iterable[Path]:
    for path in sorted(folder.rglob("*.cu")):
        parts = path.relative_to(folder).parts
        if not any(part.startswith(".") or part in _SKIPPED for part in parts):
            yield path


def _in_file(project: Project, path: Path, findings: list[Finding]) -> list[tuple[KernelSpec, bool]]:
    if path.name == "gpuemu.toml":
        return [(spec, True) for spec in project.kernels]
    if path.suffix not in SUFFIXES:
        raise TargetError(f"'{path.name}' is not a .cu file, a folder or a gpuemu.toml")
    mine = [(spec, True) for spec in project.kernels if Path(spec.source) == path]
    place = Place(path.as_posix(), Range.of(0, 0, 0, 1))
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        findings.append(make("engine/not-executed", f"{path.name} cannot be read as text: {error}.", place))
        return mine
    source = read(path.as_posix(), text)
    if project.broken and _mentions(project, path):
        return mine  # a broken entry may be about this file: run nothing by inference that was configured otherwise
    taken = {(spec.entry or spec.name).split("<")[0].strip() for spec, _ in mine}
    if mine and any(spec.entry is None for spec, _ in mine) and len(source.kernels) == 1:
        return mine
    names = [decl.qualified_name for decl in source.kernels]
    others = [
        (unregistered(source, decl), False)
        for index, decl in enumerate(source.kernels)
        if decl.name not in taken and decl.qualified_name not in taken and decl.qualified_name not in names[:index]
    ]
    if not mine and not others:
        message = f"{path.name} has no __global__ function, so there is nothing to check."
        findings.append(make("engine/not-executed", message, place))
    return mine + others


def _mentions(project: Project, path: Path) -> bool:
    """Say whether an entry with errors may be about this file: its findings do not tell, the config's text does."""
    if project.config is None:
        return False
    return path.name in Path(project.config).read_text(encoding="utf-8", errors="replace")


def _op(project: Project, name: str, place: Place) -> Finding:
    message = f"The op '{name}' was read but not run: running [[ops]] is not supported yet."
    return make("engine/not-executed", message, place, kernel=name)


def _watched(projects: Iterable[Project], requests: Iterable[CheckRequest]) -> tuple[str, ...]:
    files = {project.config for project in projects if project.config}
    for request in requests:
        files.add(request.spec.source)
        if request.spec.reference:
            files.add(request.spec.reference)
    return tuple(sorted(files))
