"""Kernels of a public extension that are checked with recorded launches, and bugs that are typed into them.

``python -m benchmarks.recorded_extension FOLDER``: the folder of rusty1s/pytorch_scatter, built by
``gpuemu run setup.py -- build_ext --inplace`` and recorded by ``gpuemu run --record -m pytest``.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

SCATTER, COO, CSR = (f"csrc/cuda/{name}_cuda.cu" for name in ("scatter", "segment_coo", "segment_csr"))
BUGS = (
    (SCATTER, "scatter_kernel", "if (thread_idx < numel)", "if (thread_idx <= numel)"),
    (SCATTER, "scatter_arg_kernel", "(thread_idx / K) % E", "(thread_idx / K) % K"),
    (COO, "segment_coo_kernel", "(row_idx / D) * N + idx", "(row_idx / D) * E + idx"),
    (COO, "segment_coo_broadcast_kernel", "row_start + i >= D", "row_start + i > D"),
    (COO, "gather_coo_broadcast_kernel", "thread_idx < E * K", "thread_idx <= E * K"),
    (CSR, "segment_csr_kernel", "src_idx < row_end", "src_idx <= row_end"),
    (CSR, "gather_csr_kernel", "out_idx < row_end", "out_idx <= row_end"),
)
"""File, kernel, the text in it and the bug in its place."""


def checked(folder: Path, *files: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "gpuemu_lsp", "--check", *files, "--format", "json"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def shown(finding: dict[str, Any]) -> str:
    line = finding["range"]["start"]["line"] + 1
    return f"  {finding['severity']} {finding['rule']} line {line} {finding['kernel']}: {finding['message'][:120]}"


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    report = checked(folder, SCATTER, COO, CSR)
    recorded = {one["kernel"] for one in report["findings"] if "that a run recorded" in one["message"]}
    print(f"{len(recorded)} of {len(report['kernels'])} kernels are checked with recorded launches; unchanged:")
    print(*(shown(one) for one in report["findings"] if one["severity"] != "hint"), sep="\n")
    for file, kernel, old, new in BUGS:
        path = folder / file
        text = path.read_text()
        at = text.index(old, text.index(f"{kernel}("))
        path.write_text(text[:at] + new + text[at + len(old) :])
        try:
            report = checked(folder, file)
        finally:
            path.write_text(text)
        print(f"{kernel}: {new} in line {text.count(chr(10), 0, at) + 1}")
        found = [one for one in report["findings"] if one["kernel"] == kernel and one["severity"] != "hint"]
        print(*map(shown, found), sep="\n")


if __name__ == "__main__":
    main()
