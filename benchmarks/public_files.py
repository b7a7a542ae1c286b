"""Check kernels of public repositories, unmodified, and print a table of names and figures.

    python -m benchmarks.public_files FOLDER [--cases N]

FOLDER holds checkouts of karpathy/llm.c (as ``llm.c``) and siboehm/SGEMM_CUDA. The kernels registered in
``benchmarks/public/gpuemu.toml`` are compiled through the device view and checked numerically.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

from gpuemu_lsp.engine.campaign.jobs import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.campaign.run import run_requests
from gpuemu_lsp.engine.campaign.targets import collect
from gpuemu_lsp.engine.check.model import CheckOptions
from gpuemu_lsp.engine.workers import Pool

HERE = Path(__file__).parent / "public"


def registered(folder: Path, cases: int) -> None:
    """Check the registered kernels and print their table."""
    text = re.sub(r'source = "', f'source = "{folder.absolute()}/', (HERE / "gpuemu.toml").read_text())
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "gpuemu.toml").write_text(text)
        (place / "references.py").write_text((HERE / "references.py").read_text())
        targets = collect([], CheckOptions(cases=cases), place)
        with Pool(FUNCTIONS, size=2, preload=PRELOAD) as pool:
            run = run_requests(targets.requests, targets.findings, targets.root, pool)
    print("| kernel | verdict | cases | worst error / allowed | registers | findings |\n|---|---|---|---|---|---|")
    for report in run.kernels:
        mine = [finding for finding in run.findings if finding.kernel == report.name and finding.severity != "hint"]
        found = "; ".join(f"{finding.rule} line {finding.place.range.start.line + 1}" for finding in mine)
        worst = "" if report.worst is None else f"{report.worst:.2f}"
        registers = "/".join(str(usage.registers) for usage in report.resources.values())
        counted = f"{report.cases.passed}/{report.cases.run}"
        print(f"| {report.name} | {report.status} | {counted} | {worst} | {registers} | {found} |")


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cases", type=int, default=16)
    options = parser.parse_args()
    registered(options.folder, options.cases)


if __name__ == "__main__":
    main()
