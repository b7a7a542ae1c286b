"""The published corpus of the original ``gpuemu`` as ``[[ops]]``: script-based and client-side.

    python -m benchmarks.published_corpus_ops --path DIR [--seeds 3] [--cases 8] [--output FILE] [NAME ...]

``DIR`` is a checkout of github.com/sarkar-dipankar/gpuemu-corpus, in an environment with Triton and PyTorch. Its files
are unmodified: the references are its fp64 scripts, which read JSON from their standard input, and sizes and dtypes are
those of its ``meta.json``. Each kernel is an entry of a ``gpuemu.toml`` of its own:

- ``run``: ``run = "kernel.py:run"``, by the check that ``gpuemu fuzz`` makes;
- ``script``: ``op_script``, by the same check, with a script that calls ``run`` in ``gpuemu.triton.emulated()``;
- ``client``: ``execution_mode = "client_side"``, by ``Client.fuzz_op_client_side`` with ``run`` as the function.

The range of the values is that of the corpus, and the tolerance is derived. All checks of a process share its imports;
no time limit ends one, so that a busy machine gives the same table.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.page import put
from benchmarks.published_triton_corpus import DATA, RANGE

WAYS = ("run", "script", "client")
_PATIENCE = 3600.0
"""Seconds for a launch, and for a call of a reference."""
_SCRIPT = """import importlib.util

from gpuemu.triton import emulated

spec = importlib.util.spec_from_file_location("kernel", {kernel!r})
kernel = importlib.util.module_from_spec(spec)
with emulated():
    spec.loader.exec_module(kernel)


def op(inputs):
    with emulated(seconds={patience}):
        return kernel.run(inputs)
"""


@dataclass(slots=True)
class OpRow:
    """The results of one kernel: by way of calling it, the seeds under which a case is wrong, and what did not run."""

    name: str
    seeds: int
    hits: dict[str, int] = field(default_factory=dict)
    cases: dict[str, str] = field(default_factory=dict)
    trouble: dict[str, str] = field(default_factory=dict)

    @property
    def planted(self) -> bool:
        """Whether the corpus says that the kernel has a bug."""
        return self.name.endswith("_buggy")


def measure(name: str, data: Path, ways: Sequence[str], seeds: int, count: int) -> OpRow:
    """Check one kernel of the corpus in some of the ways, under all seeds."""
    row = OpRow(name, seeds)
    meta = json.loads((data / name / "meta.json").read_text(encoding="utf-8"))
    for way in ways:
        with tempfile.TemporaryDirectory() as folder:
            dtypes = _runnable_dtypes(meta, row)
            _write_project(Path(folder), name, meta, dtypes, data, way)
            check = _by_client if way == "client" else _by_check
            row.hits[way] = 0
            checked = failed = 0
            for seed in range(1, seeds + 1):
                ran, wrong, reason = check(Path(folder), name, data, dtypes, seed, count)
                checked, failed = checked + ran, failed + wrong
                row.hits[way] += wrong > 0
                if reason:
                    row.trouble[way] = reason
            row.cases[way] = f"{failed} of {checked}"
    return row


def _runnable_dtypes(meta: Mapping[str, Any], row: OpRow) -> list[str]:
    """Return the dtypes that the kernel compiles for; ``tl.exp`` of Triton 3.9 takes fp32 and fp64 only."""
    if row.name.startswith("gelu_triton") and "float16" in meta["dtypes"]:
        row.trouble["float16"] = "CompilationError: tl.exp takes fp32 and fp64"
        return [dtype for dtype in meta["dtypes"] if dtype != "float16"]
    return list(meta["dtypes"])


def _write_project(
    folder: Path, name: str, meta: Mapping[str, Any], dtypes: Sequence[str], data: Path, way: str
) -> None:
    schema = meta["op_schema"]
    inputs = [{**one, "range": list(RANGE)} for one in schema["inputs"]]
    (folder / "schema.json").write_text(json.dumps({**schema, "inputs": inputs}), encoding="utf-8")
    kernel = (data / name / "kernel.py").as_posix()
    lines = {
        "run": [f"run = {json.dumps(kernel + ':run')}"],
        "script": ['op_script = "op.py"', 'execution_mode = "script_based"'],
        "client": ['execution_mode = "client_side"'],
    }[way]
    (folder / "op.py").write_text(_SCRIPT.format(kernel=kernel, patience=_PATIENCE), encoding="utf-8")
    entry = ["[[ops]]", f'name = "{name}"', f"reference = {json.dumps((data / meta['reference']).as_posix())}"]
    entry += ['op_schema = "schema.json"', f"dtypes = {json.dumps(list(dtypes))}", *lines]
    (folder / "gpuemu.toml").write_text("\n".join(entry) + "\n", encoding="utf-8")


def _by_check(
    folder: Path, name: str, data: Path, dtypes: Sequence[str], seed: int, count: int
) -> tuple[int, int, str]:
    """Return how many cases ran and how many are wrong by the check of ``gpuemu fuzz``, and why it did not run."""
    from gpuemu_lsp.engine.check.model import KernelReport
    from gpuemu_lsp.engine.check.pipeline import check_kernel
    from gpuemu_lsp.engine.findings import Finding
    from gpuemu_lsp.engine.project import load
    from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

    project = load(folder / "gpuemu.toml")
    limits = {"case_seconds": _PATIENCE, "translate_seconds": _PATIENCE, "max_failures": 2 * count}
    options = CheckOptions(cases=count, seed=seed, seed_given=True, **limits)  # type: ignore[arg-type]
    events = list(check_kernel(CheckRequest(project.kernels[0], options, project.validation, root=str(folder))))
    report = events[-1]
    assert isinstance(report, KernelReport)
    reason = ""
    if report.status not in ("passed", "failed"):
        reason = "; ".join(one.message for one in events if isinstance(one, Finding)) or report.status
    return report.cases.run, report.cases.run - report.cases.passed, reason


def _by_client(
    folder: Path, name: str, data: Path, dtypes: Sequence[str], seed: int, count: int
) -> tuple[int, int, str]:
    """Return how many cases ran and how many are wrong by ``Client.fuzz_op_client_side``, and why it did not run."""
    from gpuemu import Client
    from gpuemu.triton import emulated

    with emulated(on_finding="collect", seconds=_PATIENCE), Client(folder, timeout_ms=int(_PATIENCE * 1000)) as client:
        spec = importlib.util.spec_from_file_location(f"kernel_{name}", data / name / "kernel.py")
        assert spec is not None and spec.loader is not None
        kernel = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(kernel)
        cases = count * len(dtypes)
        results = client.fuzz_op_client_side(name, run_op=kernel.run, iterations=cases, seed=seed, dtypes=list(dtypes))
    kinds = {"NotExecuted", "ExecutionError", "ReferenceError"}
    broken = [one.failures[0]["message"] for one in results.failures if one.failures[0]["kind"] in kinds]
    return results.total, results.failed - len(broken), broken[0] if broken else ""


# ---- the table -------------------------------------------------------------------------------------------------------


def render(rows: Sequence[OpRow], seeds: int, count: int, seconds: float) -> str:
    """Return the section of the page on the corpus as ops."""
    planted = [row for row in rows if row.planted]
    ways = [way for way in WAYS if way in rows[0].cases]
    correct = [row for row in rows if not row.planted]
    text = [
        "## The published corpus as `[[ops]]`",
        "",
        f"Made by `python -m benchmarks.published_corpus_ops --path DIR --seeds {seeds} --cases {count}` in",
        f"{seconds / 60:.0f} minutes, on unmodified files of github.com/sarkar-dipankar/gpuemu-corpus.",
        f"{seeds} seed{'s' * (seeds != 1)}, {count} cases per dtype and seed, judged at the derived tolerance.",
        "",
        "| called by | buggy found under every seed | correct with a finding under any seed |",
        "|---|---|---|",
        *(
            f"| {way} | **{sum(row.hits[way] == row.seeds for row in planted)} of {len(planted)}** "
            f"| **{sum(row.hits[way] > 0 for row in correct)} of {len(correct)}** |"
            for way in ways
        ),
        "",
        "| op | " + " | ".join(f"wrong cases, {way}" for way in ways) + " | not run |",
        "|---|" + "---|" * (len(ways) + 1),
        *(
            f"| {row.name} | "
            + " | ".join(row.cases[way] for way in ways)
            + f" | {'; '.join(f'{where}: {why}' for where, why in row.trouble.items()) or '-'} |"
            for row in rows
        ),
    ]
    return "\n".join(text) + "\n"


def main() -> None:
    """Measure the corpus as ops and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=["script", "client"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cases", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    data = options.path.resolve() / DATA
    found = sorted(path.parent.name for path in data.glob("*/meta.json"))
    names = [name for name in found if not options.names or name in options.names]
    started = time.perf_counter()
    rows = []
    sys.path.insert(0, data.as_posix())
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        for future in [pool.submit(measure, name, data, options.ways, options.seeds, options.cases) for name in names]:
            row = future.result()
            rows.append(row)
            kind = "bug" if row.planted else "correct"
            print(f"{row.name:<30}{kind:<9}{row.hits}  {row.cases}  {row.trouble or ''}", flush=True)
    put(
        options.output,
        "published corpus ops",
        render(rows, options.seeds, options.cases, time.perf_counter() - started),
    )


if __name__ == "__main__":
    main()
