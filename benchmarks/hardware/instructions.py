"""Kernels of one PTX instruction over arrays, for the tests that run an instruction alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from llvmlite import ir

from benchmarks.hardware.launches import store
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.execution import Buffer, Bytes, Outcome, Request, Scalar
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Operand, Pair, Register, Vector

Patterns = npt.NDArray[np.unsignedinteger]
Run = Callable[..., list[Patterns]]

_THREADS = 128
_HEAD = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k({parameters})
{{
  .reg .b32 %n, %i, %t; .reg .b64 %at, %of; .reg .pred %end;
  mov.u32 %i, %ctaid.x; mov.u32 %t, %ntid.x; mul.lo.u32 %i, %i, %t; mov.u32 %t, %tid.x; add.u32 %i, %i, %t;
  ld.param.u32 %n, [n]; setp.ge.u32 %end, %i, %n; @%end ret;
"""


def recorded_run(run: Run, parse: Callable[[str], Instruction], folder: Path) -> Run:
    """Return ``run``, which executes an instruction over arrays, so that it stores what it does."""

    def recording_run(text: str, *sources: Patterns) -> list[Patterns]:
        results = run(text, *sources)
        instruction = parse(text)
        ptx = instruction_kernel(text, instruction)
        if ptx is not None:
            _store(folder, text, ptx, instruction, sources, results)
        return results

    return recording_run


def instruction_kernel(text: str, instruction: Instruction) -> str | None:
    """Return PTX of a kernel that executes an instruction with one element per thread; None with a carry flag.

    Its parameters are the arrays of the sources that are registers, those of the results, and the number ``n``.
    """
    signature = ops.operand_types(instruction)
    if signature.reads_carry or "cc" in instruction.modifiers:
        return None
    operands = [one for operand in instruction.operands for one in _parts(operand)]
    typed = list(zip(operands, (*signature.destinations, *signature.sources), strict=True))
    results, sources = typed[: len(signature.destinations)], typed[len(signature.destinations) :]
    registers = {one.name: type_ for one, type_ in typed if isinstance(one, Register)}
    lines = [f"  .reg .{_register_type(type_)} {name};" for name, type_ in registers.items()]
    parameters = []
    for number, (operand, type_) in enumerate(sources):
        if isinstance(operand, Register):
            parameters.append(f"s{number}")
            lines += _addressed(f"s{number}", type_)
            lines += _loaded(operand.name, type_)
    lines.append(f"  {text};")
    for number, (operand, type_) in enumerate(results):
        assert isinstance(operand, Register)
        parameters.append(f"d{number}")
        lines += _addressed(f"d{number}", type_)
        lines += _stored(operand.name, type_)
    declared = ", ".join([*(f".param .u64 {name}" for name in parameters), ".param .u32 n"])
    return _HEAD.format(parameters=declared) + "\n".join(lines) + "\n  ret;\n}\n"


def _parts(operand: Operand) -> Sequence[Operand]:
    if isinstance(operand, Vector):
        return operand.elements
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand,)


def _bits(type_: str) -> int:
    kind = ops.llvm_type(type_)
    width = kind.width if isinstance(kind, ir.IntType) else {"half": 16, "float": 32, "double": 64}[str(kind)]
    return 8 if type_ == "pred" else width


def _register_type(type_: str) -> str:
    return "pred" if type_ == "pred" else f"b{max(_bits(type_), 16)}"


def _addressed(parameter: str, type_: str) -> list[str]:
    scale = f"mul.wide.u32 %of, %i, {_bits(type_) // 8};"
    return [f"  ld.param.u64 %at, [{parameter}]; {scale} add.u64 %at, %at, %of;"]


def _loaded(name: str, type_: str) -> list[str]:
    if type_ == "pred":
        return [f"  ld.global.u8 %t, [%at]; setp.ne.u32 {name}, %t, 0;"]
    return [f"  ld.global.{_memory_type(type_)} {name}, [%at];"]


def _stored(name: str, type_: str) -> list[str]:
    if type_ == "pred":
        return [f"  selp.u32 %t, 1, 0, {name}; st.global.u8 [%at], %t;"]
    return [f"  st.global.{_memory_type(type_)} [%at], {name};"]


def _memory_type(type_: str) -> str:
    return type_ if type_ in ("s8", "u8") else f"b{_bits(type_)}"


def _store(
    folder: Path,
    text: str,
    ptx: str,
    instruction: Instruction,
    sources: Sequence[Patterns],
    results: Sequence[Patterns],
) -> None:
    signature = ops.operand_types(instruction)
    operands = [one for operand in instruction.operands for one in _parts(operand)]
    read = operands[len(signature.destinations) :]
    numbers = [i for i, operand in enumerate(read) if not isinstance(operand, Immediate)]
    arrays = {f"s{i}": (signature.sources[i], given) for i, given in zip(numbers, sources, strict=True)}
    arrays |= {f"d{i}": (type_, np.zeros_like(results[i])) for i, type_ in enumerate(signature.destinations)}
    buffers = {name: _buffer(name, type_, array) for name, (type_, array) in arrays.items()}
    count = len(results[0])
    arguments = (*buffers.values(), Scalar("n", count.to_bytes(4, "little")))
    request = Request(
        Artifact(text, "", ptx, b"", {}, {}, ""), "k", (-(-count // _THREADS), 1, 1), (_THREADS, 1, 1), 0, arguments
    )
    found = {f"d{i}": _bytes(array, signature.destinations[i]) for i, array in enumerate(results)}
    after = {name: found.get(name, buffer.data) for name, buffer in buffers.items()}
    approximate = () if ops.accuracy(instruction) is None else (text.partition(" ")[0],)
    store(folder, request, Outcome("completed", "emulator", after, approximate=approximate), text)


def _buffer(name: str, type_: str, array: Patterns) -> Buffer:
    return Buffer(name, _bytes(array, type_), element_size=2 if "16" in type_ else max(_bits(type_) // 8, 4))


def _bytes(array: Patterns, type_: str) -> Bytes:
    return np.ascontiguousarray(array).astype(f"u{_bits(type_) // 8}").view(np.uint8)
