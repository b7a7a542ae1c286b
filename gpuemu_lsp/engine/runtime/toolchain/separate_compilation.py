"""Separate compilation of device code (``-rdc``): the objects of one program, and their registration.

Each object registers its device code by a function of its own, which nvcc's device linker writes. There is no code to
link before the program runs: ours passes the object's PTX to the runtime library, which makes one module of all.
"""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.regular_file import readable_text
from gpuemu_lsp.engine.source.headers.hip import is_hip

_OPTIONS_FILE = frozenset(("-optf", "--options-file"))
_RELOCATABLE = frozenset(("-dc", "--device-c", "-rdc=true", "--relocatable-device-code=true"))
_SOURCES = (".cu", ".hip", ".cpp", ".cc", ".cxx", ".c")
_OBJECTS = (".o", ".a", ".obj")
_FUNCTION = re.compile(r"__cudaRegisterLinkedBinary\w*")


def expanded(arguments: Sequence[str]) -> list[str]:
    """Return arguments with those in files of options in place of the files."""
    words: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        name, _, value = argument.partition("=")
        if name in _OPTIONS_FILE:
            for file in (value or next(remaining, "")).split(","):
                words += expanded(shlex.split(Path(file).read_text(encoding="utf-8")))
        else:
            words.append(argument)
    return words


def is_relocatable(words: Sequence[str]) -> bool:
    """Return whether device code is compiled for a later link."""
    if _RELOCATABLE.intersection(words):
        return True
    options = ("-rdc", "--relocatable-device-code")
    return any(one in options and other == "true" for one, other in itertools.pairwise(words))


def sources_in(words: Sequence[str]) -> list[int]:
    """Return the places of the sources among the arguments."""
    return [place for place, word in enumerate(words) if word.endswith(_SOURCES) and not word.startswith("-")]


def is_hip_source(word: str) -> bool:
    """Return whether an argument is a source of HIP."""
    if not word.endswith(_SOURCES) or word.startswith("-"):
        return False
    return is_hip(word, readable_text(word) or "")


def output_of(words: Sequence[str]) -> str | None:
    """Return the file that a command writes, None if it has nvcc's own name."""
    for place, word in enumerate(words):
        name, _, value = word.partition("=")
        if name in ("-o", "--output-file"):
            return value or (words[place + 1] if place + 1 < len(words) else None)
    return None


def compile_options(words: Sequence[str]) -> list[str]:
    """Return the options of a command without its files."""
    kept: list[str] = []
    remaining = iter(words)
    for word in remaining:
        if word in ("-o", "--output-file"):
            next(remaining, None)
        elif not word.endswith((*_SOURCES, *_OBJECTS, ".so")) and not word.startswith(("--output-file=", "-l")):
            kept.append(word)
    return kept


def libraries_in(words: Sequence[str]) -> list[str]:
    """Return the static libraries that a link finds by ``-l`` in its folders of ``-L``."""
    folders, names = list[str](), list[str]()
    remaining = iter(words)
    for word in remaining:
        for places, options in ((folders, ("-L", "--library-path")), (names, ("-l", "--library"))):
            if word in options:
                places.append(next(remaining, ""))
            elif word.startswith(f"{options[1]}="):
                places.append(word.partition("=")[2])
            elif word.startswith(options[0]) and word != "-lib":
                places.append(word[2:])
    paths = (Path(folder, f"lib{name}.a") for name in names for folder in folders)
    return [str(path) for path in paths if path.is_file()]


def registration(words: Sequence[str]) -> str:
    """Return the C source with the functions by which the objects and libraries of a link register; empty if none."""
    objects = [word for word in words if word.endswith(_OBJECTS) and Path(word).is_file()] + libraries_in(words)
    if not objects:
        return ""
    done = subprocess.run(["nm", "-A", *objects], capture_output=True, text=True, check=False)
    needed, defined = set[str](), set[str]()
    for line in done.stdout.splitlines():
        fields = line.rsplit(maxsplit=2)
        # Between the members of an archive are empty lines.
        if fields and _FUNCTION.fullmatch(fields[-1]):
            (needed if fields[-2] == "U" else defined).add(fields[-1])
    parameters = "void (*callback)(void**), void* fatbin, void* name, void (*unused)(void*)"
    bodies = "".join(
        f"void {one}({parameters}) {{ (void)name, (void)unused; gpuemu_register_linked(callback, fatbin); }}\n"
        for one in sorted(needed - defined)
    )
    return f"void gpuemu_register_linked(void (*)(void**), void*);\n{bodies}" if bodies else ""
