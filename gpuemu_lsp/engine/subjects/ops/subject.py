"""An op as a subject: each case calls the function and compares what it returned with what gpuemu.toml declares."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.deadline import DeadlineError, deadline
from gpuemu_lsp.engine.execution import Bytes, Event, Outcome
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.fuzz.geometry import contiguous, strides
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.pack import pack_buffer
from gpuemu_lsp.engine.oracle import Numerics
from gpuemu_lsp.engine.oracle.inputs import scalar_value
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg
from gpuemu_lsp.engine.ptx.model import Location, Module
from gpuemu_lsp.engine.subjects.model import CaseCode, PythonExecutor
from gpuemu_lsp.engine.subjects.ops.calls import Op, OpFailure, Returned, call_op, launch_timeout
from gpuemu_lsp.engine.subjects.source_map import SourceMap

_FORMATS = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3"}
_FORMATS |= {"float8_e5m2": "e5m2"}
_FILE = 1
"""Number of the op's own file in the source map."""


@dataclass(slots=True)
class OpSubject:
    """An imported op; ``source_map`` has its file, ``seconds`` limits each call."""

    op: Op
    artifact: Artifact
    source_map: SourceMap
    seconds: float
    single: bool = False
    exact: set[str] = field(default_factory=set)
    unnamed: bool = False
    """The outputs are those of a reference that returns no dict."""
    inferred: frozenset[str] = frozenset()
    """Outputs that are not declared, but those of the reference."""

    def first(self, plan: Plan, seed: int) -> CaseCode:
        """Return the code of the plan, which all its cases have."""
        return CaseCode(
            self.artifact,
            plan.entry,
            Module("", "", 64, {}, (), {}),
            numerics_of(plan),
            self.source_map,
            run=lambda case: self.run(plan, case),
        )

    def code(self, plan: Plan, case: Case) -> CaseCode:
        """Return the code of the plan, which all its cases have."""
        return self.first(plan, 0)

    def run(self, plan: Plan, case: Case) -> Outcome:
        """Call the op with the inputs of a case."""
        started = time.perf_counter()
        memory: dict[str, Bytes] = {}
        try:
            result = self._call(plan, case, memory)
        except DeadlineError:
            event = self._event("op/error", f"The op did not return within {self.seconds:g} s")
            return Outcome("hung", PythonExecutor.name, {}, events=(event,))
        except OpFailure as failure:
            return Outcome("trapped", PythonExecutor.name, {}, events=(self._failed(failure),))
        events, buffers = [_launch_event(one, self.source_map) for one in result.findings], dict(memory)
        if any(event.rule == "engine/unsupported-instruction" for event in events):
            return Outcome("unsupported", PythonExecutor.name, {}, events=tuple(events))
        if launch_timeout(result.findings) is not None:
            # First: the reason for which the case was not judged.
            events.sort(key=lambda event: event.rule != "engine/timeout")
            return Outcome("failed", PythonExecutor.name, {}, events=tuple(events))
        launched = len(events)
        for arg, value in self._results(plan, result.value, events):
            unfit = _unfit(arg, value, case, "of the reference" if arg.param in self.inferred else "declared")
            if unfit is not None:
                events.append(unfit)
            else:
                array = np.asarray(value).astype(numpy_dtype(arg.dtype), copy=False)
                buffers[arg.param] = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
        milliseconds = (time.perf_counter() - started) * 1e3
        status = "trapped" if len(events) > launched else "completed"
        # Every element of a result has a value.
        written = {name: np.ones(data.size, np.bool_) for name, data in buffers.items()}
        return Outcome(status, PythonExecutor.name, buffers, written, tuple(events), execute_ms=milliseconds)

    def _call(self, plan: Plan, case: Case, memory: dict[str, Bytes]) -> Returned:
        """Call the op; with contiguous inputs if it refuses others. ``memory`` gets the bytes of the inputs."""
        try:
            return self._call_once(plan, case, memory)
        except OpFailure:
            if not any(key.startswith("stride:") for key in case.extra):
                raise
            # An op may refuse memory that is not contiguous, as kernels do; to compute wrong numbers is an error.
            array = {name: value for name, value in case.extra.items() if not name.startswith("stride:")}
            contiguous_memory: dict[str, Bytes] = {}
            returned = self._call_once(plan, _with_layout(case, array), contiguous_memory)
            memory.clear()
            for arg in plan.args:
                if isinstance(arg, TensorArg) and arg.param in contiguous_memory:
                    memory[arg.param] = _laid_out(arg, case, contiguous_memory[arg.param])
            return returned

    def results(self, plan: Plan, case: Case) -> Any:
        """Return what the op returns for a case."""
        return self._call_once(plan, case, {}).value

    def _call_once(self, plan: Plan, case: Case, memory: dict[str, Bytes]) -> Returned:
        tensors: dict[str, Array] = {}
        scalars: dict[str, Any] = {}
        for arg in plan.args:
            if isinstance(arg, ScalarArg):
                scalars[arg.param] = scalar_value(arg, case)
            elif arg.direction != "out":
                data = pack_buffer(arg, case).data
                memory[arg.param] = data
                tensors[arg.param] = _view(data, arg, case)
        with deadline(self.seconds):
            returned = call_op(self.op, tensors, scalars, plan.kwargs)
        self.op = returned.op
        return returned

    def _results(self, plan: Plan, returned: Any, events: list[Event]) -> Iterator[tuple[TensorArg, Any]]:
        """Yield each output with its value, or add an event that says what is missing."""
        outputs = [arg for arg in plan.args if isinstance(arg, TensorArg) and arg.direction == "out"]
        declared = ", ".join(arg.param for arg in outputs)
        if not outputs:
            return
        if returned is None:
            events.append(self._event("op/wrong-result", f"The op returned nothing; declared: {declared}"))
        elif isinstance(returned, Mapping):
            for arg in outputs:
                key = arg.key if arg.key in returned else arg.param
                if key in returned:
                    yield arg, returned[key]
                else:
                    have = ", ".join(returned) or "nothing"
                    message = f"The op returned a dict with {have}; missing: {arg.param}"
                    if self.unnamed:
                        message += ". The reference returns no dict, so its results have no names"
                    events.append(self._event("op/wrong-result", message))
        elif (isinstance(returned, tuple) and (len(outputs) > 1 or len(returned) == 1)) or (
            isinstance(returned, list) and len(outputs) > 1
        ):
            if len(returned) != len(outputs):
                results = "1 result" if len(returned) == 1 else f"{len(returned)} results"
                message = f"The op returned {results}; declared: {declared}"
                events.append(self._event("op/wrong-result", message))
            else:
                yield from zip(outputs, returned, strict=True)
        elif len(outputs) > 1:
            events.append(self._event("op/wrong-result", f"The op returned 1 result; declared: {declared}"))
        else:
            yield outputs[0], returned

    def _event(self, rule: str, message: str) -> Event:
        return Event(rule, message, None, "")

    def _failed(self, failure: OpFailure) -> Event:
        location = None
        if failure.line is not None and failure.path == self.source_map.files.get(_FILE):
            location = Location(_FILE, failure.line, 0)
        what = "The op raised" if failure.raised else "The op failed:"
        return Event("op/error", f"{what} {failure.message}", location, "")


def _launch_event(finding: Finding, source_map: SourceMap) -> Event:
    """Return the finding of an emulated launch as an event, on its line if that is in the op's file."""
    location = None
    if finding.place.path == source_map.files.get(_FILE):
        start = finding.place.range.start
        location = Location(_FILE, start.line + 1, start.column + 1)
    return Event(finding.rule, finding.message, location, "", severity=finding.severity)


def numerics_of(plan: Plan) -> Numerics:
    """Return the arithmetic that is assumed: sums in the dtype of the tensors, in any order."""
    dtypes = {plan.dtype, *(arg.dtype for arg in plan.args if isinstance(arg, TensorArg))}
    return Numerics(frozenset(_FORMATS[dtype] for dtype in dtypes if dtype in _FORMATS))


def _unfit(arg: TensorArg, value: Any, case: Case, origin: str) -> Event | None:
    """Return the event of a result that is not an array of the expected shape and dtype, None if it is.

    ``origin`` says where these are from.
    """
    try:
        array = np.asarray(value)
    except Exception as error:  # an object's __array__ may raise anything
        return Event("op/wrong-result", f"The op returned {type(value).__name__} for {arg.param}: {error}", None, "")
    if array.dtype.kind in "OUSM" or (array.dtype.kind == "V" and array.dtype.names is not None):
        message = f"The op returned {type(value).__name__} for {arg.param}, which is not an array"
        return Event("op/wrong-result", message, None, "")
    shape = case.outputs[arg.param]
    if array.shape != shape:
        elements = f"{array.size} elements of {int(np.prod(shape))}" if array.size < np.prod(shape) else ""
        message = f"{arg.param} has the shape {_brackets(array.shape)}; {origin}: {_brackets(shape)}"
        message += f" ({elements})" if elements else ""
        return Event("numeric/shape-mismatch", message, None, "")
    # A Python number has no dtype of its own.
    if array.dtype.name != arg.dtype and isinstance(value, np.ndarray | np.generic):
        message = f"{arg.param} has the dtype {array.dtype.name}; {origin}: {arg.dtype}"
        return Event("numeric/dtype-mismatch", message, None, "")
    return None


def _brackets(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _view(data: Bytes, arg: TensorArg, case: Case) -> Array:
    """Return the elements of an input in its memory, with the strides of the case."""
    shape = tuple(case.tensors[arg.param].shape)
    dtype = numpy_dtype(arg.dtype)
    steps = strides(case.extra, arg.param, shape)
    view: Array = np.ndarray(shape, dtype, data.data, strides=tuple(step * dtype.itemsize for step in steps))
    return view


def _with_layout(case: Case, layout: Mapping[str, str]) -> Case:
    return replace(case, extra=layout)


def _laid_out(arg: TensorArg, case: Case, data: Bytes) -> Bytes:
    """Return contiguous bytes in the layout of a case."""
    shape = tuple(case.tensors[arg.param].shape)
    dtype = numpy_dtype(arg.dtype)
    result = pack_buffer(arg, case).data
    values: Array = np.ndarray(
        shape, dtype, data.data, strides=tuple(step * dtype.itemsize for step in contiguous(shape))
    )
    _view(result, arg, case)[...] = values
    return result
