"""Our runtime library, built once by the host's C++ compiler, in a folder that stands for NVIDIA's toolkit."""

from __future__ import annotations

import hashlib
import re
import shlex
import sys
from pathlib import Path

from gpuemu_lsp.engine.cache_folder import cache_root
from gpuemu_lsp.engine.runtime.processes.supervised import temporary_folder
from gpuemu_lsp.engine.runtime.protocol.cpp import messages_header
from gpuemu_lsp.engine.runtime.python_process import DRIVER
from gpuemu_lsp.engine.runtime.shim import LIBRARY, SOURCES
from gpuemu_lsp.engine.runtime.toolchain.host_compiler import host_compiler, run_compiler, run_compilers
from gpuemu_lsp.engine.runtime.toolchain.wheels import nvcc_folder

_WHAT = "the runtime library"

_ALIASES = (
    *("libcudart.so", "libcudart_static.a", "libcudadevrt.a", "libculibos.a", "libcuda.so", "libcublas.so"),
    *("libcublasLt.so", "libcurand.so", "libcublas_static.a", "libcublasLt_static.a", "libcurand_static.a"),
)
"""Libraries of NVIDIA that ours stands for."""


def toolkit_folder() -> Path:
    """Return a folder with ``bin/nvcc``, ``include`` and ``lib64``, as build files expect of a toolkit.

    Raises
    ------
    ProgramBuildError
        If nvcc or a C++ compiler is missing, or the library does not compile.
    """
    return runtime_library().parents[1]


def runtime_library() -> Path:
    """Return our runtime library, which is compiled if the cache does not have this version of it.

    Raises
    ------
    ProgramBuildError
        If there is no C++ compiler, or it fails.
    """
    include = nvcc_folder() / "include"
    parts = {path.name: path.read_text() for path in sorted(SOURCES.iterdir()) if path.suffix in (".h", ".cpp")}
    parts |= {"messages.h": messages_header(), **_generated("".join(parts.values()), include)}
    # The headers of a package that is installed later are in another folder.
    headers = sorted(entry.name for entry in include.iterdir())
    content = repr((sorted(parts.items()), sys.executable, str(include), headers))
    folder = cache_root() / "runtime" / hashlib.blake2b(content.encode(), digest_size=12).hexdigest()
    library = folder / "lib64" / f"lib{LIBRARY}.so"
    if library.exists():
        return library
    compiler = host_compiler()
    library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with temporary_folder("building-", folder) as temporary:
        for name, text in parts.items():
            Path(temporary, name).write_text(text)
        options = ["-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", f"-I{include}", f"-I{SOURCES / 'include'}"]
        sources = [Path(temporary, name) for name in parts if name.endswith(".cpp")]
        run_compilers(([compiler, *options, "-c", str(source)] for source in sources), temporary, _WHAT)
        built = Path(temporary) / library.name
        objects = [str(source.with_suffix(".o")) for source in sources]
        names = [f"-Wl,-soname,{library.name}", *_other_names("".join(parts.values()), include)]
        run_compiler([compiler, "-shared", *names, *objects, "-o", str(built), "-ldl"], temporary, _WHAT)
        _add_toolkit(folder, include)
        driver = Path(temporary) / DRIVER
        depends = ["-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed", f"-L{temporary}", f"-l{LIBRARY}"]
        run_compiler([compiler, "-shared", f"-Wl,-soname,{DRIVER}", *depends, "-o", str(driver)], temporary, _WHAT)
        driver.replace(library.with_name(DRIVER))
        built.replace(library)
    return library


def _add_toolkit(folder: Path, include: Path) -> None:
    """Add what build files look for in a toolkit: a compiler, headers, and libraries by their names."""
    # By its path: a build that names a library by its own path gives no folder to search.
    library = folder / "lib64" / f"lib{LIBRARY}.so"
    for name in _ALIASES:
        (folder / "lib64" / name).write_text(f"INPUT({library} -lstdc++)\n")
    (folder / "bin").mkdir(exist_ok=True)
    compiler = folder / "bin" / "nvcc"
    compiler.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m gpuemu_lsp.cli.gpuemu nvcc "$@"\n')
    compiler.chmod(0o755)
    (folder / "include").mkdir(exist_ok=True)
    for header in (*include.iterdir(), *(SOURCES / "include").iterdir()):
        link = folder / "include" / header.name
        if not link.is_symlink():
            link.symlink_to(header)


def _other_names(sources: str, include: Path) -> list[str]:
    """Return the linker's options for other names of functions.

    They are those with ``--default-stream per-thread``, which do the same: which default stream a program has is known
    when it starts. And those with ``_`` in front, by which code that MLIR has compiled for CuTe DSL calls them.
    """
    header = (include / "cuda_runtime_api.h").read_text()
    renamed = [*re.findall(r"#define (cuda\w+) +__CUDART_API_(PTDS|PTSZ)\(", header), ("__cudaLaunchKernel", "PTSZ")]
    defined = set(re.findall(r"^(?:API|STUB) [\w *]*?\b(\w+)\(", sources, re.MULTILINE))
    names = {f"{name}_{kind.lower()}": name for name, kind in dict(renamed).items() if name in defined}
    versions = _current_versions(include)
    names |= {f"_{name}": versions.get(name, name) for name in defined if re.match("cu(da)?[A-Z]", name)}
    names["_cudaLaunchKernelEx"] = "cudaLaunchKernelExC"
    return [f"-Wl,--defsym={other}={name}" for other, name in names.items()]


def _current_versions(include: Path) -> dict[str, str]:
    """Return the current version of functions of the driver by the name that CUDA's header gives to it."""
    declared = r"^#define (cu[A-Z]\w+) +(?:__CUDA_API_\w+\()?(cu[A-Z]\w+_v\d+)\b"
    return dict(re.findall(declared, (include / "cuda.h").read_text(), re.MULTILINE))


def _generated(sources: str, include: Path) -> dict[str, str]:
    """Return the sources that follow from CUDA's headers, by file name.

    They are the names of all errors, and a function for each one of the runtime and the driver that ``sources`` does
    not define: it reports its name when it is called.
    """
    defined = set(re.findall(r"^API [\w *]*?\b(\w+)\(", sources, re.MULTILINE))
    declared = re.findall(r"\bcudaError_t CUDARTAPI (cuda\w+)\(", (include / "cuda_runtime_api.h").read_text())
    missing = {name for name in declared if not name.endswith("_ptsz")} - defined
    driver = (include / "cuda.h").read_text()
    # Programs that were compiled earlier call other versions.
    versions = _current_versions(include)
    missing |= {
        one for one in re.findall(r"\bCUresult CUDAAPI (cu[A-Z]\w+)\(", driver) if not re.search("_pts[zd]$", one)
    }
    missing |= set(versions.values())
    missing -= {versions.get(name, name) for name in defined} | defined
    # Their parameters do not matter: the caller removes what it has passed.
    functions = "".join(f'STUB int {name}() {{ return gpuemu_missing("{name}"); }}\n' for name in sorted(missing))
    stub = '#define STUB extern "C" __attribute__((visibility("default")))\nint gpuemu_missing(const char* name);\n'
    bridge = '#include "core.h"\nint gpuemu_missing(const char* name) { return int(gpuemu::unsupported(name)); }\n'
    errors = re.findall(r"^ *(cudaError\w+|cudaSuccess) *= *(\d+)", (include / "driver_types.h").read_text(), re.M)
    names = "".join(f'{{{number}, "{name}"}},\n' for name, number in errors)
    return {"missing.cpp": stub + functions, "bridge.cpp": bridge, "error_names.inc": names}
