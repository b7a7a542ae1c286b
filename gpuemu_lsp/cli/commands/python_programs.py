"""How a program of Python is run: on our runtime, or with the launches of Triton and numba-cuda replaced."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from gpuemu_lsp.engine.regular_file import readable_text
from gpuemu_lsp.engine.runtime import warp_launches
from gpuemu_lsp.engine.runtime.python_boot import HOOK
from gpuemu_lsp.engine.runtime.python_boot.languages import LANGUAGES
from gpuemu_lsp.engine.runtime.python_process import ARCHITECTURE_VARIABLE, TOOLKIT_VARIABLE
from gpuemu_lsp.engine.runtime.python_process.language import LaunchingLanguage
from gpuemu_lsp.engine.runtime.shim import LIBRARY
from gpuemu_lsp.engine.runtime.toolchain.library import toolkit_folder
from gpuemu_lsp.engine.runtime.toolchain.torch_library import (
    HOST_COMPILER,
    TorchBuild,
    installed_torch,
    serves_triton,
    torch_toolkit,
)
from gpuemu_lsp.engine.runtime.toolchain.warp_library import warp_environment
from gpuemu_lsp.engine.runtime.toolchain.wheels import has_nvcc
from gpuemu_lsp.engine.runtime.torch_device import names_extension

_TRITON = re.compile(r"^\s*(?:import|from)\s+triton\b", re.MULTILINE)
_IN_PYTHON = re.compile(r"^\s*(?:import|from)\s+(?:numba|gpuemu)\b", re.MULTILINE)
"""What runs its launches in the process that makes them."""
_TORCH = re.compile(r"\btorch\b")
_IMPORT = re.compile(r"^\s*(?:from\s+([\w.]+)\s+import\s+([\w, ]+)|import\s+([\w., ]+))", re.MULTILINE)
_SKIPPED = ("site-packages", "node_modules", "build", "dist")
_MOST_FILES = 2000


class UnusableTorchError(Exception):
    """The installed PyTorch cannot have our device; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class PythonProgram:
    """A script, or a module with ``module``: ``words`` are its name and its arguments.

    ``torch_device`` says whether PyTorch gets a CUDA device: ``on``, ``off``, or ``auto`` by the text of the program.
    ``arch`` is the architecture of the device, such as ``sm_90a``; None for the default, which CuTe DSL has its own of.
    """

    words: tuple[str, ...]
    module: bool
    torch_device: str = "auto"
    arch: str | None = None

    @property
    def command(self) -> list[str]:
        """The command that runs it."""
        return [sys.executable, *(["-m"] if self.module else []), *self.words]

    @property
    def name(self) -> str:
        """The name of its recording: that of the module, or of the script without its suffix."""
        return self.words[0] if self.module else Path(self.words[0]).stem

    @property
    def builds(self) -> bool:
        """Whether it is the script by which a package is built."""
        return not self.module and Path(self.words[0]).name == "setup.py"

    def sources(self) -> Iterator[str]:
        """Yield the texts of what it may run: the script with the files that it imports, or all below this folder."""
        if self.module:
            paths = [path for word in self.words if (path := Path(word.partition("::")[0])).exists()]
            yield from _below(paths or [Path.cwd()])
        else:
            yield from _imported(Path(self.words[0]))


def uses_runtime(program: PythonProgram) -> bool:
    """Return whether a program is a child process on our runtime: one that uses PyTorch, or a language of the table.

    Programs whose only kernels are numba-cuda's are not, nor are those of Triton where PyTorch's device or Triton's
    driver cannot be built: their launches are replaced in Python.
    """
    if program.torch_device != "auto":
        return program.torch_device == "on"
    with_torch = with_triton = False
    in_python = any(word.startswith("--gpuemu-") for word in program.words)
    for text in program.sources():
        if names_extension(text) and installed_torch() is not None:
            return True
        if any(language.is_used(text) and language.is_installed() for language in LANGUAGES):
            return True
        with_torch = with_torch or _TORCH.search(text) is not None
        with_triton = with_triton or _TRITON.search(text) is not None
        in_python = in_python or _IN_PYTHON.search(text) is not None
    if installed_torch() is None:
        return False
    return with_torch and not in_python and (serves_triton() if with_triton else has_nvcc())


def python_environment(program: PythonProgram | None = None) -> dict[str, str]:
    """Return the variables with which packages use our runtime in a process of Python, and in what that starts.

    None are needed where no such package is installed. Without a program its architecture is not known.

    Raises
    ------
    UnusableTorchError
        If PyTorch is a build for CUDA.
    ProgramBuildError
        If the runtime, PyTorch's device, or what Warp needs cannot be built.
    """
    torch, installed = installed_torch(), [language for language in LANGUAGES if language.is_installed()]
    if torch is None and not installed:
        return {}
    toolkit = toolkit_folder() if torch is None else _torch_toolkit(torch)
    modules = [str(HOOK), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {TOOLKIT_VARIABLE: str(toolkit), "CUDA_HOME": str(toolkit), "PYTHONPATH": os.pathsep.join(modules)}
    if torch is not None:
        variables |= _torch_environment(toolkit)
    used = used_languages(program) if program is not None else installed
    for language in installed:
        if language in used:
            variables |= language.environment(toolkit / "lib64" / f"lib{LIBRARY}.so")
    if warp_launches.LANGUAGE in used and warp_launches.LANGUAGE in installed:
        variables |= warp_environment()
    if program is not None:
        arch = program.arch or next((language.architecture for language in used), "")
        number = re.search(r"\d+", arch)
        if number is not None:
            variables[ARCHITECTURE_VARIABLE] = number[0]
    return variables


def untried_versions(program: PythonProgram) -> tuple[str, ...]:
    """Return remarks on the languages that a program imports, and of which another version was tried."""
    used = ((language, language.untried_version()) for language in used_languages(program))
    return tuple(
        f"{language.name} {version} was not tried, but {language.tried}x"
        for language, version in used
        if version is not None
    )


def used_languages(program: PythonProgram) -> list[LaunchingLanguage]:
    """Return the languages of the table that a program imports, installed or not."""
    texts = _texts(program)
    return [language for language in LANGUAGES if any(map(language.is_used, texts))]


@lru_cache(maxsize=1)
def _texts(program: PythonProgram) -> tuple[str, ...]:
    """Return all sources of a program, which are read once: a command runs one program."""
    return tuple(program.sources())


def _torch_toolkit(torch: TorchBuild) -> Path:
    if torch.cuda is not None:
        raise UnusableTorchError(_for_cuda(torch))
    return torch_toolkit(torch, lambda text: print(f"gpuemu: {text}", file=sys.stderr, flush=True))


def _torch_environment(toolkit: Path) -> dict[str, str]:
    """Return the variables for builds of extensions, and for Triton and the CPU's operators of PyTorch."""
    # The compilers of an extension are found by names on the path, as is ninja of this environment.
    programs = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    variables = {"TRITON_LIBCUDA_PATH": str(toolkit / "lib64"), "PATH": os.pathsep.join(programs)}
    if "CXX" not in os.environ:
        variables["CXX"] = str(toolkit / "bin" / HOST_COMPILER)
    if "MAX_JOBS" not in os.environ:
        variables["MAX_JOBS"] = str(os.cpu_count() or 1)
    # Inductor's own launcher takes machine code; Triton's takes PTX here.
    variables["TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER"] = "0"
    # Threads of the CPU's operators that wait by running would take the processors from the device's process.
    if "OMP_WAIT_POLICY" not in os.environ:
        variables["OMP_WAIT_POLICY"] = "passive"
    return variables


def _for_cuda(torch: TorchBuild) -> str:
    version = torch.version.partition("+")[0]
    return (
        f"PyTorch {torch.version} is a build for CUDA {torch.cuda}, whose own device cannot be replaced. An "
        f"environment with the build for the CPU and your other packages: python -m venv --system-site-packages "
        f".venv-cpu && .venv-cpu/bin/pip install torch=={version}+cpu, from the index of CPU builds that PyTorch's "
        "installation page names"
    )


def _below(paths: Iterable[Path]) -> Iterator[str]:
    """Yield the texts of the sources in files and folders, but for those of environments and builds."""
    count = 0
    for path in paths:
        if path.is_file():
            yield readable_text(path) or ""
            continue
        for folder, folders, files in os.walk(path):
            folders[:] = [name for name in folders if not name.startswith(".") and name not in _SKIPPED]
            for name in files:
                if name.endswith(".py"):
                    count += 1
                    yield readable_text(Path(folder, name)) or ""
            if count > _MOST_FILES:
                return


def _imported(script: Path) -> Iterator[str]:
    """Yield the texts of a script and of the files that it imports, of its folder and of this one."""
    folders = (script.resolve().parent, Path.cwd())
    waiting, seen, names = [script.resolve()], {script.resolve()}, set[str]()
    while waiting:
        text = readable_text(waiting.pop()) or ""
        yield text
        new = set(_imported_names(text)) - names
        names |= new
        for name in sorted(new):
            parts = name.split(".")
            for path in (Path(folder, *parts) for folder in folders):
                for file in (path.with_suffix(".py"), path / "__init__.py"):
                    if file.is_file() and file not in seen:
                        seen.add(file)
                        waiting.append(file)


def _imported_names(text: str) -> Iterator[str]:
    for package, names, modules in _IMPORT.findall(text):
        for name in (names or modules).split(","):
            word = name.split(" as ")[0].strip()
            yield f"{package}.{word}".strip(".") if package else word
        if package:
            yield package.strip(".")
