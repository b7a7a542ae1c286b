"""Published examples of a language under ``gpuemu run``, each in a process of its own: right results, and findings."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 540


@dataclass(frozen=True, slots=True)
class Example:
    """A program: a name for the report, the folder that it runs in, its script, and the script's arguments."""

    name: str
    folder: Path
    script: Path
    arguments: Sequence[str]


def run_examples(examples: Iterable[Example], options: Sequence[str] = (), seconds: int = _SECONDS) -> None:
    """Run examples, print a line for each, and how many ended well with all launches checked and no error.

    ``options`` are those of ``gpuemu run``; ``seconds`` is the time limit of an example.
    """
    right = count = 0
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", "run", "--format", "json", "--output", str(report)]
        for example in examples:
            report.unlink(missing_ok=True)
            started = time.monotonic()
            done = subprocess.run(
                [*command, *options, "--timeout", str(seconds), str(example.script), "--", *example.arguments],
                cwd=example.folder,
                capture_output=True,
                text=True,
                check=False,
            )
            elapsed = time.monotonic() - started
            count += 1
            if not report.exists():
                print(f"{example.name:70} not run: {done.stderr.strip()[-200:]}", flush=True)
                continue
            run = json.loads(report.read_text())
            found = Counter(finding["rule"] for finding in run["findings"] if finding["severity"] == "error")
            good = run["exit_status"] == 0 and not found and 0 < run["launches"] == run["checked"]
            right += good
            said = ", ".join(f"{times} {rule}" for rule, times in found.items()) or ("right" if good else "not right")
            last = done.stderr.strip().splitlines()[-1:] if run["exit_status"] and not found else []
            print(
                f"{example.name:70} {run['checked']:4} of {run['launches']:4} launches, exit {run['exit_status']}, "
                f"{elapsed:4.0f} s: {'; '.join([said, *filter(None, [run['problem']]), *last])}",
                flush=True,
            )
    print(f"{right} of {count} right and without a finding")
