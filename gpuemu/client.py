"""The original's client, in process: operations of gpuemu.toml are validated without a daemon."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from gpuemu.judged_ops import Judged, judge_op, reference_result
from gpuemu.op_cases import OpCase, cropped, draw_case
from gpuemu.results import FuzzResults, MinimizeResult, ValidationResult
from gpuemu.rng import derive_seed, generate_seed
from gpuemu.verifier.recorded_calls import encoded
from gpuemu.verifier.values import as_array, mapped
from gpuemu_lsp.engine.fuzz.model import Array, CaseKey
from gpuemu_lsp.engine.project import discover, load
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.store import RECORDED, Failure, Store, StoredFailure

RunOp = Callable[[dict[str, Any]], Any]


class Client:
    """Validation against the references of a project.

    Parameters
    ----------
    project : str or Path, optional
        A gpuemu.toml or a folder; the current folder's project unless given.
    socket_path : str, optional
        Accepted for programs written for the original, and ignored with a warning: there is no daemon.
    timeout_ms : int
        Accepted and ignored: a call of an operation takes place in this process.
    """

    def __init__(
        self, project: str | Path | None = None, *, socket_path: str | None = None, timeout_ms: int = 30_000
    ) -> None:
        if socket_path is not None:
            warnings.warn("socket_path is ignored: gpuemu has no daemon", DeprecationWarning, stacklevel=2)
        start = Path.cwd() if project is None else Path(project)
        self._config = start if start.is_file() else discover(start)
        self._results: list[ValidationResult] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ping(self) -> bool:
        """Return True: the engine is part of this process."""
        return True

    def close(self) -> None:
        """Forget the results of this client; stored failures stay."""
        self._results.clear()

    # ---- validation --------------------------------------------------------------------------------------------------

    def validate_op(
        self,
        op: str,
        inputs: Mapping[str, Any],
        output: Any,
        *,
        atol: float | None = None,
        rtol: float | None = None,
        **kwargs: Any,
    ) -> ValidationResult:
        """Compare an output with the reference of an operation.

        Parameters
        ----------
        op : str
            Its name in gpuemu.toml.
        inputs : Mapping
            Arrays or tensors by name, as they were before the operation ran.
        output
            An array or tensor, or a tuple or dict of them as the reference returns.
        atol, rtol : float, optional
            Tolerance; that of gpuemu.toml for the dtype unless given, or a derived budget.
        **kwargs
            Passed to the reference as strings, ``causal=True`` as ``"true"``.

        Raises
        ------
        ValueError
            If there is no such operation.
        """
        spec = self._spec(op)
        arrays = {name: as_array(value) for name, value in inputs.items()}
        judged = judge_op(spec, arrays, mapped(output, lambda _, leaf: _array(leaf)), atol, rtol, _texts(kwargs))
        return self._finish(spec, arrays, judged, _texts(kwargs))

    def reference(self, op: str, inputs: Mapping[str, Any], **kwargs: Any) -> Any:
        """Return what the reference of an operation computes in fp64."""
        return reference_result(self._spec(op), {name: as_array(one) for name, one in inputs.items()}, _texts(kwargs))

    def submit_output(
        self, op: str, inputs: Mapping[str, Any], output: Any, seed: int, **kwargs: Any
    ) -> ValidationResult:
        """Validate the output for a case of :meth:`get_test_batch`."""
        return self.validate_op(op, inputs, output, **kwargs)

    def get_test_case(self, op: str, seed: int | None = None, **options: Any) -> dict[str, Any]:
        """Return one case: ``inputs``, ``seed``, ``shape``, ``dtype`` and ``layout``."""
        return _case_record(draw_case(self._spec(op), generate_seed() if seed is None else seed, **_renamed(options)))

    def get_test_batch(self, op: str, count: int = 10, seed: int | None = None, **options: Any) -> list[dict[str, Any]]:
        """Return several cases; ``options`` are ``op_schema``, ``dtypes``, ``value_distribution`` and ``layouts``."""
        master = generate_seed() if seed is None else seed
        return [self.get_test_case(op, derive_seed(master, f"iter_{index}"), **options) for index in range(count)]

    def fuzz_op_client_side(
        self,
        op: str,
        run_op: RunOp,
        iterations: int = 100,
        seed: int | None = None,
        fail_fast: bool = False,
        op_schema: Mapping[str, Any] | None = None,
        dtypes: Iterable[str] | None = None,
        value_distribution: str = "default",
        layouts: Iterable[str] | None = None,
        *,
        atol: float | None = None,
        rtol: float | None = None,
    ) -> FuzzResults:
        """Run an operation on drawn inputs and compare it with its reference.

        ``run_op`` gets a dict of arrays by name. An exception of it is a failure of kind ``ExecutionError``.
        """
        spec, master = self._spec(op), generate_seed() if seed is None else seed
        failures, total = list[ValidationResult](), 0
        for index in range(iterations):
            case = draw_case(
                spec,
                derive_seed(master, f"iter_{index}"),
                schema=op_schema,
                dtypes=dtypes,
                distribution=value_distribution,
                layouts=layouts,
            )
            total += 1
            result = self._run(spec, dict(case.inputs), run_op, atol, rtol)
            if not result.passed:
                failures.append(result)
                if fail_fast:
                    break
        return FuzzResults(master, total, total - len(failures), len(failures), tuple(failures))

    def fuzz_op(
        self, op: str, seed: int | None = None, iterations: int = 100, fail_fast: bool = False, **options: Any
    ) -> FuzzResults:
        """Run the operation that gpuemu.toml names (``op = "module:function"``) on drawn inputs.

        Raises
        ------
        ValueError
            If gpuemu.toml does not say what to call.
        """
        unknown = set(options) - {"dtypes", "layouts", "op_schema", "value_distribution"}
        for name in sorted(unknown):
            warnings.warn(f"{name} is ignored: state sizes in [ops.dims]", DeprecationWarning, stacklevel=2)
            del options[name]
        return self.fuzz_op_client_side(op, self._own_op(op), iterations, seed, fail_fast, **options)

    # ---- stored failures ---------------------------------------------------------------------------------------------

    def get_result(self, seed: int) -> ValidationResult | None:
        """Return the latest result of this client with a seed."""
        return next((one for one in reversed(self._results) if one.seed == seed), None)

    def list_results(self, limit: int = 100) -> list[ValidationResult]:
        """Return the results of this client, latest first."""
        return self._results[: -limit - 1 : -1]

    def list_failures(self, limit: int = 20) -> list[StoredFailure]:
        """Return the failures that the project has stored, latest first."""
        with Store(self._root()) as store:
            return store.failures(limit)

    def reproduce(self, seed: int, run_op: RunOp | None = None) -> ValidationResult:
        """Run the operation on the inputs of a stored failure again.

        Without ``run_op`` the operation of gpuemu.toml runs; if there is none, the result is a failure of kind
        ``NotExecuted``.
        """
        stored = self._stored(seed).failure
        spec = self._spec(stored.kernel)
        try:
            call = run_op or self._own_op(stored.kernel)
        except ValueError as error:
            return ValidationResult(False, seed, spec.name, failures=({"kind": "NotExecuted", "message": str(error)},))
        return self._run(spec, {name: array.copy() for name, array in stored.tensors.items()}, call, None, None)

    def minimize(
        self, seed: int, strategy: str = "binary-search-dims", max_iters: int = 100, run_op: RunOp | None = None
    ) -> MinimizeResult:
        """Return a smaller case of a stored failure that fails in the same way.

        Sizes are reduced one after the other, equal ones together, while the kind of the failure stays the same.
        """
        if strategy != "binary-search-dims":
            raise ValueError(f"unknown strategy '{strategy}'; known: binary-search-dims")
        stored = self._stored(seed).failure
        spec, call = self._spec(stored.kernel), run_op or self._own_op(stored.kernel)
        best: dict[str, Array] = {name: array.copy() for name, array in stored.tensors.items()}
        result = self._judged(spec, best, call)
        if result.passed:
            return MinimizeResult(seed, seed, _first_shape(best), result_of(spec, result, seed))
        kind, runs = result.failures[0]["kind"], 1

        def fails(inputs: dict[str, Array]) -> bool:
            found = self._judged(spec, inputs, call)
            return not found.passed and found.failures[0]["kind"] == kind

        # The first elements, then the last ones of these: a wrong row in the middle remains alone.
        sizes = sorted({size for array in best.values() for size in array.shape if size > 1}, reverse=True)
        for extent in sizes:
            size = extent
            for last in (False, True):
                low, high = 1, size
                while low < high and runs < max_iters:
                    middle, runs = (low + high) // 2, runs + 1
                    if fails(cropped(best, size, middle, last=last)):
                        high = middle
                    else:
                        low = middle + 1
                if high < size and fails(smaller := cropped(best, size, high, last=last)):
                    best, size = smaller, high
        final = self._run(spec, best, call, None, None)
        return MinimizeResult(seed, final.seed, _first_shape(best), final)

    def store_baseline(self, tag: str) -> None:
        """Baselines are those of the command: ``gpuemu baseline TAG``."""
        raise NotImplementedError(f"run: gpuemu baseline {tag}")

    def compare_baseline(self, tag: str) -> None:
        """Baselines are those of the command: ``gpuemu diff --baseline TAG``."""
        raise NotImplementedError(f"run: gpuemu diff --baseline {tag}")

    def lint_kernel(self, ptx: str, kernel_name: str | None = None) -> None:
        """The linter is a command: ``gpuemu lint --ptx FILE``."""
        raise NotImplementedError("run: gpuemu lint --ptx FILE")

    # ---- helpers -----------------------------------------------------------------------------------------------------

    def _root(self) -> Path:
        return Path.cwd() if self._config is None else self._config.parent

    def _spec(self, op: str) -> KernelSpec:
        project = load(self._config)
        specs = {spec.name: spec for spec in project.kernels if spec.op is not None}
        if op in specs:
            return specs[op]
        where = "there is no gpuemu.toml" if self._config is None else f"{self._config} has no op '{op}'"
        if op in project.broken:
            where = f"the entry of '{op}' in {self._config} has errors; gpuemu-lsp --check shows them"
        close = difflib.get_close_matches(op, specs, n=1)
        raise ValueError(where + (f"; did you mean '{close[0]}'?" if close else ""))

    def _own_op(self, op: str) -> RunOp:
        spec = self._spec(op)
        if spec.op is None or not spec.op.runnable:
            raise ValueError(f"'{op}' was not run: gpuemu.toml does not say what to call; pass run_op, or add `op`")
        from gpuemu_lsp.engine.subjects.ops.calling import call_op, import_op

        imported = import_op(spec.op, None)
        return lambda inputs: call_op(imported, inputs, {}).value

    def _run(
        self, spec: KernelSpec, inputs: dict[str, Any], run_op: RunOp, atol: float | None, rtol: float | None
    ) -> ValidationResult:
        kept = {name: np.array(array, order="K") for name, array in inputs.items()}
        return self._finish(spec, kept, self._judged(spec, inputs, run_op, atol, rtol), {})

    def _judged(
        self,
        spec: KernelSpec,
        inputs: dict[str, Array],
        run_op: RunOp,
        atol: float | None = None,
        rtol: float | None = None,
    ) -> Judged:
        # Copies: the operation may change its inputs in place.
        kept = {name: array.copy() for name, array in inputs.items()}
        try:
            output = mapped(run_op(inputs), lambda _, leaf: _array(leaf))
        except Exception as error:
            return Judged(False, ({"kind": "ExecutionError", "message": f"{type(error).__name__}: {error}"},))
        return judge_op(spec, kept, output, atol, rtol, {})

    def _finish(
        self, spec: KernelSpec, inputs: Mapping[str, Array], judged: Judged, kwargs: Mapping[str, str]
    ) -> ValidationResult:
        seed = 0 if judged.passed else self._keep(spec, inputs, judged, kwargs)
        result = result_of(spec, judged, seed)
        self._results.append(result)
        return result

    def _keep(self, spec: KernelSpec, inputs: Mapping[str, Array], judged: Judged, kwargs: Mapping[str, str]) -> int:
        first = judged.failures[0]
        dtype = next((array.dtype.name for array in inputs.values()), "float32")
        dims = {f"{name}.{axis}": size for name, array in inputs.items() for axis, size in enumerate(array.shape)}
        arguments, arrays = encoded(inputs)
        failure = Failure(spec.name, dtype, judged.rule, first["message"], CaseKey(0, RECORDED), dims, arrays)
        with Store(self._root()) as store:
            return int(store.record(failure, {"validation": {"inputs": arguments, "kwargs": dict(kwargs)}}))

    def _stored(self, seed: int) -> StoredFailure:
        with Store(self._root()) as store:
            found = store.find(str(seed))
        if not found:
            raise ValueError(f"no stored failure has the seed {seed}; list_failures() has those that do")
        return found[0]


def result_of(spec: KernelSpec, judged: Judged, seed: int) -> ValidationResult:
    """Return the public form of a judgement."""
    info = {} if judged.passed else {"case": str(seed), "call": f"Client().reproduce({seed}, run_op=...)"}
    stats = {"max_diff": judged.max_diff, "max_rel_diff": judged.max_rel_diff, "compared": judged.compared}
    return ValidationResult(
        judged.passed, seed, spec.name, judged.max_diff, judged.max_rel_diff, judged.failures, stats, info
    )


def _array(value: Any) -> Any:
    return None if value is None else as_array(value)


def _texts(kwargs: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in kwargs.items()}


def _renamed(options: Mapping[str, Any]) -> dict[str, Any]:
    names = {"op_schema": "schema", "value_distribution": "distribution"}
    return {names.get(name, name): value for name, value in options.items()}


def _case_record(case: OpCase) -> dict[str, Any]:
    return {
        "inputs": dict(case.inputs),
        "seed": case.seed,
        "shape": case.shape,
        "dtype": case.dtype,
        "layout": case.layout,
    }


def _first_shape(inputs: Mapping[str, Array]) -> tuple[int, ...]:
    return next((tuple(array.shape) for array in inputs.values()), ())
