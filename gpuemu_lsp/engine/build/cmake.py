"""CMake projects: include directories, definitions and CUDA options of ``CMakeLists.txt`` files.

Commands are read in order, in the files from the root of the project down to the source's folder, since directory
properties are inherited. All ``if`` blocks are read: a directory or macro of one that does not apply is rarely wrong
for a source. Modules and functions are not followed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuemu_lsp.engine.build.command_line import architecture, settings_of, split
from gpuemu_lsp.engine.build.files import file_text, globbed
from gpuemu_lsp.engine.build.model import Origin, Setting, SettingKind

NAME = "CMakeLists.txt"
_COMMAND = re.compile(r"(?m)^[ \t]*([A-Za-z_]\w*)[ \t]*\(")
_ARGUMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|\[(=*)\[(.*?)\]\2\]|([^\s()"]+)', re.DOTALL)
_SCOPES = {"PRIVATE", "PUBLIC", "INTERFACE", "SYSTEM", "BEFORE", "AFTER"}
_TARGETS = {"add_executable", "add_library", "cuda_add_executable", "cuda_add_library", "target_sources"}
_LANGUAGE = re.compile(r"\$<(?:\$<COMPILE_LANGUAGE:[\w,]*CUDA[\w,]*>|BUILD_INTERFACE):(.*)>$", re.DOTALL)
_MAX_LENGTH = 20_000
_MAX_DEPTH = 8


@dataclass(slots=True)
class _Target:
    """Sources of a target, and the words of its own include directories and options with their lines."""

    sources: set[str] = field(default_factory=set)
    folders: list[tuple[str, Origin]] = field(default_factory=list)
    words: list[tuple[str, Origin]] = field(default_factory=list)


@dataclass(slots=True)
class _Project:
    """State of the files that were read: variables, directory properties and targets."""

    variables: dict[str, str]
    folders: list[tuple[str, Origin]] = field(default_factory=list)
    words: list[tuple[str, Origin]] = field(default_factory=list)
    targets: dict[str, _Target] = field(default_factory=dict)
    architectures: list[tuple[str, Origin]] = field(default_factory=list)


def cmake_settings(folders: Sequence[str], path: str) -> tuple[tuple[Setting, ...], bool]:
    """Return the settings that CMake files have for a file, and whether a target lists it.

    ``folders`` contain the files, outermost first. Without such a target, the include directories of all targets of the
    innermost file are among the settings.
    """
    if not folders:
        return (), False
    project = _Project({"CMAKE_SOURCE_DIR": folders[0], "PROJECT_SOURCE_DIR": folders[0]})
    for folder in folders:
        text = file_text(f"{folder}/{NAME}")
        if text is not None:
            project.variables["CMAKE_CURRENT_SOURCE_DIR"] = project.variables["CMAKE_CURRENT_LIST_DIR"] = folder
            for name, arguments, line in _commands(text):
                _run(project, name, _words(arguments, project), folder, Origin(f"{folder}/{NAME}", line))
    mine = [target for target in project.targets.values() if path in target.sources]
    targets = mine or list(project.targets.values())
    found = [*project.folders, *(item for target in targets for item in target.folders)]
    settings = [Setting(SettingKind.INCLUDE_DIR, folder, origin) for folder, origin in found if Path(folder).is_dir()]
    for word, origin in (*project.words, *(item for target in mine for item in target.words)):
        settings += settings_of(split(word), folders[-1], origin)
    if (standard := project.variables.get("CMAKE_CUDA_STANDARD")) is not None:
        settings += settings_of([f"-std=c++{standard}"], folders[-1], Origin(f"{folders[-1]}/{NAME}"))
    arch = architecture([name for name, _ in project.architectures])
    if arch is not None:
        settings.append(Setting(SettingKind.ARCHITECTURE, arch, project.architectures[0][1]))
    return tuple(dict.fromkeys(settings)), bool(mine)


def _run(project: _Project, name: str, arguments: list[str], folder: str, origin: Origin) -> None:
    lowered, root = name.lower(), project.variables["CMAKE_SOURCE_DIR"]
    if lowered == "set" and arguments:
        values = [item for item in arguments[1:] if item not in ("PARENT_SCOPE", "FORCE")]
        cached = values.index("CACHE") if "CACHE" in values else len(values)
        _set(project, arguments[0], ";".join(values[:cached]), folder, origin)
    elif lowered == "list" and arguments[:1] == ["APPEND"] and len(arguments) > 1:
        held = project.variables.get(arguments[1], "")
        _set(project, arguments[1], ";".join((*([held] if held else []), *arguments[2:])), folder, origin)
    elif lowered == "project":
        project.variables["PROJECT_SOURCE_DIR"] = folder
        project.variables["PROJECT_NAME"] = arguments[0] if arguments else ""
    elif lowered == "file" and arguments[:1] in (["GLOB"], ["GLOB_RECURSE"]) and len(arguments) > 1:
        patterns = [item for item in arguments[2:] if item != "CONFIGURE_DEPENDS"]
        project.variables[arguments[1]] = ";".join(_globbed(patterns, folder, root, arguments[0] == "GLOB_RECURSE"))
    elif lowered == "aux_source_directory" and len(arguments) > 1:
        found = _globbed([f"{arguments[0]}/*.c*"], folder, root, recursive=False)
        project.variables[arguments[1]] = ";".join(found)
    elif lowered in ("include_directories", "cuda_include_directories"):
        project.folders += ((_absolute(item, folder), origin) for item in arguments if item not in _SCOPES)
    elif lowered in ("add_definitions", "add_compile_options"):
        project.words += ((item, origin) for item in arguments)
    elif lowered == "add_compile_definitions":
        project.words += ((f"-D{item.removeprefix('-D')}", origin) for item in arguments)
    else:
        _run_target(project, lowered, arguments, folder, origin)


def _run_target(project: _Project, name: str, arguments: list[str], folder: str, origin: Origin) -> None:
    if not arguments:
        return
    target = project.targets.setdefault(arguments[0], _Target()) if name.startswith(("target_", *_TARGETS)) else None
    values = [item for item in arguments[1:] if item not in _SCOPES]
    if target is None:
        if name == "set_target_properties" and "CUDA_ARCHITECTURES" in arguments:
            at = arguments.index("CUDA_ARCHITECTURES")
            project.architectures += ((item, origin) for item in arguments[at + 1 : at + 2])
    elif name in _TARGETS:
        target.sources |= {_absolute(item, folder) for item in values}
    elif name == "target_include_directories":
        target.folders += ((_absolute(item, folder), origin) for item in values)
    elif name == "target_compile_definitions":
        target.words += ((f"-D{item.removeprefix('-D')}", origin) for item in values)
    elif name == "target_compile_options":
        target.words += ((item, origin) for item in values)


def _set(project: _Project, name: str, value: str, folder: str, origin: Origin) -> None:
    added = value.removeprefix(project.variables.get(name, "")) if name in project.variables else value
    project.variables[name] = value
    if name in ("CMAKE_CUDA_FLAGS", "CUDA_NVCC_FLAGS"):
        project.words.append((added.replace(";", " "), origin))
    elif name == "CMAKE_CUDA_ARCHITECTURES":
        project.architectures = [(item, origin) for item in value.split(";")]


def _words(text: str, project: _Project) -> list[str]:
    """Split a command's arguments, variables expanded; an unknown generator expression is left out."""
    words: list[str] = []
    for match in _ARGUMENT.finditer(text):
        quoted, bracket, plain = match[1], match[3], match[4]
        word = _expanded(quoted if quoted is not None else bracket if bracket is not None else plain, project)
        word = _without_generators(word)
        words += [word] if quoted is not None and ";" not in word else [item for item in word.split(";") if item]
    return words


def _without_generators(word: str) -> str:
    """Replace generator expressions: one for CUDA or for building by its content, any other by nothing."""
    while (start := word.find("$<")) >= 0:
        depth, index = 0, start
        while index < len(word):
            depth += word.startswith("$<", index) - (word[index] == ">")
            index += 1
            if depth == 0:
                break
        language = _LANGUAGE.match(word[start:index])
        word = word[:start] + (language[1] if language else "") + word[index:]
    return word


def _expanded(text: str, project: _Project) -> str:
    for _ in range(_MAX_DEPTH):
        expanded = re.sub(r"\$\{(\w+)\}", lambda match: project.variables.get(match[1], ""), text)
        if expanded == text or len(expanded) > _MAX_LENGTH:
            break
        text = expanded
    return text


def _commands(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield the name, the raw argument text and the 0-based line of each command, comments removed."""
    text = re.sub(r"#\[\[.*?\]\]", lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.DOTALL)
    text = re.sub(r'(?m)^((?:[^#"\n]|"[^"\n]*")*)#.*$', r"\1", text)
    for match in _COMMAND.finditer(text):
        depth, index = 1, match.end()
        while index < len(text) and depth:
            depth += {"(": 1, ")": -1}.get(text[index], 0)
            index += 1
        yield match[1], text[match.end() : index - 1], text.count("\n", 0, match.start())


def _globbed(patterns: Sequence[str], folder: str, root: str, recursive: bool) -> list[str]:
    found: list[str] = []
    for pattern in patterns:
        full = Path(_absolute(pattern, folder))
        found += globbed((full.parent / "**" / full.name if recursive else full).as_posix(), root)
    return found


def _absolute(item: str, folder: str) -> str:
    return Path(os.path.normpath(Path(folder) / item)).as_posix()
