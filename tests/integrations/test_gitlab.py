"""The GitLab template: schema of its file, and the report written by its job."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import yaml
from support.installed_package import ROOT, Installed

FILE = ROOT / "templates/gpuemu.gitlab-ci.yml"
JOB = yaml.safe_load(FILE.read_text())["gpuemu"]


def test_the_file_follows_the_schema() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.gitlab-ci", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_job_fails_and_writes_a_code_quality_report(installed: Installed, kernels: Path) -> None:
    output = _run_job(installed, kernels, expect=1)
    report = json.loads((kernels / JOB["artifacts"]["reports"]["codequality"]).read_text())
    assert {found["location"]["path"] for found in report if found["severity"] != "info"} == {"gelu_buggy.cu"}
    assert report[0]["description"] in output


def test_variables_select_the_targets(installed: Installed, kernels: Path) -> None:
    _run_job(installed, kernels, install=False, GPUEMU_PATHS="gelu relu.cu", GPUEMU_ARGUMENTS="--cases 4")
    assert json.loads((kernels / "gl-code-quality-report.json").read_text()) == []


def _run_job(installed: Installed, kernels: Path, expect: int = 0, install: bool = True, **variables: str) -> str:
    """Run the job as a runner does: one shell for ``before_script`` and ``script``, another for ``after_script``."""
    chosen = {**JOB["variables"], "GPUEMU_PACKAGE": str(ROOT), **variables}
    chosen["PIP_CACHE_DIR"] = chosen["PIP_CACHE_DIR"].replace("$CI_PROJECT_DIR", str(kernels))
    script = "\n".join((JOB["before_script"] if install else []) + JOB["script"])
    output = installed.run("bash", "-eo", "pipefail", "-c", script, cwd=kernels, variables=chosen, expect=expect)
    return output + installed.run("bash", "-c", "\n".join(JOB["after_script"]), cwd=kernels, variables=chosen)
