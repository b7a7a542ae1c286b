"""Compilation of a Triton kernel to an artifact of the engine, without a GPU and without arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import triton
from triton.compiler import ASTSource

from gpuemu.launches import DEFAULT_ARCH
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.compile.triton_backend import restore_backend, target_of, use_ptx_backend, with_fixed_locations


def compile(
    fn: Any,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Any] | None = None,
    arch: str = DEFAULT_ARCH,
    num_warps: int = 4,
    num_stages: int = 3,
) -> Artifact:
    """Compile a kernel with ``@triton.jit``.

    Parameters
    ----------
    fn
        The kernel; decorators such as an autotuner are left out.
    signature
        Triton's type of each parameter that is passed, by name: ``*fp32`` for a pointer, ``i32``.
    constexprs
        Values of the ``tl.constexpr`` parameters by name, and of others that are compiled in.
    arch
        The architecture, such as ``sm_80``.
    num_warps, num_stages
        Options of the compiler.

    Raises
    ------
    triton.CompilationError
        If it does not compile.
    """
    while not isinstance(fn, triton.JITFunction):
        fn = fn.fn
    values = dict(constexprs or {})
    types = {name: "constexpr" if name in values else signature[name] for name in fn.arg_names}
    source = ASTSource(fn, types, values)
    previous = use_ptx_backend()
    try:
        options = {"num_warps": num_warps, "num_stages": num_stages}
        compiled = triton.compile(source, target=target_of(arch), options=options)
    finally:
        restore_backend(previous)
    ptx, name = compiled.asm["ptx"], compiled.metadata.name
    text = with_fixed_locations(ptx.decode() if isinstance(ptx, bytes) else ptx)
    return Artifact(fn.fn.__code__.co_filename, arch, text, b"", {name: name}, {}, f"triton {triton.__version__}")
