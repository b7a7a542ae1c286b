"""The TensorFlow blocks of the documentation run as they are printed."""

from __future__ import annotations

import pytest
from support.guides import run_guide


def test_blocks_run(tmp_path, monkeypatch):
    namespace = run_guide("frameworks.md", tmp_path, monkeypatch, section="TensorFlow", files=["python-package.md"])
    failure = namespace["check"].failures[0]
    assert failure.message.startswith("grad of arg0[")
    assert failure.expected == pytest.approx(2 * failure.actual)
    assert namespace["results"].passed == 5
    assert namespace["ctx"]["gradients"]["x"].passed
