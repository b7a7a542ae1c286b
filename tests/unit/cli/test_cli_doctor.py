"""``gpuemu doctor`` tries things for real: on this machine they work, and when one is broken it says so."""

from __future__ import annotations

import json
import os

from gpuemu_lsp.cli.gpuemu import main as gpuemu


def test_everything_a_check_needs_is_here(capsys):
    assert gpuemu(["doctor", "--format", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    parts = {part["name"]: part for part in document["parts"]}
    assert document["usable"]
    assert {"compiler", "<cuda_fp16.h>", "<mma.h>", "ptxas", "emulator", "checker", "GPU", "Neovim", "git"} <= set(
        parts
    )
    assert parts["checker"]["detail"] == "found a planted bug"
    assert all(part["there"] or part["remedy"] for part in parts.values())


def test_a_broken_installation_is_told_with_its_remedy(project):
    """CuPy is hidden from the workers by a package of its name that cannot be imported."""
    fake = project.root / "path" / "cupy"
    fake.mkdir(parents=True)
    (fake / "__init__.py").write_text("raise ImportError('no such wheel')\n")
    path = os.pathsep.join([str(fake.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    result = project.run("doctor", module="gpuemu_lsp.cli.gpuemu", PYTHONPATH=path)
    text = result.stdout.decode()
    assert result.returncode == 2
    assert "MISSING  compiler" in text
    assert "pip install" in text
    assert "Kernels cannot be checked here." in text
