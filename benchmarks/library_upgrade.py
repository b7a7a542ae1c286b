"""The upgrade of a library as an integrator meets it: SciPy 1.14.1 -> 1.15.3, installed from PyPI.

    python -m benchmarks.library_upgrade [--old 1.14.1] [--new 1.15.3] [--output FILE]

A project has four ops of ``scipy.special`` and a virtual environment, in which gpuemu-lsp is not installed. A baseline
is stored with the old version, pip installs the new one, and ``gpuemu diff`` compares. SciPy 1.15 computes ``logit``
and ``logsumexp`` by other formulas; ``softmax`` and ``erf`` are bitwise as before. Exits with 1 if ``diff`` shows
another list of ops.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.page import put

CHANGED = {"logit", "logsumexp"}
CONFIG = """\
[validation]
dtypes = ["float32", "float64"]

[[ops]]
name = "logit"
op = "scipy.special:logit"
reference = "ref.py:logit"
[ops.dims]
n = { max = 500 }
[ops.args]
x = { in = ["n"], range = [0, 1] }

[[ops]]
name = "logsumexp"
op = "functions:logsumexp"
module = "scipy"
reference = "ref.py:logsumexp"
[ops.dims]
rows = { max = 64 }
[ops.args]
x = { in = ["rows", 2], range = [-30, 30] }

[[ops]]
name = "softmax"
op = "functions:softmax"
module = "scipy"
reference = "ref.py:softmax"
[ops.dims]
rows = { max = 20 }
cols = { max = 300 }
[ops.args]
x = { in = ["rows", "cols"] }

[[ops]]
name = "erf"
op = "scipy.special:erf"
reference = "ref.py:erf"
[ops.dims]
n = { max = 500 }
[ops.args]
x = { in = ["n"], range = [-5, 5] }
"""
FUNCTIONS = """\
from scipy import special


def logsumexp(x):
    return special.logsumexp(x, axis=-1)


def softmax(x):
    return special.softmax(x, axis=-1)
"""
REFERENCES = """\
import math

import numpy as np


def logit(inputs):
    x = inputs["x"]
    return np.log(x) - np.log1p(-x)


def logsumexp(inputs):
    x = inputs["x"]
    largest = x.max(-1)
    return largest + np.log1p(np.exp(x.min(-1) - largest))


def softmax(inputs):
    x = inputs["x"]
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def erf(inputs):
    return np.vectorize(math.erf, otypes=[float])(inputs["x"])
"""


def measure(folder: Path, old: str, new: str) -> tuple[str, str]:
    """Return what ``gpuemu diff`` prints after the upgrade, and after the way back to the old version."""
    for name, text in (("gpuemu.toml", CONFIG), ("functions.py", FUNCTIONS), ("ref.py", REFERENCES)):
        (folder / name).write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "venv", ".venv"], cwd=folder, check=True)
    _install(folder, old)
    _gpuemu(folder, "baseline", "old")
    _install(folder, new)
    upgrade = _gpuemu(folder, "diff", "--baseline", "old")
    _gpuemu(folder, "baseline", "new")
    _install(folder, old)
    return upgrade, _gpuemu(folder, "diff", "--baseline", "new")


def _install(folder: Path, version: str) -> None:
    command = [".venv/bin/python", "-m", "pip", "install", "--quiet", "numpy==2.2.6", f"scipy=={version}"]
    subprocess.run(command, cwd=folder, check=True)


def _gpuemu(folder: Path, *arguments: str) -> str:
    start = "import sys; from gpuemu_lsp.cli.gpuemu import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run([sys.executable, "-c", start, *arguments], cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"gpuemu {arguments[0]} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


def named(text: str) -> set[str]:
    """Return the ops that the text of ``gpuemu diff`` names."""
    return {line.partition(" ")[0] for line in text.splitlines() if " (float" in line and not line.startswith(" ")}


def render(upgrade: str, back: str, old: str, new: str) -> str:
    """Return the section of the page on the upgrade."""
    text = [
        "## The upgrade of a library",
        "",
        f"Made by `python -m benchmarks.library_upgrade --old {old} --new {new}`. `gpuemu diff` after the upgrade:",
        "",
        "```text",
        *upgrade.strip().splitlines(),
        "```",
        "",
        "After the way back, against a baseline of the new version:",
        "",
        "```text",
        *back.strip().splitlines(),
        "```",
    ]
    return "\n".join(text) + "\n"


def main() -> int:
    """Run the upgrade, print or write the section, and return 1 if other ops are named than those that changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", default="1.14.1")
    parser.add_argument("--new", default="1.15.3")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        upgrade, back = measure(Path(folder), options.old, options.new)
    put(options.output, "library upgrade", render(upgrade, back, options.old, options.new))
    return int(named(upgrade) != CHANGED or named(back) != CHANGED)


if __name__ == "__main__":
    sys.exit(main())
