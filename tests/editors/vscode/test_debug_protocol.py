"""The debug adapter, driven by a client of VS Code's authors."""

from __future__ import annotations

import sys
from pathlib import Path

from support.corpus import copy_kernels
from support.vscode import SCRIPTS, installed, run_script, with_server

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.store import Store
from gpuemu_lsp.engine.subjects.request import CheckOptions


def test_the_adapter_answers_somebody_elses_client(tmp_path: Path, editor_environment: dict[str, str]) -> None:
    root = tmp_path / "project"
    root.mkdir()
    copy_kernels(["odd_reduce_buggy"], root)
    (request,) = collect([], CheckOptions(cases=6), root).requests
    for _ in check_kernel(request, lambda *_: None):
        pass
    with Store(root) as store:
        case = store.failures(1)[0].case
    facts = {"root": str(root), "source": request.spec.source, "case": case, "line": 13}
    facts["program"] = str(Path(sys.executable).parent / "gpuemu-lsp")
    output = run_script(installed(), SCRIPTS / "protocol.mjs", tmp_path, with_server(editor_environment), facts)
    assert "scenario passed" in output
