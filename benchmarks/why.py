"""`gpuemu why` on the planted bugs of the corpus: whether recordings are right, and the mistake is on the path.

    python -m benchmarks.why [--cases FOLDER] [--show] [--moments N] [NAME ...]
    python -m benchmarks.why --correct [--moments N]

FOLDER keeps the failing cases of earlier runs. The mistake is what differs between a kernel and its correct
counterpart; where lines are missing, the statements around the gap count. ``--correct`` compares recordings of the
correct kernels with plain runs.
"""

from __future__ import annotations

import argparse
import difflib
import random
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import tomli

from gpuemu_lsp.engine.check.case_runner import choose_executor
from gpuemu_lsp.engine.check.model import Why
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.check.plan_setup import open_plan
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.check.why import RecordedFailure, recorded_case, why
from gpuemu_lsp.engine.debug.accesses import Accesses
from gpuemu_lsp.engine.debug.history import History
from gpuemu_lsp.engine.emulator.launch.recorder import MemoryPicture, RecordingLimits
from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.report.explanations import render_explanation
from gpuemu_lsp.engine.report.text import TextStyle
from gpuemu_lsp.engine.store import Failure, Store
from gpuemu_lsp.engine.subjects.request import FIRST_CASES, CheckOptions, CheckRequest
from tests.support.corpus import CORPUS, FOLDERS
from tests.support.expectations import read_expectations

LIMITS = RecordingLimits(20 << 20)
COUNTERPARTS = {"tensor_swapped_buggy": "tensor_core"}
"""Correct counterparts that gpuemu.toml does not name."""
_COMMENT = re.compile(r"//.*")


@dataclass(frozen=True, slots=True)
class Result:
    """What one planted bug has shown. ``path`` and ``mistake`` are 1-based lines."""

    kernel: str
    rule: str
    same_outputs: bool
    same_events: bool
    moments: int
    wrong_bytes: int
    path: tuple[int, ...]
    mistake: tuple[int, ...]
    named: bool
    problem: str
    seconds: float

    @property
    def found(self) -> bool:
        """Whether a line of the mistake is on the path."""
        return not set(self.path).isdisjoint(self.mistake)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--cases", type=Path)
    parser.add_argument("--moments", type=int, default=5)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--correct", action="store_true")
    options = parser.parse_args()
    if options.correct:
        compare_correct(options.moments)
        return
    with tempfile.TemporaryDirectory() as temporary:
        root = options.cases or Path(temporary)
        if not (root / FOLDERS[0]).exists():
            shutil.copytree(CORPUS, root, dirs_exist_ok=True)
        results = []
        for request, mistake in bugs(root, set(options.names)):
            result = examined(request, mistake, options.moments, show=options.show)
            print(line(result), flush=True)
            results.append(result)
    print(f"{len(results)} planted bugs; on the path: {sum(one.found for one in results)}")
    print(f"recorded run = plain run: {sum(one.same_outputs and one.same_events for one in results)}")
    print(f"memory as in a second run: {sum(not one.wrong_bytes for one in results)}")


def compare_correct(moments: int) -> None:
    """Compare recordings of the correct kernels, one drawn case of each, with plain runs."""
    equal = total = 0
    for folder in FOLDERS:
        for request in collect([str(CORPUS / folder)], CheckOptions(), CORPUS).requests:
            path = Path(request.spec.source)
            case = None if read_expectations(path).required else drawn_case(request)
            if case is None:
                continue
            same_outputs, same_events, wrong = compared(case, moments)
            total, equal = total + 1, equal + (same_outputs and same_events and not wrong)
            if not (same_outputs and same_events) or wrong:
                print(f"- {request.spec.name}: outputs {same_outputs}, events {same_events}, {wrong} wrong bytes")
    print(f"{total} correct kernels; recorded run = plain run, memory as in a second run: {equal}")


def drawn_case(request: CheckRequest) -> RecordedFailure | None:
    """Return the largest of the first cases of a kernel, and a block in the middle of its grid."""
    request = replace(request, options=replace(request.options, store_root=None))
    prepared = prepare(request)
    if prepared.artifact is None:
        return None
    emulator, _ = choose_executor(request, prepared)
    run = open_plan(request, prepared, prepared.plans[0], emulator)
    cases = draw_cases(run.plan, run.context.seed, FIRST_CASES, run.context.hints)
    launch = run.runner.complete(max(cases, key=lambda case: sum(case.dims.values())))
    x, y, z = launch.grid
    return RecordedFailure(emulator, launch, x * y * z // 2)  # type: ignore[arg-type]


def bugs(root: Path, names: set[str]) -> Iterator[tuple[CheckRequest, tuple[int, ...]]]:
    """Yield a request and the lines of the mistake for each planted bug."""
    for folder in FOLDERS:
        likes = {
            entry["name"]: entry.get("like")
            for entry in tomli.loads((root / folder / "gpuemu.toml").read_text())["kernels"]
        }
        for request in collect([str(root / folder)], CheckOptions(), root).requests:
            path = Path(request.spec.source)
            if (names and request.spec.name not in names) or not read_expectations(path).required:
                continue
            like = COUNTERPARTS.get(path.stem) or likes.get(request.spec.name) or path.stem.removesuffix("_buggy")
            correct = path.parent / f"{like}.cu"
            yield request, mistake_lines(path, correct)


def mistake_lines(path: Path, correct: Path) -> tuple[int, ...]:
    """Return the lines that differ from the correct kernel; around a gap its two neighbours."""
    wrong = _code(path)
    if not correct.exists() or correct == path:
        return expected_lines(path)
    lines: set[int] = set()
    for kind, _, _, first, end in difflib.SequenceMatcher(None, _code(correct), wrong, autojunk=False).get_opcodes():
        if kind in ("replace", "insert"):
            lines |= set(range(first + 1, end + 1))
        elif kind == "delete":
            before = [number for number in range(first) if re.search(r"\w", wrong[number])]
            after = [number for number in range(first, len(wrong)) if re.search(r"\w", wrong[number])]
            lines |= {number + 1 for number in (*before[-1:], *after[:1])}
    # A statement has the line on which it begins, or any other one of it.
    for number in sorted(lines):
        while number < len(wrong) and wrong[number - 1] and not wrong[number - 1].endswith((";", "{", "}")):
            number += 1
            lines.add(number)
    lines -= {
        number for number in lines if not re.search(r"\w", wrong[number - 1]) or "__global__" in wrong[number - 1]
    }
    return tuple(sorted(lines)) or expected_lines(path)


def expected_lines(path: Path) -> tuple[int, ...]:
    """Return the lines with announced findings, of a kernel whose mistake is not in its file."""
    return tuple(item.line + 1 for item in read_expectations(path).required if item.line is not None)


def _code(path: Path) -> list[str]:
    return [_COMMENT.sub("", text).strip() for text in path.read_text().split("\n")]


def stored_failure(request: CheckRequest) -> Failure | None:
    """Return the stored failing case with the smallest sizes; check the kernel first if there is none."""
    for _ in range(2):
        with Store(request.root) as store:
            found = [item.failure for item in store.failures(2000) if item.failure.kernel == request.spec.name]
        expected = read_expectations(Path(request.spec.source))
        rules = {rule for item in expected.required for rule in item.rules}
        found = [one for one in found if one.rule in rules] or found
        if found:
            return min(found, key=lambda one: (not one.optimized, sum(one.dims.values()), one.case))
        for _ in check_kernel(request, lambda *_: None):
            pass
    return None


def examined(request: CheckRequest, mistake: tuple[int, ...], moments: int, *, show: bool) -> Result:
    """Explain one failing case, and compare its recording with plain runs."""
    failure = stored_failure(request)
    name = request.spec.name
    if failure is None:
        return Result(name, "", False, False, 0, 0, (), mistake, False, "no failing case", 0.0)
    started = time.perf_counter()
    answer = next(one for one in why(request, failure, failure.case) if isinstance(one, Why))
    seconds = time.perf_counter() - started
    if show:
        print(render_explanation(answer, request.root, TextStyle()))
    explanation = answer.explanation
    steps = [step for chain in (explanation.chains if explanation else ()) for step in chain.steps]
    path = tuple(
        step.place.range.start.line + 1 for step in steps if Path(step.place.path) == Path(request.spec.source)
    )
    case = recorded_case(request, failure)
    same_outputs = same_events = False
    wrong = 0
    if case is not None:
        same_outputs, same_events, wrong = compared(case, moments)
    return Result(
        name, failure.rule, same_outputs, same_events, moments, wrong, tuple(dict.fromkeys(path)), mistake,
        bool(explanation and explanation.named), answer.problem, seconds,
    )  # fmt: skip


def compared(case: RecordedFailure, moments: int) -> tuple[bool, bool, int]:
    """Return whether outputs and events of the recorded run are those of the plain one, and the wrong bytes of memory.

    Memory is rebuilt at random moments, and compared with that of a second run, which copies it there.
    """
    emulator, request, block = case.emulator, case.request, case.block
    plain = emulator.run(request)
    outcome, recording = emulator.record(request, block, LIMITS)
    if recording is None:
        return False, False, -1
    history = History(recording)
    accesses = Accesses(history)
    wrong = 0
    generator = random.Random(0)
    for _ in range(moments if len(recording.runs) > 1 else 0):
        run = generator.randrange(1, len(recording.runs))
        _, other = emulator.record(request, block, LIMITS, picture_at=run)
        if other is None:
            continue
        for picture in other.memory:
            wrong += _difference(picture, accesses, int(history.start[run]))
    return _same_outputs(plain, outcome), plain.events == outcome.events and plain.status == outcome.status, wrong


def _difference(picture: MemoryPicture, accesses: Accesses, tick: int) -> int:
    data, valid = accesses.memory(picture.address, len(picture.data), tick)
    rebuilt = np.frombuffer(data, dtype=np.uint8)
    known = valid & picture.initialised
    return int(np.sum(rebuilt[known] != picture.data[known]) + np.sum(valid != picture.initialised))


def _same_outputs(plain: Outcome, recorded: Outcome) -> bool:
    names = plain.buffers.keys()
    return names == recorded.buffers.keys() and all(
        np.array_equal(plain.buffers[name], recorded.buffers[name]) for name in names
    )


def line(result: Result) -> str:
    """Return one row of the table."""
    mark = "+" if result.found else "-"
    equal = "=" if result.same_outputs and result.same_events else "DIFFERS"
    memory = "" if not result.wrong_bytes else f" memory: {result.wrong_bytes} bytes differ"
    names = "" if result.named else " (no names)"
    path = ",".join(map(str, result.path))
    return (
        f"{mark} {result.kernel:24} {result.rule:28} {equal}{memory} {result.seconds:5.2f} s "
        f"mistake {','.join(map(str, result.mistake))} path {path}{names} {result.problem}"
    )


if __name__ == "__main__":
    main()
