"""A registered Triton kernel in a real Neovim, headless and in a terminal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from support.editor_project import without_editor
from support.model_pairs import BIAS
from support.neovim import HARNESS, command_of, run_scenario, variables_of
from support.terminal import COLUMNS, ROWS, record
from support.vscode import installed, run_script


def test_a_missing_mask_is_shown_and_corrected(project, editor_environment):
    run_scenario(Path(__file__).with_name("triton.lua"), project.root, editor_environment, project.facts)


def test_the_screen_has_hover_diagnostics_and_ttgir(project, editor_environment, tmp_path):
    tools = installed()
    scenario = Path(__file__).with_name("screens.lua")
    environment = variables_of(editor_environment, project.root, project.facts)
    command = command_of(scenario, editor_environment, headless=False)
    screens = record(command, project.root, environment, tmp_path / "signals")
    assert len(screens) == 2, screens
    recordings = {}
    for name, screen in zip(("neovim-triton", "neovim-triton-ttgir"), screens, strict=True):
        (tmp_path / name).write_bytes(screen)
        recordings[name] = str(tmp_path / name)
    facts = {"recordings": recordings, "rows": ROWS, "columns": COLUMNS}
    texts = json.loads(run_script(tools, HARNESS / "screens.mjs", tmp_path, editor_environment, facts))
    hover, ttgir = texts.values()
    assert "num_warps = 4" in hover and "FAILED" in hover and "out of bounds" in hover
    assert "tl.store" in ttgir and "tt.store" in ttgir and "tt.reduce" in ttgir


def test_pyright_and_ruff_next_to_the_server_keep_their_findings(project, editor_environment):
    tools = installed()
    pyright = tools.editors / "pyright/node_modules/pyright/langserver.index.js"
    ruff = shutil.which("ruff", path=editor_environment["PATH"])
    if not pyright.exists() or ruff is None:
        without_editor("Pyright or ruff is not installed (tests/editors/install_pyright.sh, pip install ruff)")
    file = project.root / "softmax.py"
    text = file.read_text(encoding="utf-8").replace("    return torch", "    unused = 1\n    return torch")
    file.write_text(text + '\n\ncount: int = "three"\n', encoding="utf-8")
    lines = file.read_text(encoding="utf-8").splitlines()
    facts = {
        **project.facts,
        "pyright": [str(tools.node), str(pyright), "--stdio"],
        "ruff": [ruff, "server"],
        "unused": lines.index("    unused = 1") + 1,
        "typed": len(lines),
    }
    run_scenario(Path(__file__).with_name("servers.lua"), project.root, editor_environment, facts)


def test_a_model_and_its_kernel_are_compared_once_a_code_action_has_registered_it(tmp_path, editor_environment):
    folder = tmp_path / "pair"
    folder.mkdir()
    (folder / "model.py").write_text(BIAS, encoding="utf-8")
    run_scenario(Path(__file__).with_name("pairs.lua"), folder, editor_environment, {})
