"""Execution of programs by g++ on the host, and in the emulator from optimised and unoptimised PTX in both tiers."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks.cuda_programs.programs import MOST_RESULTS, SUMS, CudaProgram, device_file, host_file
from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import Artifact, CompileRequest
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Buffer, Request
from gpuemu_lsp.engine.source import device_views

HERE = Path(__file__).parent
HOST_OPTIONS = ("-std=c++17", "-O0", "-ffp-contract=off", "-frounding-math", "-w", "-shared", "-fPIC", f"-I{HERE}")
DEVICE_OPTIONS = ("-fmad=false",)
SANITIZERS = ("-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all", "-static-libubsan")

VARIANTS: Mapping[str, tuple[bool, bool]] = {
    "optimised PTX, baseline": (True, False),
    "optimised PTX, optimised": (True, True),
    "unoptimised PTX, baseline": (False, False),
    "unoptimised PTX, optimised": (False, True),
}
"""Whether the PTX is optimised, and whether the emulator's code is, by name."""

COSTLY = "unoptimised PTX, optimised"
"""The variant that takes as long to compile as the others together."""

Words = npt.NDArray[np.uint64]


class InvalidProgramError(Exception):
    """A program that one of the compilers rejects, or that does not end on the host."""


class DifferenceError(Exception):
    """A result of the emulator that differs from the host's, or a finding on a program without bugs."""


def host_results(programs: Sequence[CudaProgram], options: Sequence[str] = ()) -> list[Words]:
    """Compile programs in one file with g++, and return what each stores: results of each thread, then the sums.

    Raises
    ------
    InvalidProgramError
        If g++ rejects the file, or threads of a program wait for each other for ever.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "programs.cpp"), Path(folder, "programs.so")
        source.write_text(host_file(programs))
        command = ["g++", *HOST_OPTIONS, *options, str(source), "-o", str(library)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InvalidProgramError(next((line for line in done.stderr.splitlines() if "error" in line), done.stderr))
        launch = ctypes.CDLL(str(library)).launch
        return [_host_launch(launch, index, program) for index, program in enumerate(programs)]


def _host_launch(launch: ctypes._NamedFuncPointer, index: int, program: CudaProgram) -> Words:
    inputs = np.array(program.inputs, np.uint32)
    out, sums = np.zeros(program.grid * program.block * MOST_RESULTS, np.uint64), np.zeros(SUMS, np.uint64)
    places = (ctypes.c_void_p(one.ctypes.data) for one in (inputs, out, sums))
    if not launch(index, program.grid, program.block, *places):
        raise InvalidProgramError(f"program {program.seed}: its threads wait for each other")
    return np.concatenate([out, sums])


def compiled(programs: Sequence[CudaProgram], *, optimised: bool) -> Artifact:
    """Compile the device view of a file that holds the programs, as a check does.

    Raises
    ------
    InvalidProgramError
        If NVRTC rejects it.
    """
    path = "/programs.cu"
    views = device_views(path, device_file(programs), ())
    expressions = tuple(one.name for one in programs)
    request = CompileRequest(path, views.view, expressions=expressions, options=DEVICE_OPTIONS, optimize=optimised)
    result = compile_source(request)
    if result.artifact is None:
        first = result.findings[0]
        line = views.view.splitlines()[first.place.range.start.line].strip()
        raise InvalidProgramError(f"{first.message} in `{line}`"[:400])
    return result.artifact


def compare(program: CudaProgram, artifact: Artifact, emulator: Emulator, expected: Words) -> None:
    """Run a program in the emulator.

    Raises
    ------
    DifferenceError
        If a word differs from the host's, or there is a finding.
    """
    out, sums = (
        Buffer("out", _bytes(expected.size - SUMS), element_size=8),
        Buffer("sums", _bytes(SUMS), element_size=8),
    )
    inputs = Buffer("in", np.array(program.inputs, np.uint32).view(np.uint8))
    entry = artifact.entries[program.name]
    grid, block = (program.grid, 1, 1), (program.block, 1, 1)
    outcome = emulator.run(
        Request(artifact, entry, grid, block, 0, (inputs, out, sums), max_seconds=60, translate_seconds=300)
    )
    if outcome.status != "completed" or outcome.events:
        event = outcome.events[0] if outcome.events else None
        raise DifferenceError(f"{outcome.status}: {event.rule + ': ' + event.message if event else ''}")
    found = np.concatenate([outcome.buffers[name].view(np.uint64) for name in ("out", "sums")])
    different = np.flatnonzero(found != expected)
    if different.size:
        first = int(different[0])
        thread, result = divmod(first, MOST_RESULTS)
        raise DifferenceError(f"thread {thread}, result {result}: {found[first]:#x} instead of {expected[first]:#x}")


def _bytes(words: int) -> npt.NDArray[np.uint8]:
    return np.zeros(8 * words, np.uint8)


def differences(
    programs: Sequence[CudaProgram], variants: Iterable[str] = tuple(VARIANTS), *, every: int = 1
) -> list[tuple[CudaProgram, str, str]]:
    """Return each program that differs with the variant in which it does, and how.

    The costly variant, unoptimised PTX in the optimised tier, is run for seeds that are a multiple of ``every``.

    Raises
    ------
    InvalidProgramError
        If a compiler rejects the file.
    """
    expected = host_results(programs)
    chosen = [(name, *VARIANTS[name]) for name in variants]
    artifacts = {optimised: compiled(programs, optimised=optimised) for optimised in {one[1] for one in chosen}}
    found = []
    for name, optimised_ptx, optimised_code in chosen:
        emulator = Emulator(optimised=optimised_code)
        for program, words in zip(programs, expected, strict=True):
            if name == COSTLY and program.seed % every:
                continue
            try:
                compare(program, artifacts[optimised_ptx], emulator, words)
            except DifferenceError as error:
                found.append((program, name, str(error)))
    return found
