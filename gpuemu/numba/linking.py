"""PTX of a numba-cuda kernel and of all that it links.

numba-cuda links with nvJitLink to a cubin. Here the modules are PTX: the kernel and its device functions are one, as
libNVVM makes it; CUDA C++ is compiled by NVRTC, as numba-cuda does; PTX files are taken as they are. Their texts are
then joined. Objects, archives and cubins hold machine code, which the emulator does not run.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cuda.bindings import nvrtc as binding
from numba.cuda.cudadrv import nvrtc
from numba.cuda.cudadrv.linkable_code import LinkableCode
from numba.cuda.cudadrv.mappings import FILE_EXTENSION_MAP
from numba.cuda.utils import cached_file_read

from gpuemu.numba.arguments import UnsupportedLaunchError

# numba-cuda's grid groups call the device runtime library, which is machine code. This is the barrier of
# cooperative_groups (details/sync.h, sync_grids): the sign bit flips when the last block has arrived.
# NVRTC declares the functions with other types, hence the prefix.
_GRID_BARRIER = """
static __device__ unsigned int arrived = 0;
extern "C" __device__ unsigned long long own_cudaCGGetIntrinsicHandle(unsigned int scope) { return 1; }
extern "C" __device__ unsigned int own_cudaCGSynchronize(unsigned long long handle, unsigned int flags) {
    __syncthreads();
    if (threadIdx.x + threadIdx.y + threadIdx.z == 0) {
        unsigned int blocks = gridDim.x * gridDim.y * gridDim.z;
        bool first = blockIdx.x + blockIdx.y + blockIdx.z == 0;
        __threadfence();
        unsigned int before = atomicAdd(&arrived, first ? 0x80000000u - (blocks - 1) : 1u);
        while (((before ^ *(volatile unsigned int*)&arrived) & 0x80000000u) == 0) __nanosleep(20);
        __threadfence();
    }
    __syncthreads();
    return 0;
}
"""
_HEADER = re.compile(r"^[ \t]*\.(version|target|address_size)\b[^\n]*$", re.M)
_LINES = re.compile(r"^[ \t]*\.(loc|file)\b[^\n]*$", re.M)
_SECTION = re.compile(r"^[ \t]*\.section\b[^{]*\{[^}]*\}", re.M)
_EXTERN = re.compile(r"^[ \t]*\.extern\s+\.func\s+(?:\([^)]*\)\s*)?([\w$%.]+)[^;{]*;", re.M)
_DEFINED = re.compile(r"^[ \t]*(?:\.visible\s+|\.weak\s+)*\.func\s+(?:\([^)]*\)\s*)?([\w$%.]+)[^;{]*\{", re.M)


def linked_ptx(library: Any) -> str:
    """Return the PTX of a code library of numba-cuda with everything that it links, as one module.

    Raises
    ------
    UnsupportedLaunchError
        If it links machine code.
    """
    cc = library._ensure_cc(None)
    linked = [_ptx_of(file, cc) for file in sorted(library._linking_files, key=str)]
    if library.needs_cudadevrt:
        linked.append(_compiled(_GRID_BARRIER, "grid_barrier.cu", cc).replace("own_cudaCG", "cudaCG"))
    # In debug mode device functions are modules of their own.
    own, *functions = library.get_asm_strs(cc)
    return joined(own, [*functions, *linked])


def joined(own: str, others: list[str]) -> str:
    """Return one PTX module of several: the header and the line information are those of ``own``."""
    if not others:
        return own
    bodies = [_SECTION.sub("", _LINES.sub("", _HEADER.sub("", text))) for text in others]
    defined = {name for text in (own, *bodies) for name in _DEFINED.findall(text)}

    def without_declaration(match: re.Match[str]) -> str:
        # The lines stay, empty: line numbers of the PTX do not change.
        return "\n" * match.group().count("\n") if match.group(1) in defined else match.group()

    return "\n".join(_EXTERN.sub(without_declaration, text) for text in _before_sections(own, bodies))


def _before_sections(own: str, bodies: list[str]) -> list[str]:
    # Debug sections end a module: code comes before them.
    first = _SECTION.search(own)
    if first is None:
        return [own, *bodies]
    return [own[: first.start()], *bodies, own[first.start() :]]


def _ptx_of(linked: Any, cc: Any) -> str:
    """Return the PTX of a file or of code in memory that a kernel links."""
    if isinstance(linked, LinkableCode):
        kind, name, data = linked.kind, linked.name, linked.data
    else:
        kind, name = Path(linked).suffix.lstrip("."), Path(linked).name
        data = cached_file_read(linked, how="rb")
    if kind == "cu":
        return _compiled(_text(data), name, cc)
    if kind in ("ptx", FILE_EXTENSION_MAP["ptx"]):
        return _text(data)
    raise UnsupportedLaunchError(f"{name} is machine code, which the emulator does not run; link its CUDA C++ or PTX")


def _compiled(source: str, name: str, cc: Any) -> str:
    """Return the PTX of CUDA C++, with numba-cuda's options."""
    compiled, _ = nvrtc.compile(source, name, cc)
    return _text(compiled.code)


class NvrtcProgram:
    """Stands for cuda.core's ``Program``, which asks the driver whether it could load the PTX."""

    def __init__(self, source: str, language: str, options: Any) -> None:
        self._source, self._options = source, options

    def compile(self, target: str, logs: Any = None) -> Any:
        """Return an object whose ``code`` is the PTX or LTO-IR.

        Raises
        ------
        RuntimeError
            If NVRTC rejects the source; the message is its log.
        """
        name = str(self._options.name).encode()
        program = _checked(binding.nvrtcCreateProgram(self._source.encode(), name, 0, [], []))
        options = self._options.as_bytes("nvrtc")
        result = binding.nvrtcCompileProgram(program, len(options), options)[0]
        log = bytes(_checked(binding.nvrtcGetProgramLogSize(program)))
        _checked(binding.nvrtcGetProgramLog(program, log))
        text = log.strip(b"\x00").decode(errors="replace")
        if result != binding.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(text)
        if logs is not None and text:
            logs.write(text)
        size, get = (
            (binding.nvrtcGetPTXSize, binding.nvrtcGetPTX)
            if target == "ptx"
            else (binding.nvrtcGetLTOIRSize, binding.nvrtcGetLTOIR)
        )
        code = bytes(_checked(size(program)))
        _checked(get(program, code))
        binding.nvrtcDestroyProgram(program)
        return SimpleNamespace(code=code, name=str(self._options.name))


def _checked(returned: tuple[Any, ...]) -> Any:
    if returned[0] != binding.nvrtcResult.NVRTC_SUCCESS:
        raise RuntimeError(returned[0].name)
    return returned[1] if len(returned) > 1 else None


def _text(data: str | bytes) -> str:
    return (data.decode() if isinstance(data, bytes) else data).strip("\x00")
