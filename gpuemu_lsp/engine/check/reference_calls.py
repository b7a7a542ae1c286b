"""Calls of the user's reference during a check: deadline, verification of its result, findings when it fails."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.check.finding_placer import FindingFactory, line_place
from gpuemu_lsp.engine.deadline import deadline
from gpuemu_lsp.engine.findings import Finding, Related, Role
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.oracle import Reference, ReferenceFailure, ReferenceOutput, call, load
from gpuemu_lsp.engine.oracle.reference import changing_line, same_outputs
from gpuemu_lsp.engine.oracle.scripts.stdin_scripts import StdinScript
from gpuemu_lsp.engine.subjects.request import CheckRequest

_LOADING = 4
"""Times as long as a call may take to load a reference: the first import of PyTorch takes 10 s where disks are slow."""


def load_reference(request: CheckRequest, findings: FindingFactory) -> tuple[Reference | None, Finding | None]:
    """Load the configured reference; return it, or the finding that says why it cannot be loaded, or neither."""
    spec = request.spec
    if spec.reference is None:
        return None, None
    try:
        with deadline(_LOADING * request.options.case_seconds):
            return load(spec.reference, spec.reference_function), None
    except ReferenceFailure as failure:
        return None, findings.reference_failure(failure, None)


def op_places(findings: FindingFactory, reference: Reference | None) -> tuple[Related, ...]:
    """Return the places that findings of an op also belong to: its entry in gpuemu.toml, and its reference."""
    plan, found = findings.plan, list[Related]()
    entry = findings.config_place("name")
    if entry != plan.place:
        found.append(Related(entry, "the entry of the op", Role.OP_ENTRY))
    place = None
    if reference is not None:
        line: int | None = None
        if not isinstance(reference.function, StdinScript):
            with contextlib.suppress(OSError, SyntaxError, ValueError):  # the file was saved again during the check
                line = reference.result_line
        place = line_place(reference.path, line or 1)
    if place is not None:
        found.append(Related(place, "the reference of the op", Role.OP_REFERENCE))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class ReferenceCall:
    """Result of a call: expected outputs if there are any, findings, and whether the reference is unusable."""

    output: ReferenceOutput | None = None
    findings: tuple[Finding, ...] = ()
    failed: bool = False


@dataclass(slots=True)
class ReferenceCaller:
    """Calls the reference on the cases of one plan; without a ``reference`` every call has no output.

    While ``verified`` is False, each call is made twice to see whether the reference is deterministic. ``changes`` is
    the finding of a reference that changes its inputs, once a call has.
    """

    reference: Reference | None
    findings: FindingFactory
    case_seconds: float
    verified: bool = False
    changes: Finding | None = None
    timing: dict[str, float] = field(default_factory=dict)

    def expect(self, case: Case) -> ReferenceCall:
        """Call the reference on a case."""
        if self.reference is None:
            return ReferenceCall()
        started = time.perf_counter()
        try:
            with deadline(self.case_seconds):
                expected = call(self.reference, self.findings.plan, case)
                if not self.verified and not same_outputs(expected, call(self.reference, self.findings.plan, case)):
                    return ReferenceCall(findings=(self._not_deterministic(case),), failed=True)
        except ReferenceFailure as failure:
            return ReferenceCall(findings=(self.findings.reference_failure(failure, case),), failed=True)
        finally:
            milliseconds = (time.perf_counter() - started) * 1e3
            self.timing["reference"] = self.timing.get("reference", 0.0) + milliseconds
        if expected.changed_inputs and self.changes is None:
            self.changes = self._changes_input(case, expected)
        if expected.low_precision and not self.verified:
            return ReferenceCall(expected, (self._low_precision(expected),))
        return ReferenceCall(expected)

    def _not_deterministic(self, case: Case) -> Finding:
        message = "Two calls with the same inputs returned different results, so nothing can be compared with them."
        assert self.reference is not None
        failure = ReferenceFailure(
            "reference/not-deterministic", message, self.reference.path, self.reference.result_line
        )
        return self.findings.reference_failure(failure, case)

    def _changes_input(self, case: Case, expected: ReferenceOutput) -> Finding:
        assert self.reference is not None
        plan, names = self.findings.plan, ", ".join(f"`{name}`" for name in expected.changed_inputs)
        with deadline(self.case_seconds):
            line = changing_line(self.reference, plan, case)
        message = (
            f"The reference changes its {'input' if len(expected.changed_inputs) == 1 else 'inputs'} {names} in place; "
            f"later uses see the changed values, and '{plan.kernel}' does not change it. Work on a copy, such as "
            f'`inputs["{expected.changed_inputs[0]}"].copy()`.'
        )
        failure = ReferenceFailure("reference/changes-input", message, self.reference.path, line)
        found = self.findings.reference_failure(failure, case)
        return replace(found, data={**found.data, "inputs": [*expected.changed_inputs]})

    def _low_precision(self, expected: ReferenceOutput) -> Finding:
        names = ", ".join(expected.low_precision)
        message = f"The reference returns {names} in less than fp64: its own rounding counts as error of the kernel."
        return self.findings.finding("reference/low-precision", message, self.findings.config_place("reference"))
