"""References and ops of gpuemu.toml evaluated for a program. In workers only: both execute the user's code.

Each function takes the payload that :mod:`gpuemu.ops.workers` sends, and yields JSON.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu.differences import compared_gradient
from gpuemu.ops.judgement import Judged, exact_function, judge_op
from gpuemu.ops.scalars import op_scalars
from gpuemu.ops.stored_calls import StoredCall, accepted_keywords, import_call
from gpuemu.ops.transfer import loaded, saved
from gpuemu.verifier.recorded_calls import decoded, encoded
from gpuemu.verifier.values import Array, as_array, leaves
from gpuemu_lsp.engine.findings import Json, Severity
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.subjects.ops.calls import OpFailure, call_op, launch_timeout
from gpuemu_lsp.engine.subjects.user_module import ModuleError
from gpuemu_lsp.engine.workers.wire import from_json


def judge(payload: Mapping[str, Json]) -> Iterator[Json]:
    """Compare an output with the reference; with ``call`` in place of ``outputs``, that of this call."""
    spec, kwargs = _begin(payload)
    inputs = _arguments(payload, "inputs")
    if payload["outputs"] is None:
        yield {"stage": "op"}
        output, failure = called(spec, from_json(StoredCall, payload["call"]), inputs, kwargs)
        if failure is not None:
            yield {"judged": judged_record(failure)}
            return
    else:
        output = _arguments(payload, "outputs")
    yield {"stage": "reference"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tolerance = (_number(payload["atol"]), _number(payload["rtol"]))
        rounds = bool(payload["each_operation_rounds"])
        found = judge_op(spec, inputs, output, *tolerance, texts(kwargs), rounds)
    yield {"judged": judged_record(found)}


def reference(payload: Mapping[str, Json]) -> Iterator[Json]:
    """Evaluate the reference in fp64; its results are written to ``results``."""
    spec, kwargs = _begin(payload)
    yield {"stage": "reference"}
    values, arrays = encoded({"result": exact_function(spec, texts(kwargs))(_arguments(payload, "inputs"))})
    yield {"result": values, "arrays": saved(Path(str(payload["results"])), "r", arrays)}


def gradients(payload: Mapping[str, Json]) -> Iterator[Json]:
    """Compare gradients of an op with finite differences of its reference; yield the messages by input."""
    spec, kwargs = _begin(payload)
    inputs, grads = _arguments(payload, "inputs"), _arguments(payload, "grads")
    weights = as_array(_arguments(payload, "cotangent")["cotangent"]).astype("float64")
    atol, rtol = _number(payload["atol"]), _number(payload["rtol"])
    assert atol is not None and rtol is not None
    yield {"stage": "reference"}
    function = exact_function(spec, texts(kwargs))

    def terms(values: Mapping[str, Array]) -> Array:
        result = function({**inputs, **values})
        return np.asarray(as_array(next(iter(leaves(result).values()))) * weights)

    wide = {name: inputs[name].astype("float64") for name in grads}
    roundoff = max(FORMATS[one.dtype.name].roundoff for one in inputs.values() if one.dtype.name in FORMATS)
    for name, grad in grads.items():
        yield {"gradient": name, "message": compared_gradient(terms, wide, name, grad, (atol, rtol), roundoff)}


def _begin(payload: Mapping[str, Json]) -> tuple[KernelSpec, Mapping[str, Json]]:
    """Enter the folder from which the program opens relative paths; return what is evaluated, and its keywords."""
    os.chdir(str(payload["folder"]))
    kwargs = payload["kwargs"]
    assert isinstance(kwargs, dict)
    return from_json(KernelSpec, payload["spec"]), kwargs


def called(
    spec: KernelSpec, call: StoredCall, inputs: Mapping[str, Array], kwargs: Mapping[str, Json]
) -> tuple[Any, Judged | None]:
    """Return the result of an op, or the judgement of the exception that it raised."""
    try:
        op = import_call(spec, call)
        returned = call_op(op, inputs, accepted_keywords(op, {**_own_keywords(spec, inputs), **kwargs}))
    except (ModuleError, OSError) as error:
        message = error.message if isinstance(error, ModuleError) else str(error)
        return None, failed_call(f"the op cannot be imported: {message}", "engine/not-executed", "NotExecuted")
    except OpFailure as error:
        return None, failed_call(error.message)
    errors = [one for one in returned.findings if one.severity is Severity.ERROR]
    timeout = launch_timeout(returned.findings)
    if timeout is not None:
        return None, failed_call(timeout.message, timeout.rule, "NotExecuted")
    return returned.value, (failed_call(errors[0].message, errors[0].rule) if errors else None)


def _own_keywords(spec: KernelSpec, inputs: Mapping[str, Array]) -> dict[str, Any]:
    return {**op_scalars(spec, inputs), **(spec.op.kwargs if spec.op is not None else {})}


def failed_call(message: str, rule: str = "op/error", kind: str = "ExecutionError") -> Judged:
    """Return the judgement of an op that raised an exception, or whose launches have an error."""
    record = {"kind": kind, "message": message, "index": (), "expected": None, "actual": None}
    return Judged(False, (record,), rule)


def judged_record(judged: Judged) -> Json:
    """Return a judgement as JSON."""
    failures: list[Json] = []
    for one in judged.failures:
        numbers = {name: _plain(one.get(name)) for name in ("expected", "actual")}
        index: list[Json] = [int(place) for place in one.get("index", ())]
        failures.append({"kind": one["kind"], "message": one["message"], "index": index, **numbers})
    return {
        "passed": judged.passed,
        "failures": failures,
        "rule": judged.rule,
        "figures": [judged.max_diff, judged.max_rel_diff, judged.compared, judged.relative],
    }


def judged_of(record: Json) -> Judged:
    """Return the judgement that :func:`judged_record` wrote."""
    assert isinstance(record, dict) and isinstance(record["failures"], list) and isinstance(record["figures"], list)
    failures = []
    for one in record["failures"]:
        assert isinstance(one, dict) and isinstance(one["index"], list)
        failures.append({**one, "index": tuple(one["index"])})
    largest, largest_relative, compared, relative = record["figures"]
    return Judged(
        bool(record["passed"]),
        tuple(failures),
        str(record["rule"]),
        float(str(largest)),
        float(str(largest_relative)),
        int(str(compared)),
        float(str(relative)),
    )


def texts(kwargs: Mapping[str, Any]) -> dict[str, str]:
    """Return keyword arguments as the reference gets them: ``True`` is ``"true"``."""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in kwargs.items()}


def _arguments(payload: Mapping[str, Json], key: str) -> dict[str, Any]:
    described = payload[key]
    assert isinstance(described, dict) and isinstance(described["values"], dict)
    arrays = loaded(described["arrays"])
    return {name: decoded(value, arrays, name) for name, value in described["values"].items()}


def _number(value: Json) -> float | None:
    return None if value is None else float(str(value))


def _plain(value: Any) -> Json:
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
