"""Answers to a report, several at once, in the order in which they were found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpuemu.judge.judgement import judge
from gpuemu.judge.layouts import NoAnswerError, find_answers
from gpuemu.judge.model import Row, Verdict
from gpuemu.judge.report import line, render
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_USAGE


@dataclass(frozen=True, slots=True)
class JudgedAnswers:
    """The report as text and the exit code; ``problem`` is why there is no report, empty if there is one."""

    text: str
    exit_code: int
    problem: str = ""


def run(
    paths: Sequence[Path],
    references: Sequence[Path],
    form: str,
    progress: Callable[[str], None],
    *,
    jobs: int,
    seconds: float,
) -> JudgedAnswers:
    """Judge the answers below paths.

    The exit code is 0 if all are ``same``; 1 if one ``differs``, is ``unsafe`` or a ``hack``, or does not build; 2 if
    one was not judged, or there is none. ``progress`` gets a line for each row.
    """
    try:
        answers = find_answers(paths, references)
    except NoAnswerError as error:
        return JudgedAnswers("", EXIT_USAGE, str(error))
    rows: list[Row] = []
    with ThreadPoolExecutor(jobs) as pool:
        for row in pool.map(lambda answer: judge(answer, seconds), answers):
            rows.append(row)
            progress(f"{len(rows)} of {len(answers)}: {line(row)}")
    return JudgedAnswers(render(rows, form), _exit_code({row.verdict for row in rows}))


def _exit_code(verdicts: set[Verdict]) -> int:
    if verdicts - {Verdict.SAME, Verdict.NOT_JUDGED}:
        return EXIT_FINDINGS
    return EXIT_CLEAN if verdicts == {Verdict.SAME} else EXIT_USAGE
