"""What a program sees of the checker without a call of its own: lines in the log, and a table at its end."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading

import numpy as np
import pytest

from gpuemu.verifier import EquivalenceChecker, equivalent

_PROGRAM = """
import numpy as np
from gpuemu.verifier import EquivalenceChecker, equivalent

@equivalent(lambda x: x.sum(axis=1))
def row_sum(x):
    return x.sum(axis=1) + {wrong}

EquivalenceChecker.start(execution_sample_probability=1.0, store=False)
for _ in range(5):
    row_sum(np.ones((2, 3), np.float32))
"""


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_program_without_a_stop_prints_a_table(tmp_path, wrong):
    (tmp_path / "program.py").write_text(_PROGRAM.format(wrong=wrong))
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout == ""
    assert ("gpuemu.verifier: not clean" if wrong else "gpuemu.verifier: clean") in done.stderr
    assert "row_sum" in done.stderr
    assert ("call 0: result" in done.stderr) == bool(wrong)


def test_counts_are_logged(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    logged, lines = threading.Event(), []

    class Lines(logging.Handler):
        def emit(self, record):
            if record.getMessage().startswith("{"):
                lines.append(json.loads(record.getMessage()))
                if len(lines) == 2:
                    logged.set()

    logger, handler = logging.getLogger("gpuemu.verifier"), Lines()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        EquivalenceChecker.start(execution_sample_probability=1.0, log_every=0.01)
        equivalent(lambda x: x)(lambda x: x)(np.ones(3))
        EquivalenceChecker.flush()
        assert logged.wait(60)  # lines come while nothing is checked, too
    finally:
        EquivalenceChecker.stop()
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    assert list(lines[0]) == ["calls", "checked", "outliers", "failed", "dropped", "not_executed", "pending"]
    with pytest.raises(ValueError, match="log_every is 0"):
        EquivalenceChecker.start(log_every=0)
