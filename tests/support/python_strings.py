"""Files with CUDA code in strings of every form, one bug each: where it is found, and its correction."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "unit/jobs/python_strings"
BUGS = {
    # File to check: file of the finding, text at its range, correction.
    "raw_kernel.py": ("raw_kernel.py", "if (i <= n)", ("i <= n", "i < n")),
    "raw_module.py": ("raw_module.py", "out[i] = x[i] + y[i]", ("EXTRA=1", "EXTRA=0")),
    "load_inline_one.py": (
        "load_inline_one.py",
        "y[i] = x[i] > scalar_t(0) ? x[i] : scalar_t(0)",
        ("    y[i] = x[i] >", "    if (i < size) y[i] = x[i] >"),
    ),
    "load_inline_many.py": (
        "load_inline_many.py",
        "if (i < n) y[i] = tile[count - 1 - threadIdx.x]",
        ("    int count", "    __syncthreads();\n    int count"),
    ),
    "source_module.py": ("source_module.py", "dest[i] = a[i] * b[i]", ("i < n + 1", "i < n")),
    "load_files.py": ("csrc/offset.cu", "y[i] = x[i] + by", ("i > n", "i >= n")),
    "dedented.py": ("dedented.py", "y[i] = -x[i]", ("i > n", "i >= n")),
    "concatenated.py": ("concatenated.py", "y[i] = x[i] * x[i]", ("(i) <= (n)", "(i) < (n)")),
    "f_string.py": ("f_string.py", "y[i] = FACTOR * x[i]", ("i <= n", "i < n")),
    "formatted.py": ("formatted.py", "y[i] = x[i] * %s", ("CODE.format(1", "CODE.format(0")),
    "templated.py": (
        "templated.py",
        "sum[0] += FACTOR * x[i] + ${offset}",
        ("sum[0] += FACTOR * x[i] + ${offset}", "atomicAdd(&sum[0], FACTOR * x[i] + ${offset})"),
    ),
    "escaped.py": ("escaped.py", "\\x79[i] = 1.0f", ("i <= n", "i < n")),
    "sibling.py": ("sources_of_sibling.py", "y[i] = x[i]", ("i <= n", "i < n")),
    "steps.py": ("steps.py", "y[i] = 2.0f * i", ("i <= n", "i < n")),
}
_KERNEL = """\
extern "C" __global__ void scale(const float* x, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i {compare} n) y[i] = {value};
}}
"""
ONE_NAME = f'''\
import cupy as cp

ONE = r"""
{_KERNEL.format(compare="<", value="2.0f * x[i]")}"""
TWO = r"""
{_KERNEL.format(compare="<=", value="sqrtf(x[i])")}"""
one = cp.RawKernel(ONE, "scale")
two = cp.RawKernel(TWO, "scale")
three = cp.RawKernel(r"""
{_KERNEL.format(compare="<", value="cosf(x[i])")}""", "scale")
'''
"""Three kernels of one name; the second is wrong, and the only one with a square root."""


def copy_with_expectations(folder: Path) -> list[dict[str, Any]]:
    """Copy the files, and one with :data:`ONE_NAME`, to ``folder``; return the finding of each, as facts for a script in an editor.

    ``start`` and ``end`` are columns in UTF-16 units, ``start_byte`` and ``end_byte`` in UTF-8.
    """
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    (folder / "one_name.py").write_text(ONE_NAME, encoding="utf-8")
    found = []
    for name, (where, statement, _) in BUGS.items():
        lines = (folder / where).read_text(encoding="utf-8").split("\n")
        (number,) = [number for number, line in enumerate(lines) if "expect:" in line]
        # The editor checks a file that `load` names when that file is opened; its .py has no code of its own.
        fact: dict[str, Any] = {
            "open": where if where.endswith(".cu") else name,
            "file": where,
            "line": number,
            "text": lines[number],
        }
        before = lines[number][: lines[number].index(statement)]
        for suffix, encoding, unit in (("", "utf-16-le", 2), ("_byte", "utf-8", 1)):
            fact[f"start{suffix}"] = len(before.encode(encoding)) // unit
            fact[f"end{suffix}"] = len((before + statement).encode(encoding)) // unit
        found.append(fact)
    return found
