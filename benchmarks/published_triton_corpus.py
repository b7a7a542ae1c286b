"""The published Triton corpus of the original ``gpuemu``, its files unmodified, at the derived tolerance.

    python -m benchmarks.published_triton_corpus --path DIR [--seeds 5] [--cases 8] [--output FILE] [NAME ...]

``DIR`` is a checkout of github.com/sarkar-dipankar/gpuemu-corpus, in an environment with Triton and PyTorch. Each of
its kernels is a module with ``run(inputs)``, which launches a Triton kernel, or computes in NumPy; its reference is an
fp64 script that reads its inputs from and writes its result to JSON streams. Here ``run`` is called inside
``gpuemu.triton.emulated()``, and the script's two stream functions are replaced. Sizes and range of values are those of
the corpus, the values are drawn as in a check on save, and the tolerance is the derived error budget.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from benchmarks.page import put
from gpuemu.triton import LaunchRecord, Session, emulated
from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.fuzz import cases
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.lint import arithmetic_precisions
from gpuemu_lsp.engine.oracle import Numerics, Reference, ReferenceEvaluation, call, judge
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.expressions import parse as parse_expression
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.ptx import parse as parse_ptx

DATA = Path("gpuemu_corpus/data")
OUTPUT = "out"
RANGE = (-10.0, 10.0)
"""Values of the corpus' own fuzzer. Its kernels are written for them: ``rmsnorm_triton`` sums squares in fp16."""


@dataclass(slots=True)
class PublishedRow:
    """The results of one kernel under all seeds.

    ``hits`` is the number of seeds under which some case is wrong. ``worst`` is the largest error of any right case as
    a fraction of the allowed error. ``trouble`` are the reasons for which cases did not run, by dtype.
    """

    name: str
    seeds: int
    hits: int = 0
    cases: int = 0
    wrong: int = 0
    launches: int = 0
    decided: int = 0
    worst: float = 0.0
    rules: set[str] = field(default_factory=set)
    trouble: dict[str, str] = field(default_factory=dict)

    @property
    def planted(self) -> bool:
        """Whether the corpus says that the kernel has a bug."""
        return self.name.endswith("_buggy")


class _StreamReference:
    """A reference script of the corpus as a function of its inputs."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self.__globals__ = module.__dict__
        """The oracle traces the arithmetic of the script through its globals."""

    def __call__(self, inputs: Mapping[str, Array]) -> Array:
        results: list[Array] = []
        self.__globals__.update(read_inputs=lambda: (inputs, {}), emit=results.append)
        self._module.main()
        return results[0]


def measure(name: str, data: Path, seeds: int, count: int) -> PublishedRow:
    """Run one kernel of the corpus on all its dtypes and seeds."""
    meta = json.loads((data / name / "meta.json").read_text(encoding="utf-8"))
    row = PublishedRow(name, seeds)
    failing: set[int] = set()
    sys.path.insert(0, data.as_posix())  # the reference scripts import a helper from there
    reference_path = data / meta["reference"]
    function = _StreamReference(_module(f"reference_{name}", reference_path))
    reference = Reference(reference_path.as_posix(), reference_path.parent.as_posix(), function, (), False)
    with emulated(on_finding="collect") as session:
        kernel = _module(f"kernel_{name}", data / name / "kernel.py")
        for dtype in meta["dtypes"]:
            plan = _plan(name, meta["op_schema"], dtype)
            for seed in range(1, seeds + 1):
                for case in cases(plan, seed, count):
                    rules = _run(plan, case, reference, kernel.run, row, session)
                    row.rules |= rules
                    row.wrong += bool(rules)
                    if rules:
                        failing.add(seed)
                    if dtype in row.trouble:
                        break
        row.launches = len(session.launches)
    row.hits = len(failing)
    return row


def _run(
    plan: Plan,
    case: Case,
    reference: Reference,
    run: Callable[[dict[str, Array]], Array],
    row: PublishedRow,
    session: Session,
) -> set[str]:
    """Run one case and return the rules that it breaks."""
    before = len(session.launches)
    try:
        result = np.ascontiguousarray(run({name: values.copy() for name, values in case.tensors.items()}))
    except Exception as error:
        row.trouble[plan.dtype] = f"{type(error).__name__}: {str(error).strip().splitlines()[-1]}"
        return set()
    made = session.launches[before:]
    incomplete = next((record.status for record in made if record.status != "completed"), None)
    if incomplete is not None:
        row.trouble[plan.dtype] = f"launch {incomplete}"
        return {finding.rule for record in made for finding in record.findings}
    outcome = Outcome(
        "completed",
        "emulator",
        {OUTPUT: result.reshape(-1).view(np.uint8)},
        approximate=tuple({name for record in made for name in record.approximate}),
    )
    evaluation = ReferenceEvaluation(reference, plan, case, call(reference, plan, case), _numerics(made, outcome))
    judged = judge(plan, case, outcome, evaluation)
    row.cases += 1
    row.decided += bool(judged.decided)
    if not judged.mismatches:
        row.worst = max(row.worst, judged.worst)
    found = {mismatch.rule for mismatch in judged.mismatches}
    return found | {finding.rule for record in made for finding in record.findings}


def _numerics(launches: Iterable[LaunchRecord], outcome: Outcome) -> Numerics:
    """Return the arithmetic of the launches from their PTX; that of fp32 for a kernel in NumPy."""
    precisions: set[str] = set()
    for record in launches:
        if record.artifact.ptx not in _precisions:
            entry = next(iter(record.artifact.entries.values()))
            _precisions[record.artifact.ptx] = arithmetic_precisions(parse_ptx(record.artifact.ptx), entry)
        precisions |= _precisions[record.artifact.ptx]
    return Numerics(frozenset(precisions), outcome.approximate)


_precisions: dict[str, frozenset[str]] = {}


def _plan(name: str, schema: Mapping[str, Any], dtype: str) -> Plan:
    """Return the plan of an op of the corpus for one dtype."""
    dims = tuple(
        DimSpec(dim["name"], min(dim["candidates"]), max(dim["candidates"]), choices=tuple(sorted(dim["candidates"])))
        for dim in schema["dims"]
    )
    tensors = [(item, "in") for item in schema["inputs"]] + [({**schema["output"], "name": OUTPUT}, "out")]
    args = tuple(
        TensorArg(item["name"], item["name"], way, dtype, tuple(map(parse_expression, item["dims"])), range=RANGE)
        for item, way in tensors
    )
    one = parse_expression(1)
    place = Place("", Range.of(0, 0, 0, 1))
    return Plan(name, name, dtype, args, dims, (one,), (one,), parse_expression(0), place)


def _module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- the table -------------------------------------------------------------------------------------------------------


def render(rows: Sequence[PublishedRow], seeds: int, count: int, seconds: float) -> str:
    """Return the section of the page on the published corpus."""
    planted = [row for row in rows if row.planted]
    correct = [row for row in rows if not row.planted]
    found, flagged = sum(row.hits == row.seeds for row in planted), sum(row.hits > 0 for row in correct)
    text = [
        "## The published corpus of the original",
        "",
        f"Made by `python -m benchmarks.published_triton_corpus --path DIR --seeds {seeds} --cases {count}` in",
        f"{seconds / 60:.0f} minutes, on unmodified files of github.com/sarkar-dipankar/gpuemu-corpus.",
        f"{seeds} seeds, {count} cases per dtype and seed, judged at the derived tolerance.",
        "",
        f"- Buggy kernels found under every seed: **{found} of {len(planted)}**.",
        f"- Correct kernels with a finding under any seed: **{flagged} of {len(correct)}**.",
        "",
        "`worst` is the largest error as a fraction of the allowed one, or of its lower bound if within that.",
        "",
        "| kernel | seeds with a finding | wrong cases | launches | worst | found as | not run |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {row.name} | {row.hits}/{row.seeds} | {row.wrong} of {row.cases} | {row.launches} | {row.worst:.2f} "
            f"| {', '.join(sorted(row.rules)) or '-'} "
            f"| {'; '.join(f'{dtype}: {why}' for dtype, why in row.trouble.items()) or '-'} |"
            for row in rows
        ),
    ]
    return "\n".join(text) + "\n"


def main() -> None:
    """Measure the published corpus and print or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--path", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cases", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    data = options.path.resolve() / DATA
    found = sorted(path.parent.name for path in data.glob("*/meta.json"))
    names = [name for name in found if not options.names or name in options.names]
    started = time.perf_counter()
    rows = []
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        for future in [pool.submit(measure, name, data, options.seeds, options.cases) for name in names]:
            row = future.result()
            rows.append(row)
            kind = "bug" if row.planted else "correct"
            wrong = f"{row.wrong} of {row.cases}"
            print(f"{row.name:<30}{kind:<9}{row.hits}/{row.seeds}  {wrong}  {row.trouble or ''}", flush=True)
    put(options.output, "published corpus", render(rows, options.seeds, options.cases, time.perf_counter() - started))


if __name__ == "__main__":
    main()
