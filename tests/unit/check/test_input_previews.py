"""Previews of the inputs of a replayed case: short, also for large inputs that minimising has cleared."""

from __future__ import annotations

import numpy as np
import pytest

from gpuemu_lsp.engine.check.model import MinimisedFailure, Replay
from gpuemu_lsp.engine.check.replay import previews
from gpuemu_lsp.engine.fuzz.model import Case, CaseKey
from gpuemu_lsp.engine.report.replays import render_smaller
from gpuemu_lsp.engine.report.text import TextStyle

SINGLE = np.zeros((64, 64), np.float32)
SINGLE[3, 7] = 1.5


@pytest.mark.parametrize(
    ("tensor", "line"),
    [
        (np.zeros((512, 512), np.float32), "x: float32 [512, 512], all 0"),
        (SINGLE, "x[3, 7] = 1.5; all others are 0"),
        (np.arange(3, dtype=np.int32), "[0, 1, 2]"),
        (np.ones((300, 2, 2, 2), np.float32), "[1., 1., 1., 1., ..., 1., 1., 1., 1.]"),
    ],
)
def test_an_input_takes_two_lines_at_most(tensor: np.ndarray, line: str) -> None:
    case = Case(CaseKey(1, "default"), "float32", {}, {"x": tensor}, {}, {}, (1, 1, 1), (1, 1, 1), 0)
    replay = Replay("k", "float32", "2", "still fails", "numeric/nan", "", inputs=previews(case))
    text = render_smaller(MinimisedFailure("1", {}, "2", replay), "/p", TextStyle())
    shown = [part.strip() for part in text.split("\n\n")[0].splitlines()[1:]]
    assert line in shown and len(shown) <= 2
