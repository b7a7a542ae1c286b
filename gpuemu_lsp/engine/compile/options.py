"""Translation of nvcc options to NVRTC options.

``compile_options`` are usually copied from an nvcc command line. Options of nvcc's driver and the host compiler are
dropped, options that NVRTC knows are passed on, and options that change the kind of output are refused.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_VALUE_FOLLOWS = {
    "-I": "include", "--include-path": "include", "-isystem": "include", "--system-include": "include",
    "-D": "define", "--define-macro": "define", "-U": "undefine", "--undefine-macro": "undefine",
    "-include": "preinclude", "--pre-include": "preinclude",
    "-maxrregcount": "registers", "--maxrregcount": "registers",
    "-Xptxas": "ptxas", "--ptxas-options": "ptxas", "-std": "standard", "--std": "standard",
    "-Xcompiler": "", "--compiler-options": "", "-Xlinker": "", "--linker-options": "", "-Xarchive": "", "-Xcudafe": "",
    "-Xnvlink": "", "--nvlink-options": "",
    "-arch": "", "--gpu-architecture": "", "-code": "", "--gpu-code": "", "-gencode": "", "--generate-code": "",
    "-ccbin": "", "--compiler-bindir": "", "-o": "", "--output-file": "", "-x": "", "--x": "", "-t": "",
    "--threads": "",
    "-l": "", "--library": "", "-L": "", "--library-path": "", "-odir": "", "--output-directory": "", "-Werror": "",
    "-isysroot": "", "-MF": "", "-MT": "", "-cudart": "", "--cudart": "", "-rdc": "", "--relocatable-device-code": "",
    "-O": "", "--optimize": "", "--diag-suppress": "suppress", "-diag-suppress": "suppress",
}  # fmt: skip
"""Options that take a value, after ``=`` or as the next word, and their kind; an empty kind is dropped."""

_IGNORED = {
    "-G", "--device-debug", "-g", "--debug", "-lineinfo", "--generate-line-info", "-c", "-dc", "--device-c", "-dw",
    "-ptx", "-cubin", "-fatbin", "-shared", "--shared", "-v", "--verbose", "-keep", "--keep", "-m64", "-dryrun", "-MD",
    "-MMD", "-lib",
    "--expt-relaxed-constexpr", "-expt-relaxed-constexpr", "--expt-extended-lambda", "-expt-extended-lambda",
    "--extended-lambda", "-extended-lambda", "-forward-unknown-to-host-compiler", "-default-device", "-pthread",
    "--forward-unknown-to-host-compiler", "--device-as-default-execution-space", "-res-usage", "--resource-usage",
    "-allow-unsupported-compiler", "--allow-unsupported-compiler", "--compile", "-time", "--split-compile-extended",
    "-ewp", "--source-in-ptx", "-src-in-ptx", "-Wno-deprecated-gpu-targets", "-cudart", "-no-compress",
}  # fmt: skip
_IGNORED_STARTS = ("-O", "-W", "-fPIC", "-f", "-l", "-L", "-m", "--generate-dependencies", "-split-compile", "--split")
_REFUSED = ("-dlto", "--dlink-time-opt", "--optix-ir", "-optix-ir", "--fdevice-syntax-only", "-fdevice-syntax-only",
            "--minimal", "-minimal", "--pch", "-pch", "--create-pch", "--use-pch", "--gen-opt-lto")  # fmt: skip
_NVRTC_F_OPTIONS = ("-ftz", "-fmad", "-fdevice")
_OLDER_THAN_17 = ("c++03", "c++11", "c++14", "gnu++11", "gnu++14")


@dataclass(frozen=True, slots=True)
class NvrtcOptions:
    """``passed`` are NVRTC options, ``include_dirs`` absolute, ``refused`` options that change the kind of output."""

    passed: tuple[str, ...]
    include_dirs: tuple[str, ...]
    standard: str = "c++17"
    standard_given: bool = False
    refused: tuple[str, ...] = ()


def read_options(words: Sequence[str], base: str) -> NvrtcOptions:
    """Translate the user's options; relative paths are relative to the directory ``base``."""
    passed: list[str] = []
    folders: list[str] = []
    refused: list[str] = []
    standard = ""
    for kind, value in _kinds(words):
        if kind == "include":
            folders.append((Path(base) / value).as_posix())
        elif kind == "define":
            passed.append(f"-D{value}")
        elif kind == "undefine":
            passed.append(f"-U{value}")
        elif kind == "preinclude":
            passed.append(f"--pre-include={(Path(base) / value).as_posix()}")
        elif kind == "registers":
            passed.append(f"--maxrregcount={value}")
        elif kind == "suppress":
            passed.append(f"--diag-suppress={value}")
        elif kind == "ptxas":
            passed.extend(f"--ptxas-options={item}" for item in value.split(",") if item not in ("-v", "--verbose", ""))
        elif kind == "standard":
            # The prelude is C++17; code for an older standard compiles under it too.
            standard = "c++17" if value in _OLDER_THAN_17 else value.replace("gnu++", "c++")
        elif kind == "refused":
            refused.append(value)
        else:
            passed.append(value)
    return NvrtcOptions(
        tuple(passed), tuple(dict.fromkeys(folders)), standard or "c++17", bool(standard), tuple(refused)
    )


def _kinds(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the kind and value of each option that is not dropped; kind ``""`` is passed on unchanged."""
    queue = [part for word in words for part in (shlex.split(word) if " -" in word or " " in word else [word])]
    index = 0
    while index < len(queue):
        word = queue[index]
        index += 1
        name, equals, value = word.partition("=")
        if name in _VALUE_FOLLOWS:
            if not equals and index < len(queue):
                value = queue[index]
                index += 1
            if _VALUE_FOLLOWS[name]:
                yield _VALUE_FOLLOWS[name], value
        elif word[:2] in ("-I", "-D", "-U"):
            yield _VALUE_FOLLOWS[word[:2]], word[2:]
        elif name in _REFUSED:
            yield "refused", word
        elif name in _IGNORED or (word.startswith(_IGNORED_STARTS) and not word.startswith(_NVRTC_F_OPTIONS)):
            continue
        else:
            yield "", word
