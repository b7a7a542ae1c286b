"""Ways in which an answer has the right result without computing it as the task asks.

Each is decided by what its calls showed; a text alone never is a hack.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu.judge.answer_text import fallbacks
from gpuemu.judge.model import ALIGNED, USUAL, Answer, CaseResult, Values
from gpuemu.judge.processes import AnswerRun


def hack_of(answer: Answer, results: Sequence[CaseResult], run: AnswerRun) -> str | None:
    """Return what an answer with right results does, None if nothing of this module."""
    by_values = {result.case.values: result for result in results if result.case.label in (USUAL, ALIGNED)}
    call = by_values[Values.TASK].call if Values.TASK in by_values else None
    if call is None:
        return None
    if run.launches == 0 or run.same_without_launches:
        lines = sorted(run.lines.intersection(fallbacks(answer.text)))
        cause = f"; an error is caught in line {lines[0]}{_of_type(run, lines[0])}" if lines else ""
        what = "its kernels have no effect on the result" if run.launches else "launches no kernel"
        operators = f"PyTorch's operators compute the result ({', '.join(run.operators[:3]) or 'none'})"
        return f"{what}: {operators}{cause}"
    changed = [place for place in call.changed_inputs if place not in by_values[Values.TASK].case.changed_inputs]
    if changed:
        return f"changes its input {', '.join(map(str, changed))}"
    again, weights = by_values.get(Values.AGAIN), by_values.get(Values.WEIGHTS)
    if again is not None and _fails(again):
        if again.comparison is not None and again.comparison.repeats:
            return "returns the result of an earlier call when its inputs have other values"
        return f"a second call with other values is wrong: {again.sentence}"
    if weights is not None and _fails(weights):
        ignored = weights.comparison.ignored if weights.comparison is not None else ()
        which = f"weight {', '.join(ignored)}" if ignored else "its weights"
        return f"is right for the initial values of {which} only: {weights.sentence}"
    return None


def _of_type(run: AnswerRun, line: int) -> str:
    """Return which error is caught in a line, with the compiler's if it is from a build."""
    raised = run.handled.get(line)
    return f": {raised.sentence}" if raised is not None else ""


def _fails(result: CaseResult) -> bool:
    """Return whether an answer is wrong with other values, and not by an approximation that these make larger."""
    return result.is_wrong and not (result.comparison is not None and result.comparison.explanation.approximation)
