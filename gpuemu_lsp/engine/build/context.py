"""The build context of a file, from gpuemu.toml, the project's build files, and its folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.engine.build.cmake import NAME as CMAKE
from gpuemu_lsp.engine.build.cmake import cmake_settings
from gpuemu_lsp.engine.build.command_line import settings_of
from gpuemu_lsp.engine.build.compile_commands import (
    clangd_flags,
    database_settings,
    databases,
    flags_settings,
)
from gpuemu_lsp.engine.build.files import folders_above, names_in
from gpuemu_lsp.engine.build.makefile import NAMES as MAKEFILES
from gpuemu_lsp.engine.build.makefile import makefile_settings
from gpuemu_lsp.engine.build.missing_headers import found_folders
from gpuemu_lsp.engine.build.model import BuildContext, Origin, Setting, SettingKind
from gpuemu_lsp.engine.build.setup_script import PYPROJECT, SCRIPT, extensions
from gpuemu_lsp.engine.project.model import BuildTable, KernelSpec, Project

_TABLE = "[build]"


def build_context(path: str, text: str, project: Project | None = None) -> BuildContext:
    """Return how a file is compiled.

    Parameters
    ----------
    path, text
        Absolute path of a source, and its text, which may be newer than the file on disk.
    project
        Its project; ``[build]`` of gpuemu.toml takes precedence over everything else.
    """
    table = project.build if project is not None else BuildTable()
    detected = _detected(path, table) if table.detect else ()
    if table.arch:
        detected = tuple(one for one in detected if one.kind is not SettingKind.ARCHITECTURE)
    configured = () if project is None or project.config is None else _configured(table, project.config)
    settings = (*configured, *detected)
    folders = tuple(setting.value for setting in settings if setting.kind is SettingKind.INCLUDE_DIR)
    options = [setting.value for setting in settings if setting.kind is SettingKind.DEFINE]
    added, absent = found_folders(path, text, folders, table.python, options) if table.detect else ((), ())
    return BuildContext(path, tuple(_first_of_each((*settings, *added))), absent)


def with_context(spec: KernelSpec, context: BuildContext, registered: bool) -> KernelSpec:
    """Return a spec with the settings of a build context.

    The own options and architecture of a registered kernel are kept as they are; its include directories come first.
    """
    configured = registered and "compile_options" in spec.places
    origins = {setting.value for setting in context.settings if setting.origin.what == _TABLE}
    taken = {_subject(option) for option in spec.compile_options}
    added = (option for option in context.options if not configured or option in origins)
    options = (*(option for option in added if _subject(option) not in taken), *spec.compile_options)
    folders = tuple(dict.fromkeys((*spec.include_dirs, *context.include_dirs)))
    arch = context.arch if context.arch and "arch" not in spec.places else spec.arch
    if (folders, options, arch) == (spec.include_dirs, spec.compile_options, spec.arch):
        return spec
    return replace(spec, include_dirs=folders, compile_options=options, arch=arch)


def _first_of_each(settings: Sequence[Setting]) -> Iterator[Setting]:
    """Yield settings without those of which an earlier one decides the same: a macro, the standard, an option."""
    seen: set[tuple[SettingKind, str]] = set()
    for setting in settings:
        key = setting.kind, _subject(setting.value)
        if key not in seen:
            seen.add(key)
            yield setting


def _subject(option: str) -> str:
    """Return what an option is about: ``N`` of ``-DN=4`` and ``-UN``, ``-std`` of ``-std=c++17``."""
    name = option.partition("=")[0]
    if name == "--pre-include":
        return option
    return name[2:] if option.startswith(("-D", "-U")) else name.replace("--", "-")


def _configured(table: BuildTable, config: str) -> tuple[Setting, ...]:
    """Return the settings of ``[build]``."""
    origin = Origin(config, what=_TABLE)
    folders = (Setting(SettingKind.INCLUDE_DIR, folder, origin) for folder in table.include_dirs)
    options = settings_of(table.compile_options, str(Path(config).parent), origin)
    arch = (Setting(SettingKind.ARCHITECTURE, name, origin) for name in table.arch)
    return (*folders, *options, *arch)


def _detected(path: str, table: BuildTable) -> tuple[Setting, ...]:
    """Return the settings of the project's build files.

    Include directories are those of all; macros and options are those of the first that compiles this file.
    """
    folders = list(folders_above(path))
    names = {folder: names_in(folder) for folder in folders}
    settings: list[Setting] = []
    decided = False
    for found, compiles in _sources(path, table, folders, names):
        if decided or not compiles:
            found = tuple(one for one in found if one.kind is SettingKind.INCLUDE_DIR)
        settings += found
        decided = decided or compiles
    for folder in reversed(folders):
        flags = clangd_flags(folder, path) if ".clangd" in names[folder] else None
        if flags is not None:
            settings = [*flags.applied(settings)]
    return tuple(settings)


def _sources(
    path: str, table: BuildTable, folders: Sequence[str], names: dict[str, frozenset[str]]
) -> Iterator[tuple[tuple[Setting, ...], bool]]:
    """Yield the settings of each kind of build file, nearest folder first, and whether it compiles the file."""
    bases = [table.compile_commands] if table.compile_commands is not None else []
    for database in (*bases, *(found for folder in folders for found in databases(folder))):
        settings = database_settings(database, path)
        if settings:
            yield settings, True
            return
    for folder in folders:
        if "compile_flags.txt" in names[folder]:
            yield flags_settings(folder), True
    for folder in folders:
        if {SCRIPT, PYPROJECT} & names[folder]:
            yield from _extension_settings(folder, path)
    lists = [folder for folder in reversed(folders) if CMAKE in names[folder]]
    if lists:
        yield cmake_settings(lists, path)
    for folder in folders:
        for name in MAKEFILES:
            if name in names[folder]:
                yield makefile_settings(folder, name, path)


def _extension_settings(folder: str, path: str) -> Iterator[tuple[tuple[Setting, ...], bool]]:
    """Yield the settings of the extension that lists a file, else of the only one, else the directories of all."""
    found = extensions(folder)
    mine = [one for one in found if path in one.sources] or (list(found) if len(found) == 1 else [])
    yield from ((one.settings, True) for one in mine[:1])
    yield from ((one.settings, False) for one in found if one not in mine[:1])
