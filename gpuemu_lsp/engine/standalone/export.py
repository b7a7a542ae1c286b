"""Export of a case: a copy of :mod:`script`, which is the same for all cases, and an archive with the data."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu_lsp.engine.check.plan_run import PlanRun
from gpuemu_lsp.engine.execution import Buffer, StructArgument, buffers_of
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.fuzz.geometry import strides
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.pack import shape_of
from gpuemu_lsp.engine.oracle.budget import error_budgets
from gpuemu_lsp.engine.oracle.inputs import compared_tensors
from gpuemu_lsp.engine.oracle.reference import ReferenceEvaluation
from gpuemu_lsp.engine.plan.model import TensorArg
from gpuemu_lsp.engine.store import Failure


def export(run: PlanRun, case: Case, failure: Failure, script: Path) -> Path:
    """Write ``script`` and an archive with the same name and suffix ``.npz``; return the archive's path.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    arrays: dict[str, Array] = {"ptx": _bytes(run.runner.launch_of(case).artifact.ptx.encode())}
    tensors = {arg.param: arg for arg in run.plan.args if isinstance(arg, TensorArg)}
    aliased = {target for key, target in case.extra.items() if key.startswith("alias:")}
    described: list[Json] = []
    packed = run.runner.arguments(case)
    parameters: list[Json] = []
    for parameter in packed:
        pointers: list[Json] = []
        if isinstance(parameter, Buffer):
            pointers.append({"buffer": parameter.name, "offset": 0})
            arrays[f"parameter:{parameter.name}"] = _bytes(bytes(8))
        else:
            arrays[f"parameter:{parameter.name}"] = _bytes(parameter.data)
        if isinstance(parameter, StructArgument):
            pointers += [{"buffer": buffer.name, "offset": offset} for offset, buffer in parameter.pointers]
        parameters.append({"name": parameter.name, "pointers": pointers})
    for argument in buffers_of(packed):
        name = argument.name
        if name not in tensors:
            raise OSError(f"a script cannot provide the {name} memory of this Triton kernel")
        arrays[f"argument:{name}"] = argument.data
        arg = tensors[name]
        shape = shape_of(case, name)
        described.append(
            {
                "name": name,
                "kind": arg.direction,
                "dtype": arg.dtype,
                "element_size": argument.element_size,
                "strides": list(strides(case.extra, name, shape)),
                "offset": argument.offset,
                "alias": argument.alias_of,
                "pointer_offset": argument.pointer_offset,
                "initialized": argument.initialized,
                "shared": name in aliased or argument.alias_of is not None,
            }
        )
        if numpy_dtype(arg.dtype).kind not in "biuf":
            count = 1 << 8 * argument.element_size
            every = np.arange(count, dtype=f"u{argument.element_size}").view(numpy_dtype(arg.dtype))
            arrays[f"table:{arg.dtype}"] = every.astype(np.float64)
    arrays |= _expected(run, case)
    arrays["about"] = _bytes(json.dumps(_about(run, case, failure, described, parameters)).encode())
    script.write_text(resources.files(__package__).joinpath("script.py").read_text())
    archive = script.with_suffix(".npz")
    np.savez_compressed(archive, allow_pickle=False, **arrays)
    return archive


def _expected(run: PlanRun, case: Case) -> dict[str, Array]:
    """Return the expected outputs and the allowed error of each element, infinity for elements that are not judged."""
    expected = run.expect(case)
    if run.judge.reference is None or expected is None:
        return {}
    evaluation = ReferenceEvaluation(run.judge.reference, run.plan, case, expected, run.judge.numerics(case))
    limits = error_budgets(evaluation, run.context.request.spec.tolerances)
    arrays: dict[str, Array] = {}
    for arg in compared_tensors(run.plan):
        if not arg.ordered:
            continue
        limit = limits[arg.param]
        unjudged = limit.undecided if limit.may_overflow is None else limit.undecided | limit.may_overflow
        arrays[f"expected:{arg.param}"] = expected.arrays[arg.param].astype(np.float64)
        arrays[f"allowed:{arg.param}"] = np.where(unjudged, np.inf, limit.allowed)
    return arrays


def _about(
    run: PlanRun, case: Case, failure: Failure, arguments: list[Json], parameters: list[Json]
) -> dict[str, Json]:
    code = run.runner.complete(case)
    launch: dict[str, Any] = {
        "entry": code.entry,
        "grid": list(case.grid),
        "block": list(code.block),
        "shared_bytes": code.shared_bytes,
    }
    return {
        "kernel": failure.kernel,
        "dtype": failure.dtype,
        "case": failure.case,
        "seed": str(case.key.seed),
        "rule": failure.rule,
        "message": failure.message,
        "dims": dict(case.dims),
        "arch": code.artifact.arch,
        "toolchain": code.artifact.toolchain,
        "arguments": arguments,
        "parameters": parameters,
        **launch,
    }


def _bytes(data: bytes) -> Array:
    return np.frombuffer(data, dtype=np.uint8)
