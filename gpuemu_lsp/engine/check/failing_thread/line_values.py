"""The values that a thread loads and stores at the line of a finding, by the names in the source."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gpuemu_lsp.engine.check.case_runner import CaseRunner
from gpuemu_lsp.engine.check.failing_thread.ptx_log import (
    ADDRESS,
    ENTRY_BYTES,
    LOG,
    VALUES,
    LoggedAccess,
    LoggedPtx,
    with_log,
)
from gpuemu_lsp.engine.execution import Buffer, Bytes, Dim3
from gpuemu_lsp.engine.findings import Finding, Json
from gpuemu_lsp.engine.fuzz import pack_arguments
from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.fuzz.pack import shape_of
from gpuemu_lsp.engine.plan.model import TensorArg
from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.ptx.model import Location
from gpuemu_lsp.engine.subjects.source_map import SourceMap

_MOST_TEXT = 1 << 17
"""Characters of PTX up to which it is translated again for the log."""
_MOST_VALUES = 8
_OTHER_FILL = 0x35
"""Contents of uninitialised memory in a second run: a value that differs from the first run's is not defined."""
_FAR = 1 << 16
"""Bytes behind a variable up to which an address is described as an element of it."""
_SUBSCRIPT = re.compile(r"\b(\w+)\s*\[\s*([A-Za-z_]\w*)\s*\](?!\s*\[)")
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")


@dataclass(frozen=True, slots=True)
class _Memory:
    """An argument or shared variable: its name in the source and its address.

    ``size`` in bytes, ``dtype`` and ``shape`` are those of an argument, None or empty for a shared variable.
    """

    name: str
    address: int
    size: int | None = None
    dtype: str | None = None
    shape: tuple[int, ...] = ()
    lanes: int = 1


@dataclass(frozen=True, slots=True)
class _Value:
    """An element that the thread accessed; ``value`` is None if it is not defined."""

    memory: _Memory
    element: int
    value: Json
    stored: bool


def line_values(runner: CaseRunner, case: Case, finding: Finding, source_map: SourceMap) -> list[Json]:
    """Return the values of a finding's thread at its line: objects with ``name`` and ``value``, loads first.

    ``value`` is None for an element that is out of bounds, misaligned or uninitialised. The wrong element of an output
    has ``expected`` too. Subscripts and scalar arguments that the line names follow the elements. The list is empty if
    the thread is not known or the line has no access that can be logged. In a loop the last iteration counts.
    """
    thread, block = _coordinates(finding.data.get("thread")), _coordinates(finding.data.get("block"))
    launch = runner.launch_of(case)
    if thread is None or block is None or runner.executor.name != "emulator" or len(launch.artifact.ptx) > _MOST_TEXT:
        return []

    def at_line(location: Location) -> bool:
        place = source_map.known(location)
        line = finding.place.range.start.line
        return place is not None and (place.path, place.range.start.line) == (finding.place.path, line)

    logged = with_log(launch.artifact.ptx, launch.entry, at_line, thread, block)
    if logged is None:
        return []
    first, second = _log(runner, case, logged, launch.fill), _log(runner, case, logged, _OTHER_FILL)
    if first is None or second is None:
        return []
    bases = np.frombuffer(first[ENTRY_BYTES * len(logged.accesses) :].tobytes(), dtype=np.uint64).tolist()
    memories = _memories(runner, case, dict(zip(logged.bases, bases, strict=True)))
    found: list[_Value] = []
    for position, access in enumerate(logged.accesses):
        span = slice(ENTRY_BYTES * position, ENTRY_BYTES * (position + 1))
        if first[span][0]:
            found += _elements(access, first[span].tobytes(), second[span].tobytes(), memories)
    text = source_map.text_of(finding.place.path) or ""
    return _named(found, finding, case, text)[:_MOST_VALUES]


def _log(runner: CaseRunner, case: Case, logged: LoggedPtx, fill: int) -> Bytes | None:
    """Run a case with these contents of uninitialised memory and return the log."""
    launch = runner.launch_of(case)
    arguments = [
        one.with_unwritten(fill) if isinstance(one, Buffer) and fill != launch.fill else one
        for one in pack_arguments(runner.plan, case)
    ]
    log = Buffer(LOG, np.zeros(logged.size, dtype=np.uint8), element_size=8)
    artifact = replace(launch.artifact, ptx=logged.text)
    outcome = runner.repeat(case, replace(launch, artifact=artifact, fill=fill), (*arguments, log))
    return outcome.buffers.get(LOG)


def _coordinates(value: Json) -> Dim3 | None:
    if not isinstance(value, list) or len(value) != 3:
        return None
    x, y, z = (number if isinstance(number, int) else 0 for number in value)
    return x, y, z


def _memories(runner: CaseRunner, case: Case, bases: Mapping[str, int]) -> list[_Memory]:
    """Return the memory of the tensors, which are the pointer parameters in order, and of the shared variables."""
    arguments = runner.arguments(case)
    tensors = {arg.param: arg for arg in runner.plan.args if isinstance(arg, TensorArg)}
    found = []
    code = runner.code(case)
    for name, address in bases.items():
        # NVRTC numbers parameters: ``kernel_param_0``.
        number = name.rpartition("_param_")[2] if "_param_" in name else ""
        argument = arguments[int(number)] if number.isdigit() and int(number) < len(arguments) else None
        if isinstance(argument, Buffer) and argument.name in tensors:
            arg, shape = tensors[argument.name], shape_of(case, argument.name)
            size = int(argument.data.size) - argument.pointer_offset
            found.append(_Memory(arg.param, address, size, arg.dtype, shape, arg.lanes))
        elif not number and (code is None or code.checks.block_races):
            found.append(_Memory(demangled_name(name).rpartition("::")[2], address))
    return found


def _elements(access: LoggedAccess, entry: bytes, other: bytes, memories: list[_Memory]) -> list[_Value]:
    """Return the elements of one access, from its entries in both logs; none if its address lies in no known memory."""
    address = int.from_bytes(entry[ADDRESS : ADDRESS + 8], "little")
    near = [one for one in memories if one.address <= address < one.address + (one.size or 0) + _FAR]
    memory = max(near, key=lambda one: one.address, default=None)
    if memory is None:
        return []
    dtype = np.dtype(_numpy_name(access.type_)) if memory.dtype is None else numpy_dtype(memory.dtype)
    if dtype.itemsize != access.size:
        return []  # several elements in one access: an untyped copy
    found = []
    aligned = address % (access.size * access.elements) == 0
    for number in range(access.elements):
        offset = address - memory.address + number * access.size
        span = slice(VALUES + 8 * number, VALUES + 8 * number + access.size)
        value = np.frombuffer(entry[span], dtype=np.uint8 if dtype == np.bool_ else dtype)[0]
        inside = aligned and (memory.size is None or offset < memory.size)
        defined = inside and entry[span] == other[span]
        found.append(_Value(memory, offset // access.size, _json(value) if defined else None, access.stores))
    return found


def _numpy_name(type_: str) -> str:
    return {"f": "f", "s": "i"}.get(type_[0], "u") + str(int(type_[1:]) // 8)


def _json(value: np.generic) -> Json:
    if value.dtype.kind in "iub":
        return int(value)
    number = float(value)
    return number if np.isfinite(number) else str(number)


def _named(found: list[_Value], finding: Finding, case: Case, text: str) -> list[Json]:
    lines, number = text.split("\n"), finding.place.range.start.line
    line = lines[number] if number < len(lines) else ""
    values: dict[str, Json] = {}
    for one in sorted(found, key=lambda item: item.stored):
        name = f"{one.memory.name}[{one.element}]"
        values[name] = {"name": name, "value": one.value}
        if one.stored and one.memory.name == finding.data.get("output") and one.element == _flat(finding, one.memory):
            values[name] = {"name": name, "value": one.value, "expected": finding.data.get("expected")}
    for array, subscript in _SUBSCRIPT.findall(line):
        elements = {one.element for one in found if one.memory.name == array and one.memory.lanes == 1}
        if len(elements) == 1 and not _is_assigned(array, text):
            values.setdefault(subscript, {"name": subscript, "value": elements.pop()})
    for word in _WORD.findall(line.partition("//")[0]):
        if word in case.scalars:
            values.setdefault(word, {"name": word, "value": _json(case.scalars[word])})
    return list(values.values())


def _flat(finding: Finding, memory: _Memory) -> int | None:
    """Return the position of the finding's worst element in memory, None for a tensor of another rank."""
    index = finding.data.get("index")
    if not isinstance(index, list) or len(index) != len(memory.shape):
        return None
    position = 0
    for number, size in zip(index, memory.shape, strict=True):
        position = position * size + (number if isinstance(number, int) else 0)
    return position


def _is_assigned(name: str, text: str) -> bool:
    """Return whether a pointer may have been moved: the element is then not the value of the subscript."""
    moved = rf"(?<![\w.])(?:{name}\s*(?:[-+]?=(?!=)|\+\+|--)|(?:\+\+|--){name}\b)"
    return re.search(moved, text) is not None
