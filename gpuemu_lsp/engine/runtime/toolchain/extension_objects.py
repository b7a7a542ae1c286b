"""Objects of PyTorch's extensions, which cost minutes with all of its headers: kept by content, and compiled in parts.

Whatever is not understood is compiled as the command says.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gpuemu_lsp.engine.runtime.processes.supervised import run_supervised, temporary_folder
from gpuemu_lsp.engine.runtime.toolchain.compile_command import CompileCommand, compile_command
from gpuemu_lsp.engine.runtime.toolchain.host_compiler import host_compiler
from gpuemu_lsp.engine.runtime.toolchain.light_headers import common_headers, write_light_headers
from gpuemu_lsp.engine.runtime.toolchain.local_headers import expanded_source
from gpuemu_lsp.engine.runtime.toolchain.object_cache import HostObjects, file_identity
from gpuemu_lsp.engine.runtime.toolchain.precompiled_headers import included_first
from gpuemu_lsp.engine.runtime.toolchain.split_compile import SourceError, can_be_split, compile_split

_LOOP = re.compile(r"\b(?:for|while|do)\b")
_COMPUTED_INCLUDE = re.compile(r"^\s*#\s*include\s+[A-Za-z_]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Extension:
    """A source of an extension: its command, the source with its local headers, these, and PyTorch's folder."""

    command: CompileCommand
    text: str
    headers: tuple[Path, ...]
    torch: Path


def compile_device_source(
    words: Sequence[str], nvcc: Callable[[Sequence[str]], list[str]], compile_as_is: Callable[[], int], folder: str
) -> int:
    """Do what ``nvcc -c`` does with a source; return the exit code.

    ``nvcc`` makes a command of its arguments, ``compile_as_is`` compiles without us, and ``folder`` is for temporary
    files.
    """
    extension = _extension(words)
    if extension is None:
        return compile_as_is()

    def compile_once() -> int:
        try:
            split = can_be_split(extension.text) and compile_split(
                extension.command, extension.text, extension.torch, nvcc, folder
            )
        except SourceError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        return 0 if split else compile_as_is()

    return _kept(extension, words, nvcc([]), compile_once)


def compile_host_source(words: Sequence[str]) -> int:
    """Do what the host's compiler does with ``words``, of any source; return the exit code."""
    compiler = host_compiler()
    extension = _extension(words)
    if extension is None:
        return run_supervised([compiler, *words]).returncode
    # The lines of calls are needed: an option of the command that says otherwise is the last.
    own = ["-g1", "-fno-optimize-sibling-calls"]

    def compile_once() -> int:
        with temporary_folder("gpuemu-headers-") as folder:
            if write_light_headers(extension.text, extension.torch, Path(folder)):
                first = _with_headers(extension, own)
                rest = [word for word in words if not (first and word.startswith("-O"))]
                if run_supervised([compiler, *first, f"-I{folder}", *own, *rest], capture=True).returncode == 0:
                    return 0
        return run_supervised([compiler, *own, *words]).returncode

    return _kept(extension, words, [compiler, *own], compile_once)


def _with_headers(extension: _Extension, own: Sequence[str]) -> list[str]:
    """Return the options for headers that are compiled ahead, without optimisation: none if that matters."""
    command, text = extension.command, extension.text
    if any(word.startswith("-O") for word in command.device) and _LOOP.search(text):
        return []
    return included_first(command, extension.torch, common_headers(text, extension.torch), [*command.device, *own])


def _extension(words: Sequence[str]) -> _Extension | None:
    """Return the extension's source that a command compiles, None if it does something else."""
    command = compile_command(words)
    if command is None:
        return None
    torch = next((one for one in command.folders if (one / "ATen" / "ATen.h").is_file()), None)
    if torch is None:
        return None
    try:
        text, headers = expanded_source(command.source, command.folders)
    except OSError:
        return None
    return None if _COMPUTED_INCLUDE.search(text) else _Extension(command, text, headers, torch)


def _kept(extension: _Extension, words: Sequence[str], tool: Sequence[str], compile_once: Callable[[], int]) -> int:
    """Return 0 if the object is kept from an earlier time or compiles, else the exit code of the compiler."""
    command, cache = extension.command, HostObjects()
    versions = (_own_version(), *tool, *map(file_identity, _programs(extension, tool)))
    files = {str(command.target), str(command.dependencies)}
    key = cache.key(extension.text, command.source, [word for word in words if word not in files], versions)
    if not cache.restore(key, command.target):
        status = compile_once()
        if status:
            return status
        cache.store(key, command.target)
    if command.dependencies is not None:
        names = " ".join(str(path) for path in (command.source, *extension.headers))
        command.dependencies.write_text(f"{command.target}: {names}\n", encoding="utf-8")
    return 0


@lru_cache(maxsize=1)
def _own_version() -> str:
    """Return what changes when these modules make another object of the same source."""
    modules = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.blake2b(b"".join(path.read_bytes() for path in modules), digest_size=8).hexdigest()


def _programs(extension: _Extension, tool: Sequence[str]) -> tuple[Path, ...]:
    """Return files that are others in other versions of what compiles."""
    return Path(host_compiler()), Path(tool[0]), extension.torch / "torch" / "version.h"
