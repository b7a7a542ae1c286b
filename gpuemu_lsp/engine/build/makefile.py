"""Makefiles: variables expanded, and the recipes that compile a file.

Functions that run programs (``$(shell ...)``) are unknown and expand to nothing, so conditions on them are false.
GNU make manual, chapters 6 and 7.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gpuemu_lsp.engine.build.command_line import settings_of, split
from gpuemu_lsp.engine.build.files import file_text
from gpuemu_lsp.engine.build.model import Origin, Setting, SettingKind

NAMES = ("GNUmakefile", "makefile", "Makefile")
_ASSIGNMENT = re.compile(r"^\s*(?:export\s+|override\s+)*([\w.-]+)\s*(\+|:{1,3}|\?)?=\s*(.*)$")
_CONDITION = re.compile(r"^\s*(else\s+)?(ifeq|ifneq|ifdef|ifndef)\b\s*(.*)$")
_REFERENCE = re.compile(r"\$(?:\(([^()$]*)\)|\{([^{}$]*)\}|(\w))")
_RULE = re.compile(r"^([^\t#=][^=]*?):(?!=)\s*(.*)$")
_COMPILER = re.compile(r"\bnvcc\b|clang\+\+|--cuda-gpu-arch|--offload-arch")
_MAX_EXPANSIONS = 400
_MAX_LENGTH = 20_000
_MAX_INCLUDES = 8


@dataclass(frozen=True, slots=True)
class RecipeLine:
    """A line of a recipe, expanded, with the targets and prerequisites of its rule, and its 0-based line."""

    targets: str
    prerequisites: str
    command: str
    line: int


@dataclass(slots=True)
class Makefile:
    """Variables by name and recipes of a makefile."""

    folder: str
    variables: dict[str, str] = field(default_factory=dict)
    recipes: list[RecipeLine] = field(default_factory=list)

    def expand(self, text: str) -> str:
        """Expand variable references; unknown ones and functions expand to nothing."""
        for _ in range(_MAX_EXPANSIONS):
            match = _REFERENCE.search(text)
            if match is None or len(text) > _MAX_LENGTH:
                break
            name = match[1] if match[1] is not None else match[2] if match[2] is not None else match[3]
            text = text[: match.start()] + self._variable(name.strip()) + text[match.end() :]
        return text

    def _variable(self, name: str) -> str:
        substituted = re.match(r"([\w.-]+):([^=]*)=(.*)$", name)
        function, _, rest = name.partition(" ")
        if substituted:
            return self.variables.get(substituted[1], "")
        if function in ("strip", "abspath", "realpath", "sort"):
            return rest.strip()
        if function in ("addprefix", "patsubst"):
            parts = rest.split(",")
            return " ".join(parts[0].replace("%", "") + word for word in parts[-1].split()) if len(parts) > 1 else ""
        return self.variables.get(name, "")


def makefile_settings(folder: str, name: str, path: str) -> tuple[tuple[Setting, ...], bool]:
    """Return the settings that a folder's makefile has for a file, and whether a recipe compiles it.

    Without such a recipe they are the include directories of all recipes that compile CUDA code.
    """
    makefile = f"{folder}/{name}"
    text = file_text(makefile)
    if text is None or not re.search(r"nvcc|\.cu\b|CUDA|clang\+\+", text):
        return (), False
    read = Makefile(folder, {"CURDIR": folder, "PWD": folder, "MAKE": "make"})
    _read(text, read, _MAX_INCLUDES)
    source = Path(path)
    others: list[Setting] = []
    for recipe in read.recipes:
        command = read.expand(_automatic(recipe, read, source))
        if not _COMPILER.search(command) and ".cu" not in command:
            continue
        origin = Origin(makefile, recipe.line)
        settings = settings_of(split(command), folder, origin)
        if _compiles(read, recipe, command, source, folder):
            return settings, True
        others += (setting for setting in settings if setting.kind is SettingKind.INCLUDE_DIR)
    return tuple(dict.fromkeys(others)), False


def _automatic(recipe: RecipeLine, read: Makefile, source: Path) -> str:
    """Replace make's automatic variables by the prerequisites, of which a pattern stands for the source."""
    words = [word.replace("%", source.stem) for word in read.expand(recipe.prerequisites).split()]
    command = re.sub(r"\$(?:<|\(<\))", words[0] if words else "", recipe.command)
    return re.sub(r"\$[\^?+]", " ".join(words), command).replace("$@", "out.o")


def _compiles(read: Makefile, recipe: RecipeLine, command: str, source: Path, folder: str) -> bool:
    """Return whether a recipe compiles a source: it names it, or its rule is for all sources of the folder."""
    prerequisites = f"{read.expand(recipe.prerequisites)} {command}"
    named = {
        Path(os.path.normpath(Path(folder) / word)) for word in prerequisites.split() if word.endswith(source.name)
    }
    if source in named:
        return True
    pattern = any("%" in word and word.endswith(source.suffix) for word in prerequisites.split())
    if pattern and source.parent.is_relative_to(folder):
        return True
    return recipe.targets.split()[:1] == [source.stem] and source.parent == Path(folder)


def _read(text: str, read: Makefile, depth: int) -> None:
    rule: tuple[str, str] | None = None
    active: list[tuple[bool, bool]] = []
    for number, line in _lines(text):
        condition = _CONDITION.match(line)
        word = line.strip().split(" ")[0] if line.strip() else ""
        if condition is not None and not condition[1]:
            holds = _holds(condition[2], condition[3], read)
            active.append((holds, holds))
        elif condition is not None and active:
            taken = active[-1][1]
            holds = not taken and _holds(condition[2], condition[3], read)
            active[-1] = (holds, taken or holds)
        elif word == "else" and active:
            active[-1] = (not active[-1][1], True)
        elif word == "endif" and active:
            active.pop()
        elif not all(holds for holds, _ in active):
            continue
        elif line.startswith("\t") and rule is not None:
            read.recipes.append(RecipeLine(*rule, line.strip().lstrip("@-+"), number))
        elif (include := re.match(r"^\s*-?s?include\s+(.+)$", line)) is not None:
            if depth > 0:
                _include(read.expand(include[1]), read, depth - 1)
        elif (assignment := _ASSIGNMENT.match(line)) is not None:
            rule = None
            _assign(read, assignment[1], assignment[2] or "", assignment[3])
        elif (found := _RULE.match(line)) is not None:
            rule = (read.expand(found[1]), found[2].partition(";")[0])
            inline = _ASSIGNMENT.match(found[2])
            if inline is not None:  # a target-specific variable
                _assign(read, inline[1], inline[2] or "", inline[3])


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield logical lines with the number of their first; comments are removed outside of recipes."""
    held, start = "", 0
    for number, line in enumerate(text.split("\n")):
        if not held:
            start = number
        if line.rstrip().endswith("\\"):
            held += line.rstrip()[:-1] + " "
            continue
        whole = held + line
        held = ""
        yield start, whole if whole.startswith("\t") else re.sub(r"(?<!\\)#.*", "", whole).rstrip()


def _assign(read: Makefile, name: str, operator: str, value: str) -> None:
    held = read.variables.get(name)
    value = re.sub(rf"\$[({{]{re.escape(name)}[)}}]", held or "", value)
    if operator == "+":
        read.variables[name] = f"{held} {value}" if held else value
    elif operator == "?":
        read.variables.setdefault(name, value)
    elif operator == "":
        read.variables[name] = value
    else:
        read.variables[name] = read.expand(value)


def _holds(kind: str, text: str, read: Makefile) -> bool:
    if kind in ("ifdef", "ifndef"):
        return bool(read.variables.get(read.expand(text).strip())) == (kind == "ifdef")
    match = re.match(r"\s*\((.*),([^,]*)\)\s*$", text) or re.match(r"\s*[\"'](.*)[\"']\s+[\"'](.*)[\"']\s*$", text)
    if match is None:
        return False
    return (read.expand(match[1]).strip() == read.expand(match[2]).strip()) == (kind == "ifeq")


def _include(names: str, read: Makefile, depth: int) -> None:
    for name in names.split():
        text = file_text(os.path.normpath(Path(read.folder) / name))
        if text is not None:
            _read(text, read, depth)
