"""Results of ops that only a program can run, sent to the project: its checks report them."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuemu.ops.judgement import Judged
from gpuemu.ops.project_ops import KERNEL
from gpuemu.verifier.values import Array
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.subjects.ops.client_verdicts import ClientDtype, ClientFailure, send
from gpuemu_lsp.engine.subjects.ops.preparation import library_of


@dataclass(slots=True)
class SentResults:
    """The results of one op so far; ``seed`` identifies its cases."""

    spec: KernelSpec
    seed: int
    program: str | None = None
    library: tuple[str, str] | None = None
    cases: dict[str, list[Judged]] = field(default_factory=dict)
    failure: ClientFailure | None = None

    @classmethod
    def of(cls, spec: KernelSpec, seed: int, function: object = None) -> SentResults | None:
        """Return empty results of an op, None if the project can run it itself, or it is a kernel."""
        if spec.op is None or spec.op.runnable or spec.op.execution_mode == KERNEL:
            return None
        return cls(spec, seed, _file_of(function), library_of(spec.op))

    def add(self, inputs: Mapping[str, Array], judged: Judged, case: int) -> None:
        """Count a case; ``case`` is its id in the store if it failed."""
        dtype = next((array.dtype.name for array in inputs.values()), "float32")
        self.cases.setdefault(dtype, []).append(judged)
        if not judged.passed and self.failure is None:
            self.failure = ClientFailure(judged.rule, str(judged.failures[0]["message"]), dtype, str(case))

    def send(self) -> None:
        """Write the results. A folder that cannot be written does not fail the program."""
        dtypes = [
            ClientDtype(
                dtype,
                len(found),
                sum(one.passed for one in found),
                max(one.max_diff for one in found),
                tuple(one.relative for one in found if one.compared),
            )
            for dtype, found in self.cases.items()
        ]
        with contextlib.suppress(OSError):
            send(self.spec, str(self.seed), dtypes, self.failure, self.program, self.library)


def _file_of(function: object) -> str | None:
    """Return the file of a function, None if it is not of a file."""
    code: Any = getattr(inspect.unwrap(function), "__code__", None) if callable(function) else None
    path = None if code is None else Path(code.co_filename)
    return str(path.resolve()) if path is not None and path.is_file() else None
