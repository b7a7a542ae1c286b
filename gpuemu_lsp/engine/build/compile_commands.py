"""``compile_commands.json``, ``compile_flags.txt`` and ``.clangd``: the formats of LLVM's tools.

https://clang.llvm.org/docs/JSONCompilationDatabase.html and https://clangd.llvm.org/config.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from os.path import commonpath
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.build.command_line import settings_of, split
from gpuemu_lsp.engine.build.files import file_text, names_in, stamp
from gpuemu_lsp.engine.build.model import Origin, Setting, SettingKind
from gpuemu_lsp.engine.source.headers.includes import include_closure

DATABASE = "compile_commands.json"
_FLAGS = "compile_flags.txt"
_CLANGD = ".clangd"
_BUILD_FOLDER = re.compile(r"(?:build|out|cmake-build|_build)[\w.-]*$")
_CUDA = (".cu", ".cuh", ".hip")
_MOST_SOURCES = 60
"""Sources of a database that are searched for the includer of a header, at most."""


@dataclass(frozen=True, slots=True)
class Command:
    """An entry of a database: the source, the words of its command, and the folder that these are relative to."""

    file: str
    words: tuple[str, ...]
    folder: str


def databases(folder: str) -> Iterator[str]:
    """Yield the databases of a folder: its own, and those of its build folders."""
    names = names_in(folder)
    if DATABASE in names:
        yield f"{folder}/{DATABASE}"
    for name in sorted(filter(_BUILD_FOLDER.match, names)):
        path = f"{folder}/{name}/{DATABASE}"
        if stamp(path) is not None:
            yield path


def database_settings(database: str, path: str) -> tuple[Setting, ...]:
    """Return the settings of a file by a database; empty if it says nothing about it.

    A header has those of a source that includes it, else, like any file that is not listed, none.
    """
    commands = _commands(database)
    command = commands.get(path)
    if command is not None:
        return settings_of(command.words, command.folder, Origin(database))
    name = Path(path).name.encode()
    sources = [item for item in commands.values() if item.file.endswith(_CUDA)]
    for item in sorted(sources, key=lambda item: -len(commonpath((item.file, path))))[:_MOST_SOURCES]:
        settings = settings_of(item.words, item.folder, Origin(database, what=f"by {Path(item.file).name}"))
        folders = [setting.value for setting in settings if setting.kind is SettingKind.INCLUDE_DIR]
        if _mentions(item.file, name, folders) and path in include_closure(item.file, folders):
            return settings
    return ()


def _mentions(file: str, name: bytes, folders: Sequence[str]) -> bool:
    """Return whether a file or a header it includes mentions a name."""
    texts = (file_text(one) for one in (file, *include_closure(file, folders)))
    return any(text is not None and name.decode() in text for text in texts)


def _commands(database: str) -> Mapping[str, Command]:
    found = stamp(database)
    return {} if found is None else _read_commands(database, found)


@lru_cache(maxsize=8)
def _read_commands(database: str, found: tuple[int, int]) -> Mapping[str, Command]:
    del found  # a part of the cache's key
    try:
        entries = json.loads(file_text(database) or "[]")
    except ValueError:
        return {}
    commands: dict[str, Command] = {}
    for entry in entries if isinstance(entries, list) else ():
        command = _command(entry, str(Path(database).parent))
        if command is not None:
            commands.setdefault(command.file, command)
    return commands


def _command(entry: Any, base: str) -> Command | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("file"), str):
        return None
    folder = os.path.normpath(Path(base) / str(entry.get("directory", ".")))
    words = entry.get("arguments")
    if not isinstance(words, list):
        words = split(str(entry.get("command", "")))
    file = Path(os.path.normpath(Path(folder) / entry["file"])).as_posix()
    return Command(file, tuple(str(word) for word in words[1:]), folder)


def flags_settings(folder: str) -> tuple[Setting, ...]:
    """Return the settings of a folder's ``compile_flags.txt``: an argument a line."""
    path = f"{folder}/{_FLAGS}"
    text = file_text(path)
    if text is None:
        return ()
    words = [line.strip() for line in text.split("\n") if line.strip()]
    return settings_of(words, folder, Origin(path))


@dataclass(frozen=True, slots=True)
class ClangdFlags:
    """``CompileFlags`` of a ``.clangd``: settings to add, and patterns of options to remove."""

    added: tuple[Setting, ...]
    removed: tuple[str, ...]

    def applied(self, settings: Sequence[Setting]) -> tuple[Setting, ...]:
        """Return settings without those to remove, then those to add."""
        kept = (setting for setting in settings if not any(_matches(pattern, setting) for pattern in self.removed))
        return (*kept, *self.added)


def clangd_flags(folder: str, path: str) -> ClangdFlags | None:
    """Return the flags that a folder's ``.clangd`` has for a file; None without the file or such flags."""
    config = f"{folder}/{_CLANGD}"
    text = file_text(config)
    if text is None:
        return None
    added: list[Setting] = []
    removed: list[str] = []
    for document in re.split(r"(?m)^---\s*$", text):
        lists = _lists(document)
        patterns = lists.get(("If", "PathMatch"))
        relative = os.path.relpath(path, folder)
        if patterns is not None and not any(_full_match(pattern, relative) for pattern in patterns):
            continue
        added += settings_of(lists.get(("CompileFlags", "Add"), []), folder, Origin(config))
        removed += lists.get(("CompileFlags", "Remove"), [])
    return ClangdFlags(tuple(added), tuple(removed)) if added or removed else None


def _full_match(pattern: str, text: str) -> bool:
    try:
        return re.fullmatch(pattern, text) is not None
    except re.error:
        return False


def _matches(pattern: str, setting: Setting) -> bool:
    option = f"-I{setting.value}" if setting.kind is SettingKind.INCLUDE_DIR else setting.value
    return option.startswith(pattern[:-1]) if pattern.endswith("*") else option == pattern


def _lists(document: str) -> dict[tuple[str, str], list[str]]:
    """Read the lists of scalars two levels deep in YAML: ``Section: { Key: [a, b] }`` in block style.

    That is the part of YAML in which ``.clangd`` files write flags; anything else is skipped.
    """
    found: dict[tuple[str, str], list[str]] = {}
    section, key = "", ""
    joined = re.sub(r"\[[^\]]*\]", lambda match: match[0].replace("\n", " "), document)
    for line in joined.split("\n"):
        content = re.sub(r"(?:^|\s)#.*$", "", line).rstrip()
        if not content:
            continue
        heading = re.match(r"(\w+):\s*$", content)
        item = re.match(r"\s+(\w+):\s*(.*)$", content)
        entry = re.match(r"\s+-\s+(.*)$", content)
        if heading:
            section, key = heading[1], ""
        elif item:
            key = item[1]
            found[section, key] = _scalars(item[2])
        elif entry and key:
            found[section, key].append(_unquoted(entry[1]))
    return found


def _scalars(text: str) -> list[str]:
    text = text.strip()
    if text.startswith("["):
        return [_unquoted(part) for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^,\[\]]+", text) if part.strip()]
    return [_unquoted(text)] if text else []


def _unquoted(text: str) -> str:
    return text.strip().strip("\"'")
