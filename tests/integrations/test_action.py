"""The GitHub Action: schema of its file, and its steps run by a shell."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
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


def test_extras_are_installed_from_a_variable() -> None:
    (install,) = (step for step in ACTION["runs"]["steps"] if step["name"] == "Install gpuemu-lsp")
    shown = f"python() {{ printf '%s|' \"$@\"; }}\n{install['run']}"
    for extras, expected in (("", "/a b"), ("triton,run", "/a b[triton,run]"), ("$(id)", "/a b[$(id)]")):
        variables = {"ACTION_PATH": "/a b", "GPUEMU_EXTRAS": extras}
        done = subprocess.run(["bash", "-c", shown], env=variables, capture_output=True, text=True, timeout=60)
        assert done.stdout == f"-m|pip|install|--quiet|{expected}|"


@pytest.mark.parametrize(
    ("paths", "expected"), [("a b", ["a", "b"]), ("a b\nc\n\n", ["a b", "c"]), ("a b\n", ["a b"]), ("", [])]
)
def test_paths_may_have_spaces(paths: str, expected: list[str]) -> None:
    (check,) = (step for step in ACTION["runs"]["steps"] if step["name"] == "Check kernels")
    shown = f"gpuemu-lsp() {{ printf '%s|' \"$@\"; }}\n{check['run']}"
    names = ("ARGUMENTS", "OUTPUT")
    variables = {"GPUEMU_PATHS": paths, "GPUEMU_FORMAT": "f", **{f"GPUEMU_{name}": "" for name in names}}
    variables |= {"RUNNER_TEMP": "/t", "PATH": os.environ["PATH"]}
    command = ["bash", "-eo", "pipefail", "-c", shown]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60)
    assert done.stdout.split("|")[:-1] == ["--check", *expected, "--format", "f", "--also-json", "/t/gpuemu.json"]


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
