"""Launches in the emulator: CUDA C++ compiled with NVRTC, or PTX text as it is."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from cupy.cuda import nvrtc

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Buffer, Checks, Outcome, Request, Scalar

EMULATOR = Emulator()


@cache
def compile_ptx(source: str, *options: str) -> str:
    program = nvrtc.createProgram(source, "test.cu", (), ())
    try:
        nvrtc.compileProgram(
            program, ("--gpu-architecture=compute_80", *(options if "-G" in options else ("-lineinfo", *options)))
        )
    except nvrtc.NVRTCError as error:
        raise AssertionError(nvrtc.getProgramLog(program)) from error
    text: bytes = nvrtc.getPTX(program)
    return text.rstrip(b"\0").decode()


def ptx_kernel(parameters: str, body: str, directives: str = "") -> str:
    """Return kernel ``k`` written in PTX. Parameters are pointers (``x y``) unless they have a type (``n:u32``)."""
    typed = [one.partition(":") for one in parameters.split()]
    declared = ", ".join(f".param .{type_ or 'u64'} {name}" for name, _, type_ in typed)
    head = f".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k({declared}) {directives}"
    return f"{head}\n{{\n{body}\n}}\n"


def artifact(ptx: str) -> Artifact:
    return Artifact("test.cu", "sm_80", ptx, b"", {}, {}, "")


def out(array: np.ndarray) -> dict[str, Any]:
    """Mark an output whose content is not initialised."""
    return {"array": array, "initialized": False}


def launch(
    source: str,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    *arguments: Any,
    shared: int = 0,
    entry: str = "k",
    options: tuple[str, ...] = (),
    **more: Any,
) -> Outcome:
    """Run kernel ``k``. Arrays become buffers ``a0``, ``a1``, ...; NumPy scalars become scalars."""
    ptx = source if source.lstrip().startswith((".version", "//")) else compile_ptx(source, *options)
    given = []
    for index, argument in enumerate(arguments):
        name = f"a{index}"
        if isinstance(argument, dict):
            given.append(Buffer(name, _bytes(argument["array"]), initialized=False))
        elif isinstance(argument, np.ndarray):
            given.append(Buffer(name, _bytes(argument), element_size=argument.itemsize))
        else:
            given.append(Scalar(name, argument.tobytes()))
    request = Request(artifact(ptx), entry, _dim(grid), _dim(block), shared, tuple(given), **more)
    return EMULATOR.run(request)


def result(outcome: Outcome, index: int, dtype: Any) -> np.ndarray:
    assert outcome.status == "completed", (outcome.status, outcome.events)
    return outcome.buffers[f"a{index}"].view(dtype)


def rules(outcome: Outcome) -> list[str]:
    return sorted({event.rule for event in outcome.events})


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), dtype=np.uint8)


def _dim(value: int | tuple[int, ...]) -> tuple[int, int, int]:
    values = (value,) if isinstance(value, int) else value
    return (*values, *(1,) * (3 - len(values)))  # type: ignore[return-value]


__all__ = ["EMULATOR", "Checks", "artifact", "compile_ptx", "launch", "out", "ptx_kernel", "result", "rules"]
