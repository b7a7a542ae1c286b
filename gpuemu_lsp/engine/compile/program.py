"""One NVRTC program: text and options in; log, PTX, cubin and mangled names out.

This is the only module that calls the compiler. CuPy's own ``compile_using_nvrtc`` is not used: it caches on disk and
hides the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from gpuemu_lsp.engine.compile.toolchain import nvrtc


@dataclass(frozen=True, slots=True)
class NvrtcOutput:
    """What one NVRTC call gave. ``log`` comes either way; ``ptx`` is empty when the compilation failed."""

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
    """Compile ``text``, known to the compiler as ``name``.

    ``expressions`` are C++ name expressions; each gets its mangled name in ``Product.lowered``. ``headers`` are
    in-memory headers by the name an ``#include`` writes. For a virtual architecture (``compute_80``) there is no cubin.

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
            binding.addNameExpression(program, expression)
        try:
            binding.compileProgram(program, tuple(options))
        except binding.NVRTCError as error:
            return NvrtcOutput(False, _log(binding, program) or str(error))
        return NvrtcOutput(
            True,
            _log(binding, program),
            _text(binding.getPTX(program)),
            _cubin(binding, program, options),
            {expression: binding.getLoweredName(program, expression) for expression in expressions},
        )
    finally:
        binding.destroyProgram(program)


def _clean(text: str) -> str:
    """Replace what cannot be handed over as a C string, byte by byte, so that columns stay."""
    return text.replace("\0", " ").encode(errors="replace").decode()


def _log(binding: ModuleType, program: int) -> str:
    try:
        return str(binding.getProgramLog(program)).replace("\0", "\n")  # ptxas ends its part with a NUL
    except UnicodeDecodeError as error:  # NVRTC may cut a line inside a character
        return error.object.decode(errors="replace").replace("\0", "\n")


def _cubin(binding: ModuleType, program: int, options: Sequence[str]) -> bytes:
    if any(option.startswith("--gpu-architecture=compute_") for option in options):
        return b""
    # CuPy drops the last byte as if it were a string's end; an ELF file needs it.
    return bytes(binding.getCUBIN(program)) + b"\0"


def _text(ptx: str | bytes) -> str:
    """CuPy before 14 returns text, later ones bytes, with or without the final NUL."""
    return (ptx.decode() if isinstance(ptx, bytes) else ptx).rstrip("\0")
