"""The pre-commit hooks, run by pre-commit in a git repository."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support.installed_package import ROOT, Installed

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
HOOKS = ROOT / ".pre-commit-hooks.yaml"


def test_the_file_is_a_manifest() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", str(HOOKS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("hook", ["gpuemu", "gpuemu-changed"])
def test_a_commit_needs_correct_kernels(installed: Installed, kernels: Path, tmp_path: Path, hook: str) -> None:
    variables = _repository(installed, kernels, tmp_path, hook)
    installed.run("git", "add", "-A", cwd=kernels, variables=variables)
    rejected = installed.run("git", "commit", "-m", "all", cwd=kernels, variables=variables, expect=1)
    assert "gelu_buggy.cu" in rejected
    assert "Failed" in rejected

    (kernels / "gelu_buggy.cu").write_text((kernels / "gelu.cu").read_text())
    installed.run("git", "add", "-A", cwd=kernels, variables=variables)
    accepted = installed.run("git", "commit", "-m", "all", cwd=kernels, variables=variables)
    assert "Passed" in accepted


def test_the_changed_files_hook_checks_only_those(installed: Installed, kernels: Path, tmp_path: Path) -> None:
    variables = _repository(installed, kernels, tmp_path, "gpuemu-changed")
    installed.run("git", "add", "gelu.cu", "gpuemu.toml", cwd=kernels, variables=variables)
    assert "Passed" in installed.run("git", "commit", "-m", "one", cwd=kernels, variables=variables)


def _repository(installed: Installed, kernels: Path, tmp_path: Path, hook: str) -> dict[str, str]:
    """Make the kernels a git repository with the hook; return environment variables that isolate git.

    ``language: system`` makes the hook use the installed package. Otherwise pre-commit would build an environment from
    the package index, which takes minutes.
    """
    manifest = tmp_path / "manifest"
    manifest.mkdir()
    shutil.copy(HOOKS, manifest)
    variables = {
        "HOME": str(tmp_path),
        "PRE_COMMIT_HOME": str(tmp_path / "cache"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    for folder in (manifest, kernels):
        installed.run("git", "init", "--quiet", cwd=folder, variables=variables)
    installed.run("git", "add", "-A", cwd=manifest, variables=variables)
    installed.run("git", "commit", "--quiet", "-m", "hooks", cwd=manifest, variables=variables)
    revision = installed.run("git", "rev-parse", "HEAD", cwd=manifest, variables=variables).strip()
    repository = {"repo": str(manifest), "rev": revision, "hooks": [{"id": hook, "language": "system"}]}
    (kernels / ".pre-commit-config.yaml").write_text(yaml.safe_dump({"repos": [repository]}))
    installed.run("python", "-m", "pre_commit", "install", cwd=kernels, variables=variables)
    return variables
