"""The part of Warp's native library that calls CUDA, built once from the sources in its wheel, for our runtime."""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.cache_folder import cache_root
from gpuemu_lsp.engine.runtime.processes.supervised import temporary_folder
from gpuemu_lsp.engine.runtime.toolchain.host_compiler import host_compiler, run_compiler, run_compilers
from gpuemu_lsp.engine.runtime.toolchain.library import runtime_library
from gpuemu_lsp.engine.runtime.toolchain.nvcc import nvcc_command
from gpuemu_lsp.engine.runtime.toolchain.wheels import nvrtc_headers
from gpuemu_lsp.engine.runtime.warp_launches import HEADERS, LANGUAGE, LIBRARY_VARIABLE

_WHAT = "the part of Warp's library that calls CUDA"
_SOURCES = ("warp.cu", "cuda_util.cpp", "error.cpp", "alloc_tracker.cpp", "hashgrid.cu", "hashgrid.cpp", "texture.cpp")
_MACROS = ("WP_ENABLE_CUDA=1", "WP_ENABLE_CUDA_COMPATIBILITY=0", "WP_ENABLE_MATHDX=0", "WP_ENABLE_DEBUG=0", "NDEBUG")
_RELEASES = re.compile(r"_Z\d+radix_sort_(?:end_capture|stream_release)")
"""Functions that release what sorting has allocated: there is nothing, as what sorts is not compiled."""
_UNDEFINED = re.compile(r"^ +U (\w+)$", re.MULTILINE)
_DEFINED_IN = re.compile(r" T (\w+)", re.MULTILINE)
"""Lines of ``nm``; undefined symbols of the system's libraries have a version."""


def warp_environment() -> dict[str, str]:
    """Return the variable with which Warp calls the library; it is built if the cache does not have it.

    Raises
    ------
    ProgramBuildError
        If nvcc or a C++ compiler is missing, or the sources of this version do not compile.
    """
    spec = importlib.util.find_spec(LANGUAGE.package)
    return {LIBRARY_VARIABLE: str(_library(Path(spec.origin).parent))} if spec is not None and spec.origin else {}


def _library(warp: Path) -> Path:
    """Return the library for the Warp of a folder. A build takes half a minute, and says so."""
    sources = [warp / "native" / name for name in _SOURCES]
    content = [path.read_bytes() for path in (*sources, *HEADERS.iterdir(), Path(__file__))]
    key = hashlib.blake2b(repr((content, str(warp), str(runtime_library()))).encode(), digest_size=12).hexdigest()
    library = cache_root() / "runtime" / f"warp-{key}" / "libgpuemu_warp.so"
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    sys.stderr.write(f"gpuemu: building {_WHAT} (once, about half a minute) ...\n")
    with temporary_folder("building-", library.parent) as temporary:
        _build(sources, warp / "bin" / "warp.so", Path(temporary, library.name))
        Path(temporary, library.name).replace(library)
    return library


def _build(sources: list[Path], theirs: Path, target: Path) -> None:
    folder, native = str(target.parent), sources[0].parent
    options = ["-std=c++17", "-w", "-Xcompiler", "-fPIC,-w", *(f"-D{name}" for name in _MACROS)]
    options += [f"-I{path}" for path in (native, HEADERS, nvrtc_headers())]
    objects = {source: str(target.parent / f"{source.name}.o") for source in sources}
    run_compilers(
        (nvcc_command([*options, "-c", str(source), "-o", compiled]) for source, compiled in objects.items()),
        folder,
        _WHAT,
    )
    # Calls inside of it stay there: Warp's own library, which is loaded before, has functions of the same names.
    link = nvcc_command(["-shared", *objects.values(), "-Xlinker", "--unresolved-symbols=ignore-all,-Bsymbolic"])
    run_compiler([*link, "-o", str(target)], folder, _WHAT)
    there = _symbols(_DEFINED_IN, theirs) | _symbols(_DEFINED_IN, runtime_library())
    stubs = target.parent / "absent.c"
    stubs.write_text(_stubs(sorted(_symbols(_UNDEFINED, target) - there)))
    run_compiler([host_compiler(), "-x", "c", "-fPIC", "-w", "-c", str(stubs), "-o", f"{stubs}.o"], folder, _WHAT)
    run_compiler([*link, f"{stubs}.o", "-o", str(target)], folder, _WHAT)


def _stubs(names: Sequence[str]) -> str:
    """Return functions in C that end the program with their name: an unsorted array would be a wrong result."""
    head = "#include <stdio.h>\n#include <stdlib.h>\n"
    empty = "".join(f"void {name}(void) {{}}\n" for name in names if _RELEASES.match(name))
    return (
        head
        + empty
        + "".join(
            f'void {name}(void) {{ fputs("gpuemu does not run `{name}` of Warp\'s library\\n", stderr); abort(); }}\n'
            for name in names
            if not _RELEASES.match(name)
        )
    )


def _symbols(pattern: re.Pattern[str], library: Path) -> set[str]:
    done = subprocess.run(["nm", "-D", str(library)], capture_output=True, text=True, check=False)
    return set(pattern.findall(done.stdout))
