"""``nvcc -c`` of a source that includes PyTorch, in two parts: the host's by g++, the device's by nvcc alone.

The host's object leaves undefined what it launches: these symbols are the instances of templates that the device's part
has to have. Where any step fails, the caller gives the source to nvcc as it is.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuemu_lsp.engine.runtime.processes.supervised import run_supervised
from gpuemu_lsp.engine.runtime.toolchain.certain_errors import certain_errors
from gpuemu_lsp.engine.runtime.toolchain.compile_command import CompileCommand
from gpuemu_lsp.engine.runtime.toolchain.host_compiler import host_compiler
from gpuemu_lsp.engine.runtime.toolchain.light_headers import common_headers, write_light_headers
from gpuemu_lsp.engine.runtime.toolchain.precompiled_headers import included_first
from gpuemu_lsp.engine.runtime.toolchain.split_source import SplitError, SplitSource, split_source

_TORCH = re.compile(r"#\s*include\s*<(?:torch|ATen|c10)/")
_NOT_SPLIT = re.compile(r"#\s*include\s*<(?:thrust|cub|cutlass|cute)[/.]")
"""Headers with kernels that host code instantiates, or that both parts need."""

_HOST_PRELUDE = """#ifndef GPUEMU_PRELUDE
#define GPUEMU_PRELUDE
#include <cstdlib>
#include <cstring>
#define GPUEMU_EXTREMES(R, A, B) \\
    constexpr R max(A a, B b) { const R x = a, y = b; return x < y ? y : x; } \\
    constexpr R min(A a, B b) { const R x = a, y = b; return y < x ? y : x; }
#define GPUEMU_INTEGER_EXTREMES(T) \\
    GPUEMU_EXTREMES(T, T, T) \\
    GPUEMU_EXTREMES(unsigned T, unsigned T, unsigned T) \\
    GPUEMU_EXTREMES(unsigned T, T, unsigned T) \\
    GPUEMU_EXTREMES(unsigned T, unsigned T, T)
GPUEMU_INTEGER_EXTREMES(int)
GPUEMU_INTEGER_EXTREMES(long)
GPUEMU_INTEGER_EXTREMES(long long)
GPUEMU_EXTREMES(float, float, float)
GPUEMU_EXTREMES(double, double, double)
GPUEMU_EXTREMES(double, float, double)
GPUEMU_EXTREMES(double, double, float)
#define __COMMON_FUNCTIONS_H__
#define __CUDACC__
#include <cuda_runtime.h>
#undef __CUDACC__
inline float rsqrtf(float x) { return 1 / __builtin_sqrtf(x); }
inline double rsqrt(double x) { return 1 / __builtin_sqrt(x); }
#define GPUEMU__CUDACC__
#define GPUEMU__NVCC__
#endif
"""
"""What nvcc includes for the host, with the declarations of the device's functions, as macros and templates name some;
but those of the C library's functions, which g++ has otherwise."""

_RESTRICTED = "RestrictPtrTraits"
_HOST_HEADERS = {
    # What it includes is not read as the device's compiler reads it.
    rf"\b{_RESTRICTED}\b": "#include <c10/util/ArrayRef.h>\n#include <c10/util/Exception.h>\n#define __CUDACC__\n"
    "#include <ATen/core/TensorAccessor.h>\n#undef __CUDACC__\n",
    r"\bcooperative_groups\b": "namespace cooperative_groups {}\n",
    r"\bnvcuda\s*::\s*experimental\b": "namespace nvcuda { namespace experimental {} }\n",
}
"""What the host's part needs, by a name in it."""

_DEVICE_HEADERS = {
    r"\b(?:__)?half": "cuda_fp16.h",
    r"bfloat16": "cuda_bf16.h",
    r"\b(?:printf|assert)\b": "cstdio",
    r"\bassert\b": "cassert",
    r"\b(?:FLT|DBL)_": "cfloat",
    r"\bHalf\b": "c10/util/Half.h",
    r"\bBFloat16\b": "c10/util/BFloat16.h",
    r"\bcomplex\b": "c10/util/complex.h",
    r"Accessor": "ATen/core/TensorAccessor.h",
}
_DEVICE_PRELUDE = """#include <cuda_runtime.h>
#include <cstdint>
#include <cmath>
namespace at {}
namespace c10 {}
namespace torch { using namespace at; }
"""


def can_be_split(text: str) -> bool:
    """Return whether a source gains by it: it has PyTorch's headers, and no kernels of a library's."""
    return _TORCH.search(text) is not None and _NOT_SPLIT.search(text) is None


def compile_split(
    command: CompileCommand, text: str, torch: Path, nvcc: Callable[[Sequence[str]], list[str]], folder: str
) -> bool:
    """Compile a source, whose local headers are in ``text``; return whether its object is there.

    ``torch`` is PyTorch's folder of headers, and ``nvcc`` makes a command of its arguments. ``folder`` is for temporary
    files.

    Raises
    ------
    SourceError
        If the source has errors that nvcc would report too.
    """
    # nvcc has such namespaces too: they are not shown.
    unique = f"_INTERNAL_{hashlib.blake2b(str(command.source.resolve()).encode(), digest_size=6).hexdigest()}"
    try:
        parts = split_source(text, unique)
        host = _of_whole_source(command, parts.device, lambda: _host_object(command, parts, torch, Path(folder)))
        undefined = _symbols(host, "--undefined-only")
        instances = {symbol: name for symbol, name in undefined.items() if _is_instance(name, parts)}
        names = list(instances.values())
        device = _of_whole_source(
            command, parts.host, lambda: _device_object(command, parts, names, nvcc, Path(folder))
        )
        if not instances.keys() <= _symbols(device, "--defined-only").keys():
            raise SplitError("an instance of a kernel is not made")
        _join(host, device, parts, undefined, command.target, folder)
    except SplitError:
        return False
    return True


class SourceError(Exception):
    """A source that does not compile; the message has the compiler's errors."""


def _of_whole_source(command: CompileCommand, other_part: str, compiled: Callable[[], Path]) -> Path:
    """Return the object of one part, or raise SourceError if its errors are those of the whole source."""
    try:
        return compiled()
    except SplitError as error:
        errors = certain_errors(str(error), other_part, command.folders)
        if errors:
            raise SourceError("\n".join(errors)) from error
        raise


def _host_object(command: CompileCommand, parts: SplitSource, torch: Path, folder: Path) -> Path:
    source, target = folder / "host.cpp", folder / "host.o"
    headers = [text for name, text in _HOST_HEADERS.items() if re.search(name, parts.host)]
    source.write_text("".join((_HOST_PRELUDE, *headers, parts.host)), encoding="latin-1")
    # The host's part has no loop that is worth optimising. -g1 has the lines of launches.
    options = ["-O0", "-g1", "-w", "-fPIC", "-fno-optimize-sibling-calls"]
    files = ["-c", str(source), "-o", str(target)]
    light = folder / "light"
    if write_light_headers(parts.host, torch, light):
        words = [f"-I{light}", *command.shared, *command.host, *options, *files]
        # What it includes otherwise is in the other header already.
        common = _HOST_PRELUDE + common_headers("", torch) if _RESTRICTED not in parts.host else ""
        first = included_first(command, torch, common, [*command.host, *options]) if common else []
        if run_supervised([host_compiler(), *first, *words], capture=True).returncode == 0:
            return target
    _run([host_compiler(), *command.shared, *command.host, *options, *files], folder)
    return target


def _device_object(
    command: CompileCommand,
    parts: SplitSource,
    instances: Sequence[str],
    nvcc: Callable[[Sequence[str]], list[str]],
    folder: Path,
) -> Path:
    source, target = folder / "device.cu", folder / "device.o"
    text = f"{parts.device}\n{_uses(instances)}"
    source.write_text(with_device_headers(text), encoding="latin-1")
    # Else the stubs of instances of templates have internal linkage, and two objects cannot have one inline variable.
    own = ["-static-global-template-stub=false", "-Xcompiler", "-fPIC,-w,-fno-gnu-unique"]
    _run(nvcc([*command.shared, *command.device, *own, "-c", str(source), "-o", str(target)]), folder)
    return target


def with_device_headers(text: str) -> str:
    """Return the device's part of a source behind what it uses of the headers that PyTorch's include."""
    headers = "".join(f"#include <{name}>\n" for use, name in _DEVICE_HEADERS.items() if re.search(use, text))
    return f"{_DEVICE_PRELUDE}{headers}{text}"


def _uses(instances: Sequence[str]) -> str:
    """Return a use of each instance, for which nvcc makes it as for a launch: its pass for the host reads no body."""
    kinds = [re.fullmatch(r"void (.*>)\((.*)\)", name, re.DOTALL) for name in instances]
    if None in kinds:
        raise SplitError("the name of an instance is not understood")
    addresses = ",\n".join(f"(void*)static_cast<void (*)({kind[2]})>(&{kind[1]})" for kind in kinds if kind is not None)
    return f"__attribute__((used)) static void* const gpuemu_instances[] = {{\n{addresses}}};\n" if kinds else ""


def _is_instance(name: str, parts: SplitSource) -> bool:
    """Return whether a symbol, by its readable name, is an instance of a template that is a kernel."""
    match = re.match(r"void [\w:]*?\b(\w+)<", name)
    return match is not None and match[1] in parts.kernels


def _join(host: Path, device: Path, parts: SplitSource, undefined: dict[str, str], target: Path, folder: str) -> None:
    """Make one object of both, in which the kernels are as nvcc has them: instances of templates are internal."""
    flat = device.with_name("flat.o")
    # Groups of sections would be dropped where another object has an instance of the same name.
    _run(["ld", "-r", "--force-group-allocation", "-o", str(flat), str(device)], Path(folder))
    variables = _shared_variables(flat, undefined)
    if variables:
        names = [f"--redefine-sym={internal}={name}" for internal, name in variables.items()]
        _run(
            ["objcopy", *(f"--globalize-symbol={name}" for name in variables.values()), *names, str(flat)], Path(folder)
        )
    joined = device.with_name("joined.o")
    _run(["ld", "-r", "-o", str(joined), str(host), str(flat)], Path(folder))
    defined = _symbols(flat, "--defined-only")
    internal = [
        symbol
        for symbol, name in defined.items()
        if symbol in undefined and ("<" in name or any(re.search(rf"\b{one}\(", name) for one in parts.internal))
    ]
    internal += variables.values()
    _run(["objcopy", *(f"--localize-symbol={symbol}" for symbol in internal), str(joined), str(target)], Path(folder))


def _shared_variables(device: Path, undefined: dict[str, str]) -> dict[str, str]:
    """Return the symbols of the device's variables that the host's part names, each with the name it has there."""
    wanted = {name: symbol for symbol, name in undefined.items() if "(" not in name}
    defined = _symbols(device, "--defined-only").items()
    return {symbol: wanted[name] for symbol, name in defined if name in wanted and symbol != wanted[name]}


def _symbols(file: Path, option: str) -> dict[str, str]:
    """Return the symbols of an object with the names that they have in the source."""
    texts = [
        subprocess.run(["nm", option, *more, str(file)], capture_output=True, text=True, check=False).stdout
        for more in ([], ["-C"])
    ]
    mangled, readable = (text.splitlines() for text in texts)
    return {
        line.split()[-1]: re.sub(r"^[0-9a-f]*\s+\w\s+", "", name) for line, name in zip(mangled, readable, strict=True)
    }


def _run(command: Sequence[str], folder: Path) -> None:
    # In this folder, as options have relative paths.
    done = run_supervised(command, capture=True, environment={"TMPDIR": str(folder)})
    if done.returncode:
        raise SplitError(f"{Path(command[0]).name}: {done.stderr}")
