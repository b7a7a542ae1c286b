"""The JAX blocks of the documentation run as they are printed."""

from __future__ import annotations

from support.guides import run_guide


def test_blocks_run(tmp_path, monkeypatch):
    namespace = run_guide("frameworks.md", tmp_path, monkeypatch, section="JAX", files=["python-package.md"])
    assert namespace["check"].failures[0].message.startswith("grad of arg0[7, 7] = 3.855138, expected 7.710276")
    assert namespace["results"].passed == 5
    assert namespace["ctx"]["gradients"]["x"].passed
