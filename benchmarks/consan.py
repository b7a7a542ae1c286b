"""Triton's tests of its concurrency sanitizer (ConSan) against our checkers: failing cases found, clean ones flagged.

    python -m benchmarks.consan --path FILE [--seconds N] [--json] [-k EXPRESSION]

``FILE`` is ``python/test/gluon/test_consan.py`` of a checkout of github.com/triton-lang/triton, in an environment with
Triton, PyTorch and pytest. Its kernels in Gluon are compiled for sm_90 without ConSan's instrumentation, and run in the
emulator. Each test runs a kernel that is wrong or correct and asserts ConSan's message, or that there is none; here the
message is what the case is expected to be, and our errors and warnings are what is found.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpuemu.triton import Session, emulated
from gpuemu_lsp.engine.findings import Severity

_OF_MBARRIERS = "mbarrier: "
_ORDER = ("memory/uninitialized-read", "memory/shared-race", "sync/async-order")
_KINDS = (
    ("outstanding", _ORDER),
    ("pending access", _ORDER),
    ("Deadlock", ("sync/hang", "sync/deadlock")),
    ("Barrier", ("sync/mbarrier", f"{_OF_MBARRIERS}memory/uninitialized-read")),
)
"""Rules that say what a message of ConSan says, by a part of the message."""
_OF_COPIES = re.compile(r"in flight|has not been waited for")
"""In the message of an uninitialised read: of bytes that a copy is to bring. Other bytes nothing has written, which is
right, but nothing that ConSan looks for: a test may load, or multiply, a tile that it has not filled."""
_OF_THE_COMPILER = ("test_cache_miss", "test_consan_uses_profile_scratch")
"""Tests of the instrumentation itself."""


@dataclass
class Case:
    """One case: what ConSan is to say, empty for a correct kernel; the rules of our findings; why it did not run."""

    name: str
    expected: list[str] = field(default_factory=list)
    wrong: bool = False
    rules: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)
    """Right findings of what ConSan does not check: reads of memory that nothing has written."""
    problem: str = ""

    @property
    def verdict(self) -> str:
        """``found``, ``other kind``, ``missed``, ``silent``, ``flagged`` or ``not run``."""
        if self.problem:
            return "not run"
        if not self.wrong:
            return "flagged" if self.rules else "silent"
        kinds = [rules for part, rules in _KINDS if any(part in message for message in self.expected)]
        if any(rule in rules for rules in kinds for rule in self.rules):
            return "found"
        return "other kind" if self.rules else "missed"


class _Output:
    """What ConSan would have written: whatever a test looks for is there, and is noted."""

    def __init__(self, case: Case) -> None:
        self._case = case

    def __contains__(self, text: object) -> bool:
        self._case.expected.append(str(text))
        return True

    def __eq__(self, other: object) -> bool:
        return other == ""

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True)
class _Result:
    driver_stderr_output: _Output
    exc: None = None


class _NoEnvironment:
    """In place of pytest's fixture: the tests switch the instrumentation on with it."""

    def setenv(self, *_: object) -> None:
        """Set nothing."""


class Plugin:
    """Runs the cases in this process, one launch each, in an emulated session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.cases: list[Case] = []

    @pytest.fixture
    def device(self) -> str:
        """Return the device of the tensors."""
        return "cuda"

    @pytest.fixture
    def fresh_knobs(self) -> None:
        """Stand for Triton's own fixture."""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """Leave out what tests the instrumentation."""
        items[:] = [item for item in items if not item.name.startswith(_OF_THE_COMPILER)]
        for module in {item.module for item in items}:
            module.run_in_process = self._run
            module.assert_expected_cuda_failure = self._expect_failure

    def pytest_runtest_setup(self, item: Any) -> None:
        """Begin a case."""
        self.cases.append(Case(item.name))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Note what was skipped or has failed."""
        if report.skipped:
            # A condition of a decorator is tested before this case begins.
            if self.cases and self.cases[-1].name == report.nodeid.rpartition("::")[2]:
                self.cases.pop()
        elif report.failed:
            text = str(getattr(report.longrepr, "reprcrash", None) or report.longrepr)
            self.cases[-1].problem = self.cases[-1].problem or text.strip().splitlines()[-1][:300]

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Say how a case has ended: a run takes minutes."""
        if self.cases and self.cases[-1].name == nodeid.rpartition("::")[2]:
            case = self.cases[-1]
            print(f"{case.verdict}: {case.name}: {case.problem or ' '.join(case.rules)}", file=sys.stderr, flush=True)

    def _run(self, function: Callable[..., object], arguments: Sequence[object]) -> _Result:
        case, before = self.cases[-1], len(self._session.launches)
        try:
            function(*(_NoEnvironment() if isinstance(one, pytest.MonkeyPatch) else one for one in arguments))
        except Exception as error:  # a compilation that fails, or an argument that is not supported
            case.problem = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"[:300]
        for launch in self._session.launches[before:]:
            for finding in launch.findings:
                if finding.rule.startswith("engine/"):
                    case.problem = case.problem or finding.message
                elif finding.severity not in (Severity.ERROR, Severity.WARNING):
                    continue
                of_mbarrier = "mbarrier" in finding.message or "mbarrier" in str(finding.data.get("instruction"))
                unwritten = finding.rule == "memory/uninitialized-read" and not _OF_COPIES.search(finding.message)
                if unwritten and not of_mbarrier:
                    case.beyond.append(finding.message)
                else:
                    # The message of a race of a bulk copy names the mbarrier that was to order it.
                    prefix = _OF_MBARRIERS if of_mbarrier and finding.rule == "memory/uninitialized-read" else ""
                    case.rules.append(prefix + finding.rule)
                    case.messages.append(finding.message)
        return _Result(_Output(case))

    def _expect_failure(self, exception: object) -> None:
        self.cases[-1].wrong = True


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the cases and print the result; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--path", type=Path, required=True, help="test_consan.py of a checkout of Triton")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of each launch")
    parser.add_argument("--json", action="store_true", help="print every case as JSON")
    parser.add_argument("-k", dest="selection", help="cases to run, as pytest selects them")
    options = parser.parse_args(arguments)
    words = [str(options.path), "-q", "-c", "/dev/null", "--rootdir", str(options.path.parent), "--tb=short"]
    words += ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:gpuemu", "-p", "no:gpuemu-triton", "-o", "addopts="]
    words += ["-k", options.selection] if options.selection else []
    with emulated("sm_90", on_finding="collect", seconds=options.seconds) as session:
        plugin = Plugin(session)
        pytest.main(words, [plugin])
    if options.json:
        json.dump([{**asdict(case), "verdict": case.verdict} for case in plugin.cases], sys.stdout, indent=1)
        return 0
    _print(plugin.cases)
    return 0


def _print(cases: Sequence[Case]) -> None:
    for name in dict.fromkeys(case.name.partition("[")[0] for case in cases):
        counts = Counter(case.verdict for case in cases if case.name.partition("[")[0] == name)
        print(f"{name}: {', '.join(f'{count} {verdict}' for verdict, count in sorted(counts.items()))}")
    counts = Counter(case.verdict for case in cases)
    wrong = counts["found"] + counts["other kind"] + counts["missed"]
    print(f"\nfailing cases: {counts['found']} of {wrong} found by kind, {counts['other kind']} as another kind")
    print(f"correct cases: {counts['flagged']} of {counts['flagged'] + counts['silent']} flagged")
    beyond = sum(bool(case.beyond) for case in cases)
    print(f"reads of memory that nothing has written, which ConSan does not look for: in {beyond} cases")
    print(f"not run: {counts['not run']}")
    for reason, count in Counter(case.problem for case in cases if case.problem).most_common(12):
        print(f"  {count}: {reason}")


if __name__ == "__main__":
    sys.exit(main())
