"""Answers to a report, several at once, in the order in which they were found."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuemu.judge.earlier_rows import EarlierRows, EarlierRowsError
from gpuemu.judge.judgement import judge
from gpuemu.judge.layouts import NoAnswerError, find_answers
from gpuemu.judge.model import Answer, Verdict
from gpuemu.judge.processes import stopped
from gpuemu.judge.report import line, record, render
from gpuemu_lsp.engine.jobs.cluster import ClusterError, connected
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_INTERRUPTED, EXIT_USAGE


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
    only: Sequence[str] = (),
    resume: Path | None = None,
    dask: str | None = None,
) -> JudgedAnswers:
    """Judge the answers below paths.

    The exit code is 0 if all are ``same``; 1 if one ``differs``, is ``unsafe`` or a ``hack``, or does not build; 2 if
    one was not judged, or there is none.

    Parameters
    ----------
    paths, references
        Where answers are, and tasks that are kept apart.
    form
        A format of :data:`gpuemu.judge.report.FORMATS`.
    progress
        Gets a line for each row.
    jobs, seconds
        Answers at once, and the time limit of each for each group of sizes.
    only
        Names of answers; all if there are none.
    resume
        A file that gets each row when it is judged; rows of answers that it has already are not judged again.
    dask
        ``HOST:PORT`` of a Dask scheduler whose workers judge, or ``local``; they read the same files.
    """
    rows: list[Mapping[str, Any]] = []
    try:
        answers = [answer for answer in find_answers(paths, references) if not only or answer.name in only]
        if not answers:
            raise NoAnswerError(f"no answer is called {' or '.join(only)}")
        with ExitStack() as stack:
            earlier = stack.enter_context(EarlierRows(resume)) if resume is not None else None
            kept = {place: row for place, answer in enumerate(answers) if earlier and (row := earlier.row(answer))}
            waiting = [answer for place, answer in enumerate(answers) if place not in kept]
            judged = _judged(waiting, seconds, jobs, dask, stack)
            for place, answer in enumerate(answers):
                row = kept.get(place) or next(judged)
                rows.append(row)
                if earlier is not None and place not in kept:
                    earlier.add(answer, row)
                progress(f"{len(rows)} of {len(answers)}: {line(row)}")
    except (NoAnswerError, EarlierRowsError, ClusterError) as error:
        return JudgedAnswers("", EXIT_USAGE, str(error))
    except KeyboardInterrupt:
        count = len(rows)
        judged_text = "1 answer was judged" if count == 1 else f"{count} answers were judged"
        following = f"name {resume} once more to go on" if resume else "with --resume FILE they would be kept"
        return JudgedAnswers("", EXIT_INTERRUPTED, f"interrupted; {judged_text}: {following}")
    return JudgedAnswers(render(rows, form), _exit_code({row["verdict"] for row in rows}))


def _judged(
    answers: Sequence[Answer], seconds: float, jobs: int, dask: str | None, stack: ExitStack
) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of answers, as records, in their order."""
    if dask is None:
        pool = stack.enter_context(ThreadPoolExecutor(jobs))
        stack.push(lambda error, *_: _end(pool) if error is KeyboardInterrupt else None)
        return iter(pool.map(lambda answer: _record(answer, seconds), answers))
    client = stack.enter_context(connected(dask, jobs))
    futures = client.map(_record, answers, [seconds] * len(answers), pure=False)
    return (future.result() for future in futures)


def _end(pool: ThreadPoolExecutor) -> None:
    """End the judgements of a pool."""
    pool.shutdown(wait=False, cancel_futures=True)
    with stopped():
        pool.shutdown()


def _record(answer: Answer, seconds: float) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(json.dumps(record(judge(answer, seconds))))
    return row


def _exit_code(verdicts: set[str]) -> int:
    if verdicts - {Verdict.SAME, Verdict.NOT_JUDGED}:
        return EXIT_FINDINGS
    return EXIT_CLEAN if verdicts == {Verdict.SAME} else EXIT_USAGE
