"""One NVRTC program: text and options in; log, PTX, cubin and mangled names out.

This is the only module that calls the compiler. CuPy's own ``compile_using_nvrtc`` is not used: it caches on disk and
hides the log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuemu_lsp.engine.compile.toolchain import nvrtc


@dataclass(frozen=True, slots=True)
class Product:
    """What one NVRTC call gave. ``log`` comes either way; ``ptx`` is empty when the compilation failed."""

    succeeded: bool
    log: str
    ptx: str = ""
    cubin: bytes = b""
    lowered: Mapping[str, str] = field(default_factory=dict)


def build(text: str, name: str, options: Sequence[str], expressions: Sequence[str] = ()) -> Product:
    """Compile ``text``, known to the compiler as ``name``.

    ``expressions`` are C++ name expressions; each gets its mangled name in ``Product.lowered``.

    Raises
    ------
    ToolchainError
        If NVRTC cannot be loaded.
    """
    binding = nvrtc()
    program = binding.createProgram(text, name, (), ())
    try:
        for expression in expressions:
            binding.addNameExpression(program, expression)
        try:
            binding.compileProgram(program, tuple(options))
        except binding.NVRTCError as error:
            return Product(False, binding.getProgramLog(program) or str(error))
        return Product(
            True,
            binding.getProgramLog(program),
            _text(binding.getPTX(program)),
            # CuPy drops the last byte as if it were a string's end; an ELF file needs it.
            binding.getCUBIN(program) + b"\0",
            {expression: binding.getLoweredName(program, expression) for expression in expressions},
        )
    finally:
        binding.destroyProgram(program)


def _text(ptx: str | bytes) -> str:
    """CuPy before 14 returns text, later ones bytes, with or without the final NUL."""
    return (ptx.decode() if isinstance(ptx, bytes) else ptx).rstrip("\0")
