"""``gpuemu doctor`` on a working and on a broken installation."""

from __future__ import annotations

import json
import os

from gpuemu_lsp.cli.gpuemu import main as gpuemu


def test_a_working_installation(capsys):
    assert gpuemu(["doctor", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    parts = {part["name"]: part for part in document["parts"]}
    assert document["usable"]
    assert {"compiler", "<cuda_fp16.h>", "<mma.h>", "ptxas", "emulator", "checker", "GPU", "Neovim", "git"} <= set(
        parts
    )
    assert parts["checker"]["detail"] == "found a planted bug"
    assert all(part["there"] or part["remedy"] for part in parts.values())


def test_a_broken_installation_is_reported_with_a_remedy(project):
    """A package named cupy that cannot be imported hides the real one from the workers."""
    fake = project.root / "path" / "cupy"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("raise ImportError('no such wheel')\n")
    path = os.pathsep.join([str(fake.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    result = project.run("doctor", module="gpuemu_lsp.cli.gpuemu", PYTHONPATH=path)
    text = result.stdout.decode()
    assert result.returncode == 2
    assert "MISSING  compiler" in text
    assert "pip install" in text
    assert "Kernels cannot be checked." in text
