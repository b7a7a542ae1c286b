"""Runs of one op of gpuemu.toml: functions of the program in its process, references and ops of files in workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gpuemu.ops.evaluations import failed_call, judged_of
from gpuemu.ops.judgement import Judged
from gpuemu.ops.stored_calls import StoredCall
from gpuemu.ops.transfer import loaded
from gpuemu.ops.workers import EvaluationError, Evaluator
from gpuemu.verifier.recorded_calls import decoded
from gpuemu.verifier.values import Array, as_array, leaves, snapshot
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.subjects.ops.calls import launch_findings, launch_timeout
from gpuemu_lsp.engine.workers.wire import to_json

RunOp: TypeAlias = "Callable[[dict[str, Any]], Any]"


@dataclass(frozen=True, slots=True)
class JudgingOptions:
    """The tolerance that a call overrides, and the keyword arguments of the op and its reference.

    ``each_operation_rounds``: the op rounds every intermediate result to the dtype of its tensors.
    """

    atol: float | None = None
    rtol: float | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    each_operation_rounds: bool = False

    def record(self) -> dict[str, Json]:
        """Return the options as JSON; keyword arguments without a JSON form as text."""
        rounds = self.each_operation_rounds
        return {"atol": self.atol, "rtol": self.rtol, "kwargs": keywords(self.kwargs), "each_operation_rounds": rounds}


@dataclass(frozen=True, slots=True)
class OpRunner:
    """An op with the worker processes that evaluate its reference.

    The reference is a file, so that a worker can run it. A function that a program passes may be a closure over
    anything, and is called where it is.
    """

    spec: KernelSpec
    evaluator: Evaluator

    def run(
        self, inputs: Mapping[str, Array], call: RunOp | StoredCall, options: JudgingOptions = JudgingOptions()
    ) -> Judged:
        """Call the op and compare its output with the reference. The inputs are copied: the op may change them."""
        if isinstance(call, StoredCall):
            return self._judged(inputs, None, call, options)
        try:
            output = call(snapshot(dict(inputs)))
            outputs = {path: _array(leaf) for path, leaf in leaves(output).items()}
        except Exception as error:
            timeout = launch_timeout(launch_findings(error))
            if timeout is not None:
                return failed_call(timeout.message, timeout.rule, "NotExecuted")
            return failed_call(f"{type(error).__name__}: {error}")
        return self._judged(inputs, outputs, None, options)

    def judge(self, inputs: Mapping[str, Array], output: Any, options: JudgingOptions) -> Judged:
        """Compare an output with the reference."""
        return self._judged(inputs, {path: _array(leaf) for path, leaf in leaves(output).items()}, None, options)

    def reference(self, inputs: Mapping[str, Array], kwargs: Mapping[str, Any]) -> Any:
        """Return the result of the reference in fp64."""
        payload: dict[str, Json] = {"spec": to_json(self.spec), "kwargs": keywords(kwargs)}
        for value in self.evaluator.run("reference", payload, {"inputs": inputs}, self._code):
            if "result" in value:
                result = value["result"]
                assert isinstance(result, dict)
                return decoded(result["result"], loaded(value["arrays"]))
        raise RuntimeError("the reference returned nothing")

    def wrong_gradients(
        self,
        inputs: Mapping[str, Array],
        grads: Mapping[str, Array | None],
        cotangent: Array,
        tolerance: tuple[float, float],
        kwargs: Mapping[str, Any],
    ) -> dict[str, str | None]:
        """Compare gradients with finite differences of the reference; return a message by input, None if it is right.

        ``cotangent`` is that of the op's first output, of its shape.
        """
        payload: dict[str, Json] = {"spec": to_json(self.spec), "kwargs": keywords(kwargs)}
        payload |= {"atol": tolerance[0], "rtol": tolerance[1]}
        arguments = {"inputs": inputs, "grads": grads, "cotangent": {"cotangent": cotangent}}
        found: dict[str, str | None] = {}
        for value in self.evaluator.run("gradients", payload, arguments, self._code):
            if "gradient" in value:
                message = value["message"]
                found[str(value["gradient"])] = None if message is None else str(message)
        return found

    @property
    def _code(self) -> str:
        return self.spec.reference or self.spec.source

    def _judged(
        self,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Any] | None,
        call: StoredCall | None,
        options: JudgingOptions,
    ) -> Judged:
        payload: dict[str, Json] = {"spec": to_json(self.spec), "call": to_json(call), **options.record()}
        try:
            for value in self.evaluator.run("judge", payload, {"inputs": inputs, "outputs": outputs}, self._code):
                if "judged" in value:
                    return judged_of(value["judged"])
        except EvaluationError as error:
            if error.stage == "op":
                return failed_call(error.message)
            record = {"kind": "ReferenceError", "message": error.message, "index": (), "expected": None, "actual": None}
            return Judged(False, (record,), "reference/error")
        raise RuntimeError("the evaluation returned nothing")


def keywords(kwargs: Mapping[str, Any]) -> dict[str, Json]:
    """Return keyword arguments as JSON; other values as text."""
    plain = bool | int | float | str
    return {name: value if value is None or isinstance(value, plain) else str(value) for name, value in kwargs.items()}


def _array(value: Any) -> Any:
    return None if value is None else as_array(value)
