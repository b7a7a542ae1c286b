"""``gpuemu judge``: answers to benchmarks of PyTorch kernels."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpuemu_lsp.cli.process_boundary import ended_as_by_an_interrupt
from gpuemu_lsp.engine.extensions import MissingExtensionError, extension
from gpuemu_lsp.engine.report.exit_codes import EXIT_USAGE


def judge(answers: Sequence[Path], references: Sequence[Path], form: str, output: Path | None, **options: Any) -> int:
    """Judge the answers below paths and write the report; return the exit code.

    ``options`` are those of what the package ``gpuemu`` adds: ``jobs``, ``seconds``, ``only``, ``resume``, ``dask``.
    """

    def progress(line: str) -> None:
        print(f"gpuemu: {line}", file=sys.stderr, flush=True)

    try:
        with ended_as_by_an_interrupt():
            judged = extension("judge-answers")(answers, references, form, progress, **options)
    except MissingExtensionError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return EXIT_USAGE
    if judged.problem:
        print(f"gpuemu: {judged.problem}", file=sys.stderr)
    elif output is not None:
        output.write_text(judged.text, encoding="utf-8")
    else:
        print(judged.text, end="")
    code: int = judged.exit_code
    return code
