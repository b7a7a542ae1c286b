"""The GitHub Action: schema of its file, and its steps run by a shell."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from support.installed_package import ROOT, Installed

FILE = ROOT / "action.yml"
ACTION = yaml.safe_load(FILE.read_text())


def test_the_file_follows_the_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_scripts_contain_no_expressions() -> None:
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert scripts
    assert not [script for script in scripts if "${{" in script]


def test_the_action_installs_the_package_and_annotates_the_line(installed: Installed, kernels: Path) -> None:
    output = _run_steps(installed, kernels, expect=1)
    line = next(
        n for n, text in enumerate((kernels / "gelu_buggy.cu").read_text().splitlines(), 1) if "expect:" in text
    )
    assert re.search(rf"^::error [^\n]*file=gelu_buggy\.cu,line={line},", output, flags=re.MULTILINE), output
    assert "file=gelu.cu" not in output


def test_clean_paths_pass_and_the_result_is_written(installed: Installed, kernels: Path) -> None:
    inputs = {"paths": "gelu\nrelu.cu", "format": "junit", "output": "result.xml", "arguments": "--cases 4"}
    _run_steps(installed, kernels, install=False, **inputs)
    assert "gelu" in (kernels / "result.xml").read_text()
    assert '"name": "gelu"' in (kernels / "gpuemu.json").read_text()


def test_inputs_are_never_executed(installed: Installed, kernels: Path) -> None:
    evil = "$(touch${IFS}owned) ;touch owned `touch owned`"
    _run_steps(installed, kernels, install=False, paths=evil, arguments=evil, expect=2)
    assert not (kernels / "owned").exists()


def _run_steps(installed: Installed, kernels: Path, expect: int = 0, install: bool = True, **inputs: str) -> str:
    """Run installation and check as a runner does. The check must exit with ``expect``."""
    chosen = {name: about["default"] for name, about in ACTION["inputs"].items()} | inputs
    steps = [step for step in ACTION["runs"]["steps"] if step["name"] in ("Install gpuemu-lsp", "Check kernels")]
    output = ""
    for step in steps if install else steps[-1:]:
        assert step["shell"] == "bash"
        variables = {name: _evaluate(value, chosen) for name, value in step.get("env", {}).items()}
        variables["RUNNER_TEMP"] = str(kernels)
        folder = kernels / _evaluate(step.get("working-directory", "."), chosen)
        shell = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"])
        output += installed.run(*shell, cwd=folder, variables=variables, expect=expect if step is steps[-1] else 0)
    return output


def _evaluate(value: str, inputs: dict[str, Any]) -> str:
    """Evaluate the two kinds of expressions in the file; any other fails the test."""

    def replace(match: re.Match[str]) -> str:
        context, name = match[1].split(".")
        if context == "inputs":
            return str(inputs[name])
        assert match[1] == "github.action_path"
        return str(ROOT)

    return re.sub(r"\$\{\{ ([\w.-]+) \}\}", replace, value)
