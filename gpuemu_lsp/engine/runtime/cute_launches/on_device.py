"""What is replaced in CuTe DSL in the process of a program, once it has imported the compiler."""

from __future__ import annotations

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


def install(compiler: ModuleType) -> None:
    """Let ``Compiler`` of ``cutlass.base_dsl.compiler`` put PTX where it puts machine code into compiled modules."""
    compiler.Compiler.compile = _with_ptx(compiler.Compiler.compile)


def _with_ptx(compile_module: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(compile_module)
    def compiled(compiler: Any, module: Any, pipeline: str, *args: Any, **options: Any) -> Any:
        if _PIPELINE not in pipeline:
            return compile_module(compiler, module, pipeline, *args, **options)
        with tempfile.TemporaryDirectory(prefix="gpuemu-cute-") as folder:
            kept = re.search(r"dump-ptx-path='([^']*)'", pipeline)
            prefix = Path(kept[1]) if kept else Path(folder, "kernels")
            if not kept:
                pipeline = pipeline.replace(_PIPELINE, f"{_PIPELINE}dump-ptx-path='{prefix}' ")
            result = compile_module(compiler, module, pipeline, *args, **options)
            files = sorted(prefix.parent.glob(f"{prefix.name}.*.ptx"), key=lambda path: path.stat().st_mtime_ns)
            if files:
                _replace(result if result is not None else module, with_columns_from_one(files[-1].read_text()))
            return result

    return compiled


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
