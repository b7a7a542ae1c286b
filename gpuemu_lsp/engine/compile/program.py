"""One NVRTC program: log, PTX, cubin and mangled names of a text.

The only module that calls NVRTC. CuPy's ``compile_using_nvrtc`` has a disk cache of its own and discards the log of a
successful compilation, so the low-level binding is used.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from gpuemu_lsp.engine.compile.toolchain import nvrtc
from gpuemu_lsp.engine.kernel_names import name_expression

_LONGEST_TMPDIR = 110
"""Characters. With a ``TMPDIR`` of more than about 120, NVRTC 12.9 writes no precompiled header and reports nothing,
and a compilation that uses one ends with "Compilation terminated"."""


@dataclass(frozen=True, slots=True)
class NvrtcOutput:
    """Output of one NVRTC call; ``ptx`` and ``cubin`` are empty if it failed."""

    succeeded: bool
    log: str
    ptx: str = ""
    cubin: bytes = b""
    lowered: Mapping[str, str] = field(default_factory=dict)


def build(
    text: str,
    name: str,
    options: Sequence[str],
    expressions: Sequence[str] = (),
    headers: Mapping[str, str] | None = None,
) -> NvrtcOutput:
    """Compile ``text`` under the file name ``name``.

    ``expressions`` name kernels as entries do; their mangled names are in :attr:`NvrtcOutput.lowered`. ``headers`` are
    in-memory headers by include target. For a virtual architecture (``compute_80``) the cubin is empty.

    Raises
    ------
    ToolchainError
        If NVRTC cannot be loaded.
    """
    binding = nvrtc()
    names = tuple(headers or ())
    program = binding.createProgram(
        _clean(text),
        name,
        tuple((headers or {})[item].encode() for item in names),
        tuple(item.encode() for item in names),
    )
    try:
        for expression in expressions:
            binding.addNameExpression(program, name_expression(expression))
        try:
            with _short_temporary_directory():
                binding.compileProgram(program, tuple(options))
        except binding.NVRTCError as error:
            return NvrtcOutput(False, _log(binding, program) or str(error))
        return NvrtcOutput(
            True,
            _log(binding, program),
            _text(binding.getPTX(program)),
            _cubin(binding, program, options),
            {expression: binding.getLoweredName(program, name_expression(expression)) for expression in expressions},
        )
    finally:
        binding.destroyProgram(program)


@contextlib.contextmanager
def _short_temporary_directory() -> Iterator[None]:
    """Let NVRTC put its temporary files in ``/tmp`` if the path of the configured directory is too long for it."""
    configured = os.environ.get("TMPDIR", "")
    if len(configured) <= _LONGEST_TMPDIR:
        yield
        return
    os.environ["TMPDIR"] = "/tmp"
    try:
        yield
    finally:
        os.environ["TMPDIR"] = configured


def _clean(text: str) -> str:
    """Replace characters that a C string in UTF-8 cannot contain by single bytes, so that columns stay."""
    return text.replace("\0", " ").encode(errors="replace").decode()


def _log(binding: ModuleType, program: int) -> str:
    try:
        return str(binding.getProgramLog(program)).replace("\0", "\n")  # NUL ends the part of ptxas
    except UnicodeDecodeError as error:  # NVRTC may truncate a line inside a character
        return error.object.decode(errors="replace").replace("\0", "\n")


def _cubin(binding: ModuleType, program: int, options: Sequence[str]) -> bytes:
    if any(option.startswith("--gpu-architecture=compute_") for option in options):
        return b""
    # CuPy drops the last byte, assuming the terminator of a string; the size of an ELF file includes it.
    return bytes(binding.getCUBIN(program)) + b"\0"


def _text(ptx: str | bytes) -> str:
    """Decode PTX, which CuPy returns as text before version 14 and as bytes since, with or without a final NUL."""
    return (ptx.decode() if isinstance(ptx, bytes) else ptx).rstrip("\0")
