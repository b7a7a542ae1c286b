"""nvcc of NVIDIA's wheels, and our runtime library, which is built once by the host's C++ compiler."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.cache_folder import cache_root

LIBRARY = "gpuemu_runtime"
_SOURCES = Path(__file__).with_name("shim")

_VALUE_OPTIONS = frozenset(
    ("-arch", "--gpu-architecture", "-code", "--gpu-code", "-gencode", "--generate-code", "-cudart", "--cudart")
)
"""Options of nvcc, each with a value, that choose what we choose: one architecture, as PTX, and the runtime."""

_DROPPED = frozenset(("-G", "--device-debug", "-lcuda", "-lcudart", "-lcudart_static"))
"""Code for a debugger is not optimised, and excludes ``-lineinfo``; the runtime is ours.
Of the driver there is nothing: the linker names what is missing."""

_NO_LINK = frozenset(
    ("-c", "--compile", "-dc", "--device-c", "-ptx", "--ptx", "-E", "--preprocess", "-M", "-MM", "--version", "-V")
)
"""Options with which nvcc does not link."""


class ProgramBuildError(Exception):
    """Programs cannot be built here; the message has the reason and the next step."""


def nvcc_folder() -> Path:
    """Return the folder of CUDA 13 in this environment's packages.

    Raises
    ------
    ProgramBuildError
        If the wheels of the extra ``run`` are not installed.
    """
    for entry in sys.path:
        folder = Path(entry) / "nvidia" / "cu13"
        if (folder / "bin" / "nvcc").is_file():
            return folder
    raise ProgramBuildError('nvcc is not installed: pip install "gpuemu-lsp[run]"')


def nvcc_command(arguments: Sequence[str], architecture: str = "80") -> list[str]:
    """Return the command that compiles as nvcc does with ``arguments``, to PTX and for our runtime.

    Raises
    ------
    ProgramBuildError
        If nvcc or a C++ compiler is missing.
    """
    kept: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        if argument in _VALUE_OPTIONS:
            next(remaining, None)
        elif argument.partition("=")[0] not in _VALUE_OPTIONS and argument not in _DROPPED:
            kept.append(argument)
    target = f"arch=compute_{architecture},code=compute_{architecture}"
    # -g is for the lines of launches and allocations, --no-compress because the PTX is read from the program.
    own = ["-gencode", target, "-lineinfo", "--no-compress", "-g", "--cudart", "none", "-Wno-deprecated-gpu-targets"]
    own += ["-include", str(_SOURCES / "removed_functions.h")]
    command = [str(nvcc_folder() / "bin" / "nvcc"), *own, *kept]
    if not _NO_LINK.intersection(kept):
        library = runtime_library().parent
        command += [f"-L{library}", f"-l{LIBRARY}", "-Xlinker", f"-rpath={library}"]
    return command


def runtime_library() -> Path:
    """Return our runtime library, which is compiled if the cache does not have this version of it.

    Raises
    ------
    ProgramBuildError
        If there is no C++ compiler, or it fails.
    """
    include = nvcc_folder() / "include"
    parts = {path.name: path.read_text() for path in sorted(_SOURCES.iterdir()) if path.suffix in (".h", ".cpp")}
    parts |= _generated("".join(parts.values()), include)
    digest = hashlib.blake2b(repr(sorted(parts.items())).encode(), digest_size=12).hexdigest()
    folder = cache_root() / "runtime" / digest
    library = folder / f"lib{LIBRARY}.so"
    if library.exists():
        return library
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise ProgramBuildError("there is no C++ compiler: install g++, which nvcc needs too")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        for name, text in parts.items():
            Path(temporary, name).write_text(text)
        built = Path(temporary) / library.name
        options = ["-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", f"-I{include}"]
        sources = [str(Path(temporary, name)) for name in parts if name.endswith(".cpp")]
        command = [compiler, *options, *sources, "-o", str(built), "-ldl"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ProgramBuildError(f"the runtime library does not compile with {compiler}:\n{done.stderr.strip()}")
        # For build files that link with the C++ compiler itself.
        for name in ("cudart", "cuda"):
            (folder / f"lib{name}.so").write_text(f"INPUT(-l{LIBRARY} -lstdc++)\n")
        built.replace(library)
    return library


def _generated(sources: str, include: Path) -> dict[str, str]:
    """Return the sources that follow from CUDA's headers, by file name.

    They are the names of all errors, and a function for each one of the runtime that ``sources`` does not define:
    it reports its name when it is called.
    """
    declared = re.findall(r"\bcudaError_t CUDARTAPI (cuda\w+)\(", (include / "cuda_runtime_api.h").read_text())
    defined = set(re.findall(r"^API [\w *]*?\b(\w+)\(", sources, re.MULTILINE))
    missing = sorted({name for name in declared if not name.endswith("_ptsz")} - defined)
    # Their parameters do not matter: the caller removes what it has passed.
    functions = "".join(f'STUB int {name}() {{ return gpuemu_missing("{name}"); }}\n' for name in missing)
    stub = '#define STUB extern "C" __attribute__((visibility("default")))\nint gpuemu_missing(const char* name);\n'
    bridge = '#include "core.h"\nint gpuemu_missing(const char* name) { return int(gpuemu::unsupported(name)); }\n'
    errors = re.findall(r"^ *(cudaError\w+|cudaSuccess) *= *(\d+)", (include / "driver_types.h").read_text(), re.M)
    names = "".join(f'{{{number}, "{name}"}},\n' for name, number in errors)
    return {"missing.cpp": stub + functions, "bridge.cpp": bridge, "error_names.inc": names}
