"""PTX of a numba-cuda kernel and of all that it links.

numba-cuda links with nvJitLink to a cubin. Here the modules are PTX: the kernel and its device functions are one, as
libNVVM makes it; CUDA C++ is compiled by NVRTC, as numba-cuda does; PTX files are taken as they are. Their texts are
then joined. Objects, archives and cubins hold machine code, which the emulator does not run.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from numba.cuda.cudadrv import nvrtc, nvvm
from numba.cuda.cudadrv.linkable_code import LinkableCode
from numba.cuda.cudadrv.mappings import FILE_EXTENSION_MAP
from numba.cuda.utils import cached_file_read

from gpuemu.numba.arguments import UnsupportedLaunchError

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
    arch = nvrtc.get_arch_option(*cc)
    # With `g`, numba-cuda compiles device functions to modules of their own; line information does not depend on it.
    options = {name: value for name, value in library._nvvm_options.items() if name != "g"}
    own = nvvm.compile_ir(library.llvm_strs, **options, arch=arch).decode().strip("\x00").strip()
    return joined(own, [_ptx_of(linked, cc) for linked in sorted(library._linking_files, key=str)])


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
        compiled, _ = nvrtc.compile(data, name, cc)
        return _text(compiled.code)
    if kind in ("ptx", FILE_EXTENSION_MAP["ptx"]):
        return _text(data)
    raise UnsupportedLaunchError(f"{name} is machine code, which the emulator does not run; link its CUDA C++ or PTX")


def _text(data: str | bytes) -> str:
    return (data.decode() if isinstance(data, bytes) else data).strip("\x00")
