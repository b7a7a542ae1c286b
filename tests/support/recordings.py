"""Recordings made from arrays, as a run of a program would have written them: no nvcc is needed."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.recordings.model import (
    LaunchGroup,
    RecordedAllocation,
    RecordedKernel,
    RecordedLaunch,
    RecordedParameter,
    RecordedPointer,
    Recording,
    Site,
)
from gpuemu_lsp.engine.recordings.project_files import recording_path
from gpuemu_lsp.engine.recordings.reader import contents_digest
from gpuemu_lsp.engine.recordings.writer import RecordingWriter
from gpuemu_lsp.engine.runtime.launches.kernels import loaded_kernel

Value = np.ndarray | int | float | bytes | None


@dataclass(frozen=True)
class MadeLaunch:
    """A launch: arrays for pointers, which are outputs without values if ``out`` names them, and numbers.

    ``after`` has arrays by number of the parameter, where the launch has changed them.
    """

    arguments: Sequence[Value]
    grid: int
    block: int
    out: frozenset[int] = frozenset()
    after: Mapping[int, np.ndarray] = field(default_factory=dict)
    line: int = 1
    shared: int = 0


def record(
    source: Path,
    expression: str,
    launches: Sequence[MadeLaunch],
    root: Path | None = None,
    module: Path | None = None,
) -> Path:
    """Write a recording of one kernel of ``source``; ``expression`` is its name expression. Returns the file.

    ``module`` is the file of Python that has the source in a string.
    """
    compiled = compile_source(CompileRequest(str(source), source.read_text(), expressions=(expression,)))
    assert compiled.artifact is not None, compiled.findings
    symbol = compiled.artifact.entries[expression]
    kernel = loaded_kernel(parse(compiled.artifact.ptx), symbol)
    assert kernel is not None
    source = module or source
    path = recording_path(root or source.parent, source.stem)
    with RecordingWriter(path) as writer:
        parameters = tuple(RecordedParameter(one.name, one.offset, one.size) for one in kernel.parameters)
        made = tuple(_launch(one, parameters, str(source), writer) for one in launches)
        site = Site(str(source), 1)
        writer.finish(
            Recording(
                path=str(path),
                program=source.stem,
                created=1.0,
                kernels=(
                    RecordedKernel(
                        symbol, demangled_name(symbol), str(source), contents_digest(source.read_bytes()), parameters
                    ),
                ),
                groups=(LaunchGroup(0, site, made[0].grid, made[0].block, 0, len(made), len(made), 0, 0, 0.25),),
                launches=made,
            )
        )
    return path


def _launch(
    launch: MadeLaunch, parameters: Sequence[RecordedParameter], source: str, writer: RecordingWriter
) -> RecordedLaunch:
    block = bytearray(parameters[-1].offset + parameters[-1].size if parameters else 0)
    allocations: list[RecordedAllocation] = []
    pointers: list[RecordedPointer] = []
    for number, (value, parameter) in enumerate(zip(launch.arguments, parameters, strict=True)):
        if isinstance(value, np.ndarray):
            pointers.append(RecordedPointer(parameter.offset, len(allocations), 0))
            after = launch.after.get(number)
            allocations.append(
                RecordedAllocation(
                    address=0x5E3D_0100_0000 + 0x10_0000 * len(allocations),
                    size=value.nbytes,
                    site=Site(source, 1),
                    variable=None,
                    before=None if number in launch.out else writer.contents(value.tobytes()),
                    initialised=None,
                    after=None if after is None else writer.contents(after.tobytes()),
                    addresses=False,
                )
            )
        elif isinstance(value, bytes):
            block[parameter.offset : parameter.offset + parameter.size] = value
        elif value is not None:
            code = (
                {4: "<f", 8: "<d"}[parameter.size] if isinstance(value, float) else {4: "<i", 8: "<q"}[parameter.size]
            )
            block[parameter.offset : parameter.offset + parameter.size] = struct.pack(code, value)
    return RecordedLaunch(
        digest=contents_digest(repr(launch).encode()),
        kernel=0,
        site=Site(source, launch.line),
        grid=(launch.grid, 1, 1),
        block=(launch.block, 1, 1),
        shared_bytes=launch.shared,
        parameters=bytes(block),
        pointers=tuple(pointers),
        allocations=tuple(allocations),
        clean=True,
    )
