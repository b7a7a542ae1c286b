"""A fixed sample of the random CUDA C++ programs of benchmarks/differential.py, against g++."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import differential
from benchmarks.cuda_programs import execution
from benchmarks.cuda_programs.programs import random_program
from benchmarks.cuda_programs.statements import Text

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
ROOT = Path(__file__).parents[3]
SAMPLE = [random_program(seed) for seed in range(5)]


def test_random_programs_agree_with_the_host_compiler() -> None:
    assert not execution.differences(SAMPLE, every=5)


def test_random_programs_have_defined_behaviour() -> None:
    command = [sys.executable, "-m", "benchmarks.differential", "--sanitize", "--programs", "10"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_undefined_behaviour_ends_the_process() -> None:
    overflow = 'Text("int most = 2147483647;\\nmost += (int)(in[0] | 1u) & 1;\\nout[0] = (unsigned)most;")'
    code = f"""from dataclasses import replace
from benchmarks.cuda_programs import execution
from benchmarks.cuda_programs.programs import Text, random_program
program = random_program(0)
execution.host_results([replace(program, body=(program.body[0], {overflow}))], execution.SANITIZERS)"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode and "signed integer overflow" in done.stderr


def test_a_wrong_result_is_detected_and_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    # g++ does not define __CUDACC__, so that the two sides store different values.
    wrong = Text("#ifdef __CUDACC__\nout[7] = 1;\n#else\nout[7] = 2;\n#endif")
    program = replace(SAMPLE[1], declarations=(), body=(SAMPLE[1].body[0], wrong))
    monkeypatch.setattr(differential, "random_program", lambda seed: program)
    small, variant, how = differential.shrink(1)
    assert how.startswith("thread 0, result 7: 0x1 instead of 0x2") and variant == next(iter(execution.VARIANTS))
    assert small.body == (wrong,) and not small.declarations
