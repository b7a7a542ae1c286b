"""Settings of nvcc and clang command lines.

NVRTC knows few of their options. Those that change the meaning of device code are translated, others are listed as
ignored, and options of the driver (``-c``, ``-o``, ``-l``) are neither.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuemu_lsp.engine.build.files import file_text
from gpuemu_lsp.engine.build.model import Origin, Setting, SettingKind

_INCLUDE = {"-I", "--include-path", "-isystem", "--system-include", "-iquote", "-idirafter"}
_DEFINE = {"-D", "--define-macro"}
_UNDEFINE = {"-U", "--undefine-macro"}
_FORCED = {"-include", "--pre-include"}
_STANDARD = {"-std", "--std"}
_ARCHITECTURE = {"-arch", "--gpu-architecture", "-gencode", "--generate-code", "-code", "--gpu-code"}
_CLANG_ARCHITECTURE = {"--cuda-gpu-arch", "--offload-arch"}
_REGISTERS = {"-maxrregcount", "--maxrregcount"}
_DROPPED_VALUES = {
    "-o", "--output-file", "-x", "--x", "-t", "--threads", "-ccbin", "--compiler-bindir", "-l", "--library", "-L",
    "--library-path", "-odir", "--output-directory", "-MF", "-MT", "-MQ", "-isysroot", "-cudart", "--cudart", "-rdc",
    "--relocatable-device-code", "-O", "--optimize", "-split-compile", "--cuda-path", "--options-file", "-optf",
}  # fmt: skip
_IGNORED_VALUES = {
    "-Xcompiler", "--compiler-options", "-Xlinker", "--linker-options", "-Xcudafe", "-Xptxas", "--ptxas-options",
    "-Xnvlink", "--nvlink-options", "-Xarchive", "-Xclang", "-mllvm", "-Werror", "--diag-suppress", "-diag-suppress",
    "--diag_suppress",
}  # fmt: skip
_VALUES = (
    _INCLUDE | _DEFINE | _UNDEFINE | _FORCED | _STANDARD | _ARCHITECTURE | _CLANG_ARCHITECTURE | _REGISTERS
    | _DROPPED_VALUES | _IGNORED_VALUES
)  # fmt: skip
_JOINED = ("-isystem", "-iquote", "-I", "-D", "-U")
_NUMERICS = re.compile(r"--?(?:ftz|fmad|prec-div|prec-sqrt)=(?:true|false)$|--?use_fast_math$|--?restrict$")
_DRIVER = re.compile(r"-(?:c|dc|dw|g|G|S|E|v|w|MD|MMD|MP|shared|lib|O\w*|l.*|L.*|m64|pthread|lineinfo|keep|M)$")
_SOURCE = re.compile(r"[^-].*\.(?:cu|cuh|cpp|cc|cxx|c|o|obj|ptx|a|so)$")
_OLDEST_STANDARD = 17
_DEFAULT_ARCHITECTURE = 80
_NEWEST_ARCHITECTURE = 90
"""The newest architecture of which the emulator runs every instruction. Code for newer ones is compiled for the default
first, and for a newer one only if that fails."""
_MAX_RESPONSE_DEPTH = 3


def settings_of(words: Sequence[str], folder: str, origin: Origin) -> tuple[Setting, ...]:
    """Return the settings of a command line's words; relative paths are relative to ``folder``.

    The first word may be the compiler. Directories that do not exist are left out.
    """
    return tuple(_settings(list(_expanded(words, folder, _MAX_RESPONSE_DEPTH)), folder, origin))


def split(text: str) -> list[str]:
    """Split a command line into words; unbalanced quotes are taken literally."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def architecture(names: Sequence[str]) -> str | None:
    """Return the architecture that a list of them requires; None if the default (sm_80) can stand for it.

    Code for several architectures is right on each of them, and code for an older one runs on the default.
    """
    numbers = [(int(match[1]), match[2]) for name in names for match in re.finditer(r"(\d{2,3})([af]?)\b", name)]
    if not numbers or not _DEFAULT_ARCHITECTURE < min(numbers)[0] <= _NEWEST_ARCHITECTURE:
        return None
    number, suffix = min(numbers)
    return f"sm_{number}{suffix}"


def _expanded(words: Sequence[str], folder: str, depth: int) -> Iterator[str]:
    """Yield words with those of response files (``@file``, ``--options-file file``) in their place."""
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        name = None
        if word.startswith("@") and len(word) > 1:
            name = word[1:]
        elif word in ("--options-file", "-optf") and waiting:
            name = waiting.pop(0)
        elif word.startswith(("--options-file=", "-optf=")):
            name = word.partition("=")[2]
        if name is None:
            yield word
        elif depth > 0 and (text := file_text(os.path.join(folder, name))) is not None:  # noqa: PTH118
            yield from _expanded(split(text), folder, depth - 1)


def _settings(words: list[str], folder: str, origin: Origin) -> Iterator[Setting]:
    architectures: list[str] = []
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        name, equals, value = word.partition("=")
        joined = next((prefix for prefix in _JOINED if word.startswith(prefix) and word != prefix), None)
        if name in _VALUES and (equals or word == name):
            if not equals:
                if index >= len(words):
                    return
                value = words[index]
                index += 1
        elif joined is not None and name not in _VALUES:
            name, value = joined, word[len(joined) :]
        elif _NUMERICS.match(word):
            yield Setting(SettingKind.OPTION, word, origin)
            continue
        elif _DRIVER.match(word) or _SOURCE.match(word) or not word.startswith("-"):
            continue
        else:
            yield Setting(SettingKind.IGNORED, word, origin)
            continue
        if name in _ARCHITECTURE | _CLANG_ARCHITECTURE:
            architectures.append(value)
        else:
            yield from _setting(name, value, folder, origin)
    if (arch := architecture(architectures)) is not None:
        yield Setting(SettingKind.ARCHITECTURE, arch, origin)


def _setting(name: str, value: str, folder: str, origin: Origin) -> Iterator[Setting]:
    """Yield the setting of an option with a value."""
    if name in _INCLUDE:
        for part in value.split(","):
            directory = Path(os.path.normpath(Path(folder) / part))
            if part and directory.is_dir():
                yield Setting(SettingKind.INCLUDE_DIR, directory.as_posix(), origin)
    elif name in _DEFINE:
        yield Setting(SettingKind.DEFINE, f"-D{value}", origin)
    elif name in _UNDEFINE:
        yield Setting(SettingKind.DEFINE, f"-U{value}", origin)
    elif name in _FORCED:
        header = Path(os.path.normpath(Path(folder) / value))
        if header.is_file():
            yield Setting(SettingKind.FORCED_INCLUDE, f"--pre-include={header.as_posix()}", origin)
    elif name in _STANDARD:
        number = re.search(r"\+\+(\d\d)$", value)
        if number is not None and _OLDEST_STANDARD < int(number[1]) < 90:
            yield Setting(SettingKind.STANDARD, f"-std=c++{number[1]}", origin)
    elif name in _REGISTERS:
        yield Setting(SettingKind.OPTION, f"-maxrregcount={value}", origin)
    elif name in _IGNORED_VALUES:
        yield Setting(SettingKind.IGNORED, f"{name} {value}", origin)
