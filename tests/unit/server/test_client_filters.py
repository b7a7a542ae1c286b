"""The clients' filters of Python files: without a name that the server reads they would not start it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuemu_lsp.engine.source.python.cuda_calls import APIS

EDITORS = Path(__file__).resolve().parents[3] / "editors"


@pytest.mark.parametrize("client", ["vscode/src/attention.ts", "neovim/lsp/gpuemu_lsp.lua"])
def test_a_client_knows_the_calls_that_compile_strings(client: str):
    (pattern,) = re.findall(r"CUDA_STRING = .*\((?:\?:)?([\w|]+)\)", (EDITORS / client).read_text(encoding="utf-8"))
    assert set(pattern.split("|")) == set(APIS)
