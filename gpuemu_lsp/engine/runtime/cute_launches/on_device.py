"""What is replaced in CuTe DSL in the process of a program, once it has imported the compiler."""

from __future__ import annotations

import glob
import re
import tempfile
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from gpuemu_lsp.engine.runtime.cute_launches.ptx_text import with_columns_from_one

_PIPELINE = "cute-to-nvvm{"
_BINARY = re.compile(r"kernels\w*_binary")
"""Names of the constants that hold what is loaded."""


def use_ptx(compiler: ModuleType) -> None:
    """Let ``Compiler`` of ``cutlass.base_dsl.compiler`` put PTX where it puts machine code into compiled modules."""
    # Without it, as in another version, our runtime says that it has no use for machine code.
    if hasattr(compiler, "Compiler"):
        compiler.Compiler.compile = _with_ptx(compiler.Compiler.compile)


def name_kernels(dsl: ModuleType) -> None:
    """Let ``BaseDSL`` of ``cutlass.base_dsl.dsl`` name a kernel as C++ does, from which its function's name is known.

    By default it is one word of the function's name and all arguments.
    """
    named = getattr(dsl.BaseDSL, "_customize_generated_name", None)
    if named is None:
        return

    @wraps(named)
    def as_in_cpp(owner: Any, default: str, options: Any, unique_suffix: int | None = None) -> str:
        name: str = named(owner, default, options, unique_suffix)
        function = getattr(owner.funcBody, "__name__", "")
        is_kernel = unique_suffix is not None and function.isidentifier() and function in name
        return f"_Z{len(function)}{function}{name}" if is_kernel else name

    dsl.BaseDSL._customize_generated_name = as_in_cpp


def _with_ptx(compile_module: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(compile_module)
    def compiled(compiler: Any, module: Any, pipeline: str, *args: Any, **options: Any) -> Any:
        if _PIPELINE not in pipeline:
            return compile_module(compiler, module, pipeline, *args, **options)
        with tempfile.TemporaryDirectory(prefix="gpuemu-cute-") as folder:
            prefix = _kept(pipeline, "ptx")
            if prefix is None:
                prefix = Path(folder, "kernels")
                pipeline = pipeline.replace(_PIPELINE, f"{_PIPELINE}dump-ptx-path='{prefix}' ")
            result = compile_module(compiler, module, pipeline, *args, **options)
            files = _written(prefix, "ptx")
            if files:
                ptx = with_columns_from_one(files[-1].read_text())
                _replace(result if result is not None else module, ptx)
                machine_code = _kept(pipeline, "cubin")
                # The program may load it by itself.
                for file in _written(machine_code, "cubin")[-1:] if machine_code is not None else ():
                    file.write_text(ptx)
            return result

    return compiled


def _kept(pipeline: str, kind: str) -> Path | None:
    """Return the file, without its suffixes, in which the compiler keeps PTX or machine code; None if it keeps none."""
    option = re.search(rf"dump-{kind}-path='([^']*)'", pipeline)
    return Path(option[1]) if option else None


def _written(prefix: Path, suffix: str) -> list[Path]:
    """Return the files that were written with a suffix and an architecture behind a name, the newest last."""
    files = prefix.parent.glob(f"{glob.escape(prefix.name)}.*.{suffix}")
    return sorted(files, key=lambda path: path.stat().st_mtime_ns)


def _replace(module: Any, ptx: str) -> None:
    """Put PTX into the constants of a compiled module that hold machine code."""
    from cutlass._mlir import ir

    text = ptx.encode() + b"\0"
    with module.context, ir.Location.unknown():
        for operation in module.body.operations:
            attributes = operation.operation.attributes
            if operation.operation.name != "llvm.mlir.global" or not _BINARY.fullmatch(attributes["sym_name"].value):
                continue
            attributes["value"] = ir.StringAttr.get(text)
            attributes["global_type"] = ir.TypeAttr.get(ir.Type.parse(f"!llvm.array<{len(text)} x i8>"))
