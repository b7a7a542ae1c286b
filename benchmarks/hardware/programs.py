"""Random programs of the other benchmarks, run by the emulator: in CUDA C++, and as PTX instructions."""

from __future__ import annotations

from benchmarks.cuda_programs.execution import InvalidProgramError, compare, compiled
from benchmarks.cuda_programs.execution import host_results as expected_results
from benchmarks.cuda_programs.programs import random_program
from benchmarks.fresh import nothing_cached
from benchmarks.fuzz_emulator import run_kernel
from benchmarks.hardware.recorder import Recorder
from gpuemu_lsp.engine.emulator import Emulator

_BATCH = 25


def run_programs(first: int, count: int, kernels: int, recorder: Recorder) -> None:
    """Run ``count`` programs from optimised and unoptimised PTX, and ``kernels`` kernels of random instructions.

    Results that differ from those of g++ or of direct evaluation raise an error, as in the benchmarks.
    """
    with nothing_cached():
        emulator = Emulator()
        for seed in range(first, first + kernels):
            recorder.source = f"kernel{seed}"
            run_kernel(emulator, seed)
        for start in range(first, first + count, _BATCH):
            programs = [random_program(seed) for seed in range(start, min(start + _BATCH, first + count))]
            try:
                expected = expected_results(programs)
                artifacts = [compiled(programs, optimised=optimised) for optimised in (True, False)]
            except InvalidProgramError as error:
                print(f"programs {start} to {start + len(programs) - 1}: {error}")
                continue
            for artifact in artifacts:
                emulator = Emulator()
                for program, words in zip(programs, expected, strict=True):
                    recorder.source = f"program{program.seed}"
                    compare(program, artifact, emulator, words)
