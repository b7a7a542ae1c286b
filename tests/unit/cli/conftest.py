"""Fixture: a small project in a temporary folder, with functions to start the commands as processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

KERNEL = """\
#include <cstdio>
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        printf("{ thread %d\\n", i);
        y[i] = 2.0f * x[i];
    }
}
"""
REFERENCE = """\
import os

def reference(inputs, **kwargs):
    print("{ a reference that prints")
    os.write(1, b"and writes\\n")
    return 2.0 * inputs["x"]
"""
TOML = """\
[[kernels]]
name = "scale"
source = "scale.cu"
reference = "ref.py"
[kernels.dims]
n = { min = 1, max = 300 }
[kernels.args]
x = { in = ["n"] }
y = { out = ["n"] }
n = "n"
[kernels.launch]
grid = "ceil_div(n, 128)"
block = 128
"""
ENVIRONMENT = {
    key: value
    for key, value in os.environ.items()
    if key not in ("NO_COLOR", "FORCE_COLOR", "GPUEMU_NO_COLOR", "GPUEMU_CONFIG")
}


@dataclass(frozen=True)
class Project:
    """A project folder, and the commands run in it."""

    root: Path

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.root / {"toml": "gpuemu.toml", "kernel": "scale.cu", "reference": "ref.py"}[name]).write_text(text)

    def command(self, *arguments: str, module: str = "gpuemu_lsp") -> list[str]:
        return [sys.executable, "-m", module, *arguments]

    def run(self, *arguments: str, module: str = "gpuemu_lsp", **environment: str):
        return subprocess.run(
            self.command(*arguments, module=module),
            cwd=self.root,
            env={**ENVIRONMENT, **environment},
            capture_output=True,
            timeout=120,
        )

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.root,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    made = Project(tmp_path)
    made.write(toml=TOML, kernel=KERNEL, reference=REFERENCE)
    return made
