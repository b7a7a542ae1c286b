"""Mutation testing of the check: detection of single changes in correct kernels.

    python -m benchmarks.mutation [--cases 8] [--sample N] [--seed 1] [--jobs N] [--toml FILE] [--output FILE]

Every correct kernel of the corpus is changed in one place (a comparison, a sign, a removed barrier, an overwritten sum,
...) and checked with the cases of a save. Mutants that do not compile, or compile to the same PTX, are left out. The
survivors are listed: a survivor is either equivalent for the sizes and values that gpuemu.toml allows, or a bug that
the check misses; deciding that takes a reader.
"""

from __future__ import annotations

import argparse
import os
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from benchmarks.page import put
from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from tests.support.corpus import CORPUS, corpus_kernels
from tests.support.expectations import read_expectations

BATCH = 400
"""Mutants per process pool: a new pool frees what the processes cached of each kernel."""

OPERATORS = {
    "comparison": (r" (<|<=|>|>=) (?=\w)", {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}),
    "equality": (r" (==|!=) ", {"==": "!=", "!=": "=="}),
    "sign": (r"(?<=[\w\])]) ([+-]) (?=[\w(])", {"+": "-", "-": "+"}),
    "factor": (r"(?<=[\w\])]) ([*/]) (?=[\w(])", {"*": "+", "/": "*"}),
    "sum overwritten": (r" (\+=) ", {"+=": "="}),
    "barrier taken out": (r"\b(__syncthreads\(\)|__syncwarp\(\)|__threadfence\(\));", {}),
    "other extreme": (r"\b(fmaxf|fminf|max|min)\(", {"fmaxf": "fminf", "fminf": "fmaxf", "max": "min", "min": "max"}),
    "start value": (r"(-INFINITY|\b0\.0?f)\b", {"-INFINITY": "0.0f", "0.f": "1.0f", "0.0f": "1.0f"}),
    "constant": (r"(?<=[ \[(])(\d{1,4})(?=[;,)\] ])", {}),
    "guard taken out": (r"\bif \((?=[^()]*<[^()]*\))([^()]*)\)", {}),
    "other index": (r"\b(threadIdx|blockIdx)\.[xy]\b", {"threadIdx": "blockIdx", "blockIdx": "threadIdx"}),
}
"""Pattern and replacements of its first group, by name; without a table :func:`_replacement` constructs them."""

_KERNEL = re.compile(r"__(?:global|device)__[^;{]*\{")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed kernel. ``line`` is 1-based."""

    operator: str
    line: int
    before: str
    after: str
    text: str


@dataclass(frozen=True, slots=True)
class MutantResult:
    """Result of checking a mutant: ``caught``, ``survived``, ``same code`` or ``no code`` (does not compile)."""

    kernel: str
    mutant: Mutant
    fate: str
    rules: tuple[str, ...] = ()


def mutants(text: str) -> Iterator[Mutant]:
    """Yield every mutant of a source, with one change in device code each."""
    code = [span for match in _KERNEL.finditer(text) for span in [(match.end(), _end(text, match.end()))]]
    for operator, (pattern, table) in OPERATORS.items():
        for match in re.finditer(pattern, text):
            start, end = match.span(1)
            line = text.count("\n", 0, start)
            whole = text.split("\n")[line]
            comment = whole.find("//")
            column = start - text.rfind("\n", 0, start) - 1
            if not any(low <= start < high for low, high in code) or 0 <= comment < column or "#" in whole[:1]:
                continue
            for new in _replacement(operator, match[1], table):
                yield Mutant(operator, line + 1, match[1], new, text[:start] + new + text[end:])


def _end(text: str, start: int) -> int:
    """Return the end of the block that begins at ``start``."""
    depth = 1
    for index in range(start, len(text)):
        depth += (text[index] == "{") - (text[index] == "}")
        if depth == 0:
            return index
    return len(text)


def _replacement(operator: str, old: str, table: dict[str, str]) -> tuple[str, ...]:
    if operator == "barrier taken out":
        return ("",)
    if operator == "constant":
        return (str(int(old) + 1),)
    if operator == "guard taken out":
        return ("true",)
    return (table[old],) if old in table else ()


def judge(spec: KernelSpec, root: str, mutant: Mutant, cases: int) -> MutantResult:
    """Check one mutant with the cases of a save."""
    request = CheckRequest(spec, CheckOptions(cases=cases, max_failures=1), root=root)
    changed = CheckRequest(spec, request.options, root=root, text=mutant.text)
    before, after = _ptx(request), _ptx(changed)
    if after is None:
        return MutantResult(spec.name, mutant, "no code")
    if before == after:
        return MutantResult(spec.name, mutant, "same code")
    events = list(check_kernel(changed))
    rules = {
        event.rule
        for event in events
        if isinstance(event, Finding) and event.severity in (Severity.ERROR, Severity.WARNING)
    }
    assert any(isinstance(event, KernelReport) for event in events)
    return MutantResult(spec.name, mutant, "caught" if rules else "survived", tuple(sorted(rules)))


def _ptx(request: CheckRequest) -> str | None:
    """Return the kernel's PTX without debug information."""
    artifact = prepare(request).artifact
    if artifact is None:
        return None
    kept = (line for line in artifact.ptx.split("\n") if not re.match(r"\s*(//|\.loc|\.file|\.section|\.b8)", line))
    return "\n".join(kept)


def render(outcomes: Sequence[MutantResult], cases: int, sampled: bool) -> str:
    """Return the section of the page."""
    counted = Counter((outcome.mutant.operator, outcome.fate) for outcome in outcomes)
    judged = [outcome for outcome in outcomes if outcome.fate in ("caught", "survived")]
    caught = sum(outcome.fate == "caught" for outcome in judged)
    share = f"{100 * caught / len(judged):.1f}" if judged else "-"
    text = [
        "## Mutants",
        "",
        f"Made by `python -m benchmarks.mutation --cases {cases}`: one change in a correct kernel, the cases of a",
        "save.",
        "",
        f"**{caught} of {len(judged)}** ({share} %) are noticed" + (" in a random sample." if sampled else "."),
        "",
        "| change | noticed | survived | same PTX |",
        "|---|---|---|---|",
    ]
    for operator in OPERATORS:
        fates = [counted[operator, fate] for fate in ("caught", "survived", "same code")]
        text.append(f"| {operator} | {fates[0]} | {fates[1]} | {fates[2]} |")
    survivors = [outcome for outcome in outcomes if outcome.fate == "survived"]
    text += ["", "### What survived", "", "| kernel | line | change |", "|---|---|---|"]
    for outcome in survivors:
        before, after = (part.replace("|", "\\|") for part in (outcome.mutant.before, outcome.mutant.after))
        text.append(f"| {outcome.kernel} | {outcome.mutant.line} | `{before}` to `{after}` |")
    return "\n".join(text) + "\n"


def main() -> None:
    """Construct the mutants, check them and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=8)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--toml", type=Path, help="a gpuemu.toml in place of the corpus")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    project = load(options.toml) if options.toml else None
    specs = project.kernels if project else corpus_kernels()
    root = project.root if project else CORPUS.as_posix()
    correct = [spec for spec in specs if read_expectations(Path(spec.source)).clean]
    made = [(spec, mutant) for spec in correct for mutant in mutants(Path(spec.source).read_text(encoding="utf-8"))]
    random.Random(options.seed).shuffle(made)
    chosen = made[: options.sample] if options.sample else made
    outcomes: list[MutantResult] = []
    for batch in (chosen[start : start + BATCH] for start in range(0, len(chosen), BATCH)):
        with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
            futures = [pool.submit(judge, spec, root, mutant, options.cases) for spec, mutant in batch]
            for future in futures:
                outcomes.append(future.result())
                last = outcomes[-1]
                if last.fate == "survived":
                    print(
                        f"{last.kernel:<24}{last.mutant.line:>4}  {last.mutant.before} -> {last.mutant.after}",
                        flush=True,
                    )
    outcomes.sort(key=lambda outcome: (outcome.kernel, outcome.mutant.line, outcome.mutant.operator))
    put(options.output, "mutants", render(outcomes, options.cases, bool(options.sample)))


if __name__ == "__main__":
    main()
