"""The CUDA device of PyTorch, built once for the user's PyTorch, in a folder that stands for NVIDIA's toolkit."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.cache_folder import cache_root
from gpuemu_lsp.engine.runtime.processes.supervised import temporary_folder
from gpuemu_lsp.engine.runtime.shim import LIBRARY as RUNTIME
from gpuemu_lsp.engine.runtime.shim import SOURCES
from gpuemu_lsp.engine.runtime.toolchain.host_compiler import host_compiler, run_compiler, run_compilers
from gpuemu_lsp.engine.runtime.toolchain.library import toolkit_folder
from gpuemu_lsp.engine.runtime.toolchain.wheels import has_nvcc
from gpuemu_lsp.engine.runtime.torch_device import HEADERS, LIBRARY, NATIVE

HOST_COMPILER = "c++"
"""Name of the C++ compiler in the toolkit's ``bin``, which keeps objects."""

_WHAT = "the CUDA device for PyTorch"
_FIRST_OF_CPP20 = (2, 13)
"""The first version whose headers need C++20."""


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """An installed PyTorch: its folder, its version, and that of CUDA, None for the build for the CPU."""

    folder: Path
    version: str
    cuda: str | None


def installed_torch() -> TorchBuild | None:
    """Return the PyTorch of this environment, which is not imported; None if there is none."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).parent
    try:
        text = (folder / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    version = re.search(r"^__version__ = '([^']+)'", text, re.MULTILINE)
    cuda = re.search(r"^cuda\b[^=\n]*= '([^']+)'", text, re.MULTILINE)
    return TorchBuild(folder, version[1] if version else "0", cuda[1] if cuda else None)


def serves_triton() -> bool:
    """Return whether Triton can have our device here: with a CPU build of PyTorch, nvcc, and a compiler for C.

    Triton's driver is a module of Python in C.
    """
    torch = installed_torch()
    compilers = filter(None, (os.environ.get("CC"), "gcc", "clang"))
    python_headers = Path(sysconfig.get_paths()["include"], "Python.h")
    possible = torch is not None and torch.cuda is None and has_nvcc()
    return possible and python_headers.is_file() and any(map(shutil.which, compilers))


def torch_toolkit(torch: TorchBuild, say: Callable[[str], None] = lambda text: None) -> Path:
    """Return the toolkit for extensions of a PyTorch, which is built if the cache does not have it.

    It has what :func:`.library.toolkit_folder` has, the headers that a build for the CPU lacks, and the device. ``say``
    is called with a sentence before a build, which takes a minute.

    Raises
    ------
    ProgramBuildError
        If nvcc or a C++ compiler is missing, or the device does not compile with this version.
    """
    toolkit = toolkit_folder()
    sources = sorted((*NATIVE.iterdir(), *HEADERS.rglob("*.h"), SOURCES / "frameworks.h"))
    content = [(path.name, path.read_text()) for path in sources if path.suffix in (".h", ".cpp")]
    compiler = _host_compiler_script()
    key = repr((content, compiler, torch.version, str(torch.folder), str(toolkit), sys.version_info[:2]))
    folder = cache_root() / "runtime" / f"torch-{hashlib.blake2b(key.encode(), digest_size=12).hexdigest()}"
    library = folder / "lib64" / LIBRARY
    if library.exists():
        return folder
    library.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with _alone(folder):
        if library.exists():
            return folder
        say(f"building {_WHAT} {torch.version} (once, about a minute) ...")
        _add_toolkit(folder, toolkit)
        with temporary_folder("building-", folder) as temporary:
            built = Path(temporary) / LIBRARY
            _build(torch, toolkit, built)
            built.replace(library)
    return folder


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Wait until no other run builds in a folder. The lock ends with its process, however that ends."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(torch: TorchBuild, toolkit: Path, target: Path) -> None:
    compiler, temporary = host_compiler(), str(target.parent)
    numbers = tuple(map(int, re.findall(r"\d+", torch.version)[:2]))
    headers = torch.folder / "include"
    options = [f"-std=c++{20 if numbers >= _FIRST_OF_CPP20 else 17}", "-O1", "-fPIC", "-w", "-fvisibility=hidden"]
    folders = (SOURCES, HEADERS, toolkit / "include", headers, headers / "torch" / "csrc" / "api" / "include")
    options += [f"-I{folder}" for folder in folders]
    objects = {source: str(target.parent / f"{source.stem}.o") for source in sorted(NATIVE.glob("*.cpp"))}
    run_compilers(
        ([compiler, *options, "-c", str(source), "-o", compiled] for source, compiled in objects.items()),
        temporary,
        _WHAT,
    )
    link = [compiler, "-shared", f"-Wl,-soname,{LIBRARY}", *objects.values(), "-o", str(target)]
    for libraries, names in ((torch.folder / "lib", ("torch_cpu", "c10")), (toolkit / "lib64", (RUNTIME,))):
        link += [f"-L{libraries}", f"-Wl,-rpath,{libraries}", *(f"-l{name}" for name in names)]
    run_compiler(link, temporary, _WHAT)


def _add_toolkit(folder: Path, toolkit: Path) -> None:
    """Add what a toolkit has, the headers that are missing, and the library by its other name."""
    for part in ("bin", "include", "lib64"):
        (folder / part).mkdir(exist_ok=True)
        for entry in (toolkit / part).iterdir():
            _link(folder / part / entry.name, entry)
    for header in HEADERS.rglob("*.h"):
        _link(folder / "include" / header.relative_to(HEADERS), header)
    (folder / "lib64" / "libc10_cuda.so").write_text(f"INPUT({folder / 'lib64' / LIBRARY})\n")
    compiler = folder / "bin" / HOST_COMPILER
    compiler.write_text(_host_compiler_script())
    compiler.chmod(0o755)


def _host_compiler_script() -> str:
    """Return the text of the toolkit's C++ compiler: the host's links, and says which version it is."""
    ours = f'exec {shlex.quote(sys.executable)} -m gpuemu_lsp.cli.gpuemu cxx "$@"'
    return (
        "#!/bin/sh\n"
        f'for word; do case "$word" in -c|--compile) {ours};; esac; done\n'
        f'exec {shlex.quote(host_compiler())} "$@"\n'
    )


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    # It is there where an earlier build was stopped.
    with contextlib.suppress(FileExistsError):
        link.symlink_to(target)
