"""The original's client, in process: operations of gpuemu.toml are validated without a daemon."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpuemu.ops import project_checks
from gpuemu.ops.cases import OpCase, draw_case
from gpuemu.ops.judgement import Judged
from gpuemu.ops.project_ops import SIZES, find_op, sized_schema
from gpuemu.ops.runs import JudgingOptions, OpRunner, RunOp
from gpuemu.ops.sent_results import SentResults
from gpuemu.ops.smaller_inputs import smaller_inputs
from gpuemu.ops.stored_calls import StoredCall, call_of, stored_call, why_not_callable
from gpuemu.ops.stored_validations import StoredValidation, keep, stored_validation
from gpuemu.ops.workers import Evaluator
from gpuemu.results import (
    ArtifactResult,
    BaselineComparison,
    FuzzResults,
    MinimizeResult,
    ReproduceResult,
    ValidationResult,
)
from gpuemu.rng import derive_seed, generate_seed
from gpuemu.verifier.values import as_array
from gpuemu_lsp.engine.fuzz.model import Array
from gpuemu_lsp.engine.project import discover
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.store import Store, StoredFailure

_OPTIONS = {"dtypes", "layouts", "op_schema", "value_distribution"}


class Client:
    """Validation against the references of a project.

    Parameters
    ----------
    project : str or Path, optional
        A gpuemu.toml or a folder; the current folder's project unless given.
    socket_path : str, optional
        Accepted for programs written for the original, and ignored with a warning: there is no daemon.
    timeout_ms : int, optional
        Time limit of one evaluation of a reference, or of an operation that gpuemu.toml names; 30,000 unless given,
        and as much again for every further 4 million elements of a call. Both run in a worker process, whose memory is
        limited to 8 GiB; a function that the program passes is called in its own process.
    """

    def __init__(
        self, project: str | Path | None = None, *, socket_path: str | None = None, timeout_ms: int | None = None
    ) -> None:
        if socket_path is not None:
            warnings.warn("socket_path is ignored: gpuemu has no daemon", DeprecationWarning, stacklevel=2)
        start = Path.cwd() if project is None else Path(project)
        self._config = start if start.is_file() else discover(start)
        self._evaluator = Evaluator(None if timeout_ms is None else timeout_ms / 1e3)
        self._results: list[ValidationResult] = []
        self._batches: dict[str, SentResults | None] = {}

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
        each_operation_rounds: bool = False,
        **kwargs: Any,
    ) -> ValidationResult:
        """Compare an output with the reference of an operation.

        Parameters
        ----------
        op : str
            The name of an op in gpuemu.toml, or of a kernel that the program launches itself.
        inputs : Mapping
            Arrays or tensors by name, as they were before the operation ran.
        output
            An array or tensor, or a tuple or dict of them as the reference returns.
        atol, rtol : float, optional
            Tolerance; that of gpuemu.toml for the dtype unless given, or a derived budget.
        each_operation_rounds : bool
            The operation rounds every intermediate result to the dtype of its tensors, as several calls of a framework
            do; kernels compute in fp32 and round what they store.
        **kwargs
            Passed to the reference as strings, ``causal=True`` as ``"true"``.

        Raises
        ------
        ValueError
            If there is no such operation.
        """
        spec = self._spec(op)
        arrays = {name: as_array(value) for name, value in inputs.items()}
        options = JudgingOptions(atol, rtol, kwargs, each_operation_rounds)
        return self._finish(spec, arrays, self._runner(spec).judge(arrays, output, options), options)

    def reference(self, op: str, inputs: Mapping[str, Any], **kwargs: Any) -> Any:
        """Return what the reference of an operation computes in fp64."""
        return self.runner(op).reference({name: as_array(one) for name, one in inputs.items()}, kwargs)

    def runner(self, op: str) -> OpRunner:
        """Return the runs of an operation, for the modules of frameworks."""
        return self._runner(self._spec(op))

    def submit_output(
        self, op: str, inputs: Mapping[str, Any], output: Any, seed: int, **kwargs: Any
    ) -> ValidationResult:
        """Validate the output for a case of :meth:`get_test_batch`, and add it to the results of the batch."""
        spec, arrays = self._spec(op), {name: as_array(value) for name, value in inputs.items()}
        options, sent = JudgingOptions(kwargs=kwargs), self._batches.get(op)
        result = self._finish(spec, arrays, self._runner(spec).judge(arrays, output, options), options, sent=sent)
        if sent is not None:
            sent.send()
        return result

    def get_test_case(self, op: str, seed: int | None = None, **options: Any) -> dict[str, Any]:
        """Return one case: ``inputs``, ``seed``, ``shape``, ``dtype`` and ``layout``."""
        return _case_record(draw_case(self._spec(op), generate_seed() if seed is None else seed, **_renamed(options)))

    def get_test_batch(self, op: str, count: int = 10, seed: int | None = None, **options: Any) -> list[dict[str, Any]]:
        """Return several cases; ``options`` are ``op_schema``, ``dtypes``, ``value_distribution`` and ``layouts``."""
        master = generate_seed() if seed is None else seed
        self._batches[op] = SentResults.of(self._spec(op), master)
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
        each_operation_rounds: bool = False,
    ) -> FuzzResults:
        """Run an operation on drawn inputs and compare it with its reference.

        ``run_op`` gets a dict of arrays by name. An exception of it is a failure of kind ``ExecutionError``. Other
        options are those of :meth:`validate_op`.
        """
        drawn = {"schema": op_schema, "dtypes": dtypes, "distribution": value_distribution, "layouts": layouts}
        options = JudgingOptions(atol, rtol, each_operation_rounds=each_operation_rounds)
        return self._fuzz(self._spec(op), run_op, iterations, seed, fail_fast, drawn, options)

    def fuzz_op(
        self, op: str, seed: int | None = None, iterations: int = 100, fail_fast: bool = False, **options: Any
    ) -> FuzzResults:
        """Run the operation that gpuemu.toml names (``op = "module:function"``) on drawn inputs.

        Raises
        ------
        ValueError
            If gpuemu.toml does not say what to call.
        """
        spec = self._spec(op)
        sizes = {name: options.pop(name) for name in SIZES if name in options}
        if sizes and spec.args is None:
            options["op_schema"] = sized_schema(spec, sizes)
        for name in sorted({*options, *(sizes if spec.args is not None else ())} - _OPTIONS):
            warnings.warn(f"{name} is ignored: state sizes in [ops.dims]", DeprecationWarning, stacklevel=2)
            options.pop(name, None)
        rounds = JudgingOptions(each_operation_rounds=True)  # a Python function may, as in `gpuemu test`
        return self._fuzz(spec, self._own_op(spec), iterations, seed, fail_fast, _renamed(options), rounds)

    # ---- stored failures ---------------------------------------------------------------------------------------------

    def get_result(self, seed: int) -> ValidationResult | None:
        """Return the latest result of this client with a seed."""
        return next((one for one in reversed(self._results) if one.seed == seed), None)

    def list_results(self, limit: int = 100) -> list[ValidationResult]:
        """Return at most ``limit`` entries of this client's results, latest first."""
        return self._results[: -limit - 1 : -1]

    def list_failures(self, limit: int = 20) -> list[StoredFailure]:
        """Return at most ``limit`` entries of the failures that the project has stored, latest first."""
        with Store(self._root()) as store:
            return store.failures(limit)

    def reproduce(self, seed: int, run_op: RunOp | None = None) -> ReproduceResult:
        """Run the operation on the inputs of a stored failure again.

        Without ``run_op`` a worker calls the function that failed, if it can import it, else the operation of
        gpuemu.toml. If there is none, the result is a failure of kind ``NotExecuted``.
        """
        stored = self._stored(seed)
        spec = self._spec(stored.op)
        call = run_op or call_of(spec, stored.call)
        if call is None:
            missing = {"kind": "NotExecuted", "message": why_not_callable(spec, str(seed))}
            return ReproduceResult(False, seed, spec.name, failures=(missing,), inputs=stored.inputs)
        return ReproduceResult.of(self._run(spec, stored.inputs, call, stored.options), stored.inputs)

    def minimize(
        self, seed: int, strategy: str = "binary-search-dims", max_iters: int = 100, run_op: RunOp | None = None
    ) -> MinimizeResult:
        """Return a smaller case of a stored failure that fails in the same way.

        Sizes are reduced one after the other, equal ones together, while the kind of the failure stays the same.
        """
        if strategy != "binary-search-dims":
            raise ValueError(f"unknown strategy '{strategy}'; known: binary-search-dims")
        stored = self._stored(seed)
        spec = self._spec(stored.op)
        call = run_op or call_of(spec, stored.call)
        if call is None:
            raise ValueError(why_not_callable(spec, str(seed)))
        runner = self._runner(spec)
        best = stored.inputs
        result = runner.run(best, call, stored.options)
        if result.passed:
            return MinimizeResult(seed, seed, _first_shape(best), result_of(spec, result, seed))
        kind = result.failures[0]["kind"]

        def fails(inputs: dict[str, Array]) -> bool:
            found = runner.run(inputs, call, stored.options)
            return not found.passed and found.failures[0]["kind"] == kind

        best = smaller_inputs(best, fails, max_iters - 1)
        final = self._run(spec, best, call, stored.options)
        return MinimizeResult(seed, final.seed, _first_shape(best), final)

    # ---- the project -------------------------------------------------------------------------------------------------

    def store_baseline(self, tag: str) -> tuple[str, ...]:
        """Check the kernels and ops of the project, and store the measurements, as ``gpuemu baseline TAG`` does.

        Returns the names of those that were measured; a warning names the others. Of ops that only this program can
        run, the results of its latest fuzzing are stored.
        """
        return project_checks.store_baseline(self._root(), tag)

    def compare_baseline(self, tag: str) -> BaselineComparison:
        """Check the same cases again, and compare, as ``gpuemu diff --baseline TAG`` does."""
        return project_checks.compare_baseline(self._root(), tag)

    def lint_kernel(self, ptx: str, kernel_name: str | None = None) -> ArtifactResult:
        """Compare PTX with the limits of a registered kernel, as ``gpuemu lint --kernel NAME --ptx FILE`` does.

        Parameters
        ----------
        ptx : str
            The text of a module, or the path of a file.
        kernel_name : str, optional
            A kernel of gpuemu.toml; every kernel of which the module has an entry unless given.
        """
        return project_checks.lint(self._root(), ptx, kernel_name)

    # ---- helpers -----------------------------------------------------------------------------------------------------

    def _root(self) -> Path:
        return Path.cwd() if self._config is None else self._config.parent

    def _spec(self, op: str) -> KernelSpec:
        return find_op(self._config, op)

    def _own_op(self, spec: KernelSpec) -> StoredCall:
        call = call_of(spec, None)
        if call is None:
            raise ValueError(
                f"'{spec.name}' was not run: gpuemu.toml does not say what to call; pass run_op, or add `op`"
            )
        return call

    def _runner(self, spec: KernelSpec) -> OpRunner:
        return OpRunner(spec, self._evaluator)

    def _fuzz(
        self,
        spec: KernelSpec,
        call: RunOp | StoredCall,
        iterations: int,
        seed: int | None,
        fail_fast: bool,
        drawn: Mapping[str, Any],
        options: JudgingOptions,
    ) -> FuzzResults:
        master = generate_seed() if seed is None else seed
        # A tolerance other than that of gpuemu.toml is not a verdict of the project.
        sent = SentResults.of(spec, master, call) if (options.atol, options.rtol) == (None, None) else None
        failures, total = list[ValidationResult](), 0
        for index in range(iterations):
            case = draw_case(spec, derive_seed(master, f"iter_{index}"), **drawn)
            total += 1
            result = self._run(spec, case.inputs, call, options, sent)
            if not result.passed:
                failures.append(result)
                if fail_fast:
                    break
        if sent is not None:
            sent.send()
        return FuzzResults(master, total, total - len(failures), len(failures), tuple(failures))

    def _run(
        self,
        spec: KernelSpec,
        inputs: Mapping[str, Array],
        call: RunOp | StoredCall,
        options: JudgingOptions,
        sent: SentResults | None = None,
    ) -> ValidationResult:
        stored = call if isinstance(call, StoredCall) else stored_call(call)
        return self._finish(spec, inputs, self._runner(spec).run(inputs, call, options), options, stored, sent)

    def _finish(
        self,
        spec: KernelSpec,
        inputs: Mapping[str, Array],
        judged: Judged,
        options: JudgingOptions,
        call: StoredCall | None = None,
        sent: SentResults | None = None,
    ) -> ValidationResult:
        seed = 0
        if not judged.passed:
            with Store(self._root()) as store:
                seed = keep(store, spec, StoredValidation(spec.name, dict(inputs), options, call), judged)
        if sent is not None:
            sent.add(inputs, judged, seed)
        result = result_of(spec, judged, seed)
        self._results.append(result)
        return result

    def _stored(self, seed: int) -> StoredValidation:
        with Store(self._root()) as store:
            found = store.find(str(seed))
            if not found:
                raise ValueError(f"no stored failure has the seed {seed}; list_failures() has those that do")
            failure = found[0].failure
            return stored_validation(failure, store.details(failure.kernel, failure.dtype, str(seed)))


def result_of(spec: KernelSpec, judged: Judged, seed: int) -> ValidationResult:
    """Return the public form of a judgement."""
    info = {} if judged.passed else {"case": str(seed), "call": f"Client().reproduce({seed}, run_op=...)"}
    stats = {"max_diff": judged.max_diff, "max_rel_diff": judged.max_rel_diff, "compared": judged.compared}
    return ValidationResult(
        judged.passed, seed, spec.name, judged.max_diff, judged.max_rel_diff, judged.failures, stats, info
    )


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
