"""What is replaced in TileLang in the process of a program, once it has imported the modules."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from gpuemu_lsp.engine.runtime.tilelang_launches import written_code

_marked: dict[str, str] = {}
"""Code with the lines of Python, by code."""


def compile_to_ptx(nvcc: Any) -> None:
    """Let ``tilelang.contrib.nvcc`` compile to PTX, with the file in which the code is kept."""
    compile_code = nvcc.compile_cuda

    @wraps(compile_code)
    def compiled(
        code: str, target_format: str = "ptx", arch: Any = None, options: Any = None, *rest: Any, **named: Any
    ) -> Any:
        def compile_now() -> bytes:
            return bytes(compile_code(code, "ptx", arch, options, *rest, **named))

        return bytearray(written_code.compiled(code, _marked.get(code, code), (arch, options), compile_now))

    nvcc.compile_cuda = compiled


def note_statements(builder: Any) -> None:
    """Let ``tilelang.language.eager.builder`` tell the statements of each function that a program has written."""
    get = getattr(builder.Builder, "get", None)
    if get is None:
        return

    @wraps(get)
    def noted(owner: Any) -> Any:
        from gpuemu_lsp.engine.runtime.tilelang_launches import statement_marks

        function = get(owner)
        statement_marks.note_statements(function)
        return function

    builder.Builder.get = noted


def mark_lines(codegen: Any) -> None:
    """Let ``tilelang.cuda.codegen`` tell which line of Python a line of the code is from."""
    build, write = codegen.build_cuda, codegen.build_cuda_without_compile

    @wraps(build)
    def built(module: Any, target: Any, *rest: Any) -> Any:
        _note_lines(write, module, target)
        return build(module, target, *rest)

    codegen.build_cuda = built


def _note_lines(write: Callable[..., Any], module: Any, target: Any) -> None:
    from gpuemu_lsp.engine.runtime.tilelang_launches.statement_marks import with_marks

    try:
        marked, files = with_marks(module)
        text = write(marked, target).inspect_source()
    except (AttributeError, RuntimeError, TypeError, ValueError):
        # Of another version, or of code that a call cannot be in: its findings are on lines of the code.
        return
    code, with_places = written_code.with_places(text, files)
    _marked[code] = with_places
