"""The Triton language in the emulator: every case of `tests/triton/language`, counted.

    python -m benchmarks.triton_language [--jobs J] [--select EXPRESSION] [--json]

Each case compiles a kernel with Triton, runs it in the emulator under all checkers, and compares the result with
NumPy: integers and bits exactly, floats with fp64 within the error that the PTX manual states for the instruction. A
finding is a failure as well: all kernels are correct. Needs the extra `triton`, PyTorch and pytest-xdist. Exit status 1
if a case fails.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

_TESTS = Path(__file__).parent.parent / "tests" / "triton"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--jobs", type=int, default=2, help="processes; 2 unless given")
    parser.add_argument("--select", default="", help="pytest's -k")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest", "-c", str(_TESTS / "pytest.ini"), str(_TESTS / "language")),
                *("--all-cases", "-q", "-n", str(options.jobs), f"--junitxml={report}", "-k", options.select),
            ],
            stdout=sys.stderr,
            check=False,
        )
        cases = list(ElementTree.parse(report).iter("testcase"))
    counts: dict[str, Counter[str]] = {}
    for case in cases:
        module = case.get("classname", "").rpartition(".")[2].removeprefix("test_").replace("_", " ")
        ending = next((tag for tag in ("failure", "error", "skipped") if case.find(tag) is not None), "passed")
        counts.setdefault(module, Counter())[ending] += 1
    total = sum(counts.values(), Counter())
    wall = round(time.perf_counter() - started)
    processor = round(sum(float(case.get("time", 0)) for case in cases))
    if options.json:
        print(json.dumps({"modules": counts, "total": total, "seconds": wall, "seconds of the cases": processor}))
    else:
        print("| Area | Passed | Failed | Not in the language |\n| --- | --: | --: | --: |")
        for module, count in [*sorted(counts.items()), ("total", total)]:
            print(f"| {module} | {count['passed']} | {count['failure'] + count['error']} | {count['skipped']} |")
        print(f"\n{wall} s with {options.jobs} processes; {processor} s in the cases.")
    return 0 if total["passed"] and not total["failure"] + total["error"] else 1


if __name__ == "__main__":
    sys.exit(main())
