"""Fixture: the package built as a wheel and installed in a separate environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from support.corpus import CORPUS, corpus_entries, entry_text
from support.installed_package import ROOT, Installed

# gpuemu-lsp itself is installed by pip; pytest-lsp breaks every test item that is not a function.
_LEFT_OUT = ("gpuemu_lsp", "_gpuemu_lsp", "_editable_impl", "pytest_lsp")


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """Install by pip, in an environment where the dependencies are links to those of this environment."""
    environment = Installed(tmp_path_factory.mktemp("installed"))
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment.root], check=True)
    packages = environment.root / f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
    for package in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not package.name.startswith(_LEFT_OUT):
            (packages / package.name).symlink_to(package)
    environment.run("python", "-m", "pip", "install", "--quiet", str(ROOT))
    return environment


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    """A project with one correct kernel, one buggy one and a file that no configuration mentions."""
    root = tmp_path / "kernels"
    (root / "reference").mkdir(parents=True)
    for name in ("gelu.cu", "gelu_buggy.cu", "relu.cu"):
        shutil.copy(CORPUS / "ops" / name, root / name)
    shutil.copy(CORPUS / "reference/elementwise.py", root / "reference")
    entries = corpus_entries()
    text = "".join(entry_text(entries[name]) for name in ("gelu", "gelu_buggy")).replace('"ops/', '"')
    (root / "gpuemu.toml").write_text(text)
    return root


@pytest.fixture(autouse=True)
def _no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "GPUEMU_CONFIG", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "PYTHONPATH" not in os.environ
