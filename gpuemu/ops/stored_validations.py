"""Failed validations in the project's store: the inputs with their layouts, the options, and what was called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu.ops.judgement import Judged
from gpuemu.ops.runs import JudgingOptions
from gpuemu.ops.stored_calls import StoredCall
from gpuemu.verifier.recorded_calls import decoded, encoded
from gpuemu.verifier.values import Array
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.fuzz.model import CaseKey
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.store import RECORDED, Failure, Store
from gpuemu_lsp.engine.workers.wire import from_json, to_json


@dataclass(frozen=True, slots=True)
class StoredValidation:
    """A validation of an op; ``call`` is None where the program computed the output itself."""

    op: str
    inputs: dict[str, Array]
    options: JudgingOptions = field(default_factory=JudgingOptions)
    call: StoredCall | None = None


def keep(store: Store, spec: KernelSpec, validation: StoredValidation, judged: Judged) -> int:
    """Store a failed validation and return its case id."""
    first, inputs = judged.failures[0], validation.inputs
    dtype = next((array.dtype.name for array in inputs.values()), "float32")
    dims = {f"{name}.{axis}": size for name, array in inputs.items() for axis, size in enumerate(array.shape)}
    arguments, arrays = encoded(inputs)
    failure = Failure(spec.name, dtype, judged.rule, first["message"], CaseKey(0, RECORDED), dims, arrays)
    details: dict[str, Json] = {"inputs": arguments, "call": to_json(validation.call), **validation.options.record()}
    return int(store.record(failure, {"validation": details}))


def stored_validation(failure: Failure, details: Mapping[str, Json]) -> StoredValidation:
    """Return a stored validation; of a case that a check has stored, the inputs alone."""
    found = details.get("validation")
    if not isinstance(found, dict):
        return StoredValidation(failure.kernel, {name: array.copy() for name, array in failure.tensors.items()})
    arguments, kwargs, call = found.get("inputs"), found.get("kwargs"), found.get("call")
    assert isinstance(arguments, dict) and isinstance(kwargs, dict)
    inputs = {name: decoded(value, failure.tensors, name) for name, value in arguments.items()}
    atol, rtol = (None if found.get(name) is None else float(str(found[name])) for name in ("atol", "rtol"))
    stored = None if call is None else from_json(StoredCall, call)
    options = JudgingOptions(atol, rtol, kwargs, bool(found.get("each_operation_rounds")))
    return StoredValidation(failure.kernel, inputs, options, stored)
