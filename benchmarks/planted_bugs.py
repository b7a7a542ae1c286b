"""Twenty planted bugs in copies of public kernels, nothing configured: how many are found, on their line.

    python -m benchmarks.planted_bugs FOLDER [--output FILE]

FOLDER contains checkouts of the repositories in ``BUGS``. Each bug is one replacement in a copy of one file, in its
repository; the rest is as published. A bug is found if a finding at error level that the file as published does not
have is on one of the lines that the bug decides: that changed, and those with the accesses that become wrong.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.page import put
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.subjects.request import CheckOptions
from gpuemu_lsp.engine.workers.pool import Pool

_CASES = 8


@dataclass(frozen=True, slots=True)
class Bug:
    """One replacement: the first match of the pattern ``right`` in the body of a kernel or host function.

    ``within`` is a pattern of where the search starts. Lines that match ``shows`` from there on are those with the
    access that becomes wrong.
    """

    kind: str
    file: str
    kernel: str
    within: str
    right: str
    wrong: str
    shows: str


_L, _S, _H, _C = "llm.c/dev/cuda/", "SGEMM_CUDA/src/kernels/", "How_to_optimize_in_GPU/", "cuda-samples/Samples/"
BUGS = (
    Bug(
        "guard",
        _L + "gelu_forward.cu",
        "gelu_forward_kernel1",
        r"void gelu_forward_kernel1",
        r"i < N",
        "i <= N",
        r"\[i\]",
    ),
    Bug(
        "guard",
        _L + "residual_forward.cu",
        "residual_forward_kernel1",
        r"void residual_forward_kernel1",
        r"idx < N",
        "idx <= N",
        r"\[idx\]",
    ),
    Bug(
        "guard",
        _L + "encoder_forward.cu",
        "encoder_forward_kernel1",
        r"void encoder_forward_kernel1",
        r"idx < N",
        "idx <= N",
        r"\[|_bt",
    ),
    Bug(
        "guard",
        _L + "adamw.cu",
        "adamw_kernel1",
        r"void adamw_kernel1",
        r"i >= num_parameters",
        "i > num_parameters",
        r"\[i\]",
    ),
    Bug(
        "guard",
        _L + "softmax_forward.cu",
        "softmax_forward_kernel1",
        r"void softmax_forward_kernel1",
        r"j < C",
        "j <= C",
        r"_row\[j\]",
    ),
    Bug(
        "guard",
        _L + "layernorm_forward.cu",
        "layernorm_forward_kernel1",
        r"void layernorm_forward_kernel1",
        r"idx < N",
        "idx <= N",
        r"\[|seq|x\[",
    ),
    Bug(
        "barrier",
        _L + "softmax_forward.cu",
        "softmax_forward_kernel2",
        r"void softmax_forward_kernel2",
        r"__syncthreads\(\);",
        "",
        r"shared\[",
    ),
    Bug(
        "barrier",
        _L + "layernorm_forward.cu",
        "mean_kernel",
        r"void mean_kernel[\s\S]*?// reductions",
        r"__syncthreads\(\);",
        "",
        r"shared\[",
    ),
    Bug(
        "barrier",
        _S + "3_kernel_shared_mem_blocking.cuh",
        "sgemm_shared_mem_block",
        r"void sgemm_shared_mem_block",
        r"__syncthreads\(\);",
        "",
        r"As\[|Bs\[",
    ),
    Bug(
        "barrier",
        _S + "4_kernel_1D_blocktiling.cuh",
        "sgemm1DBlocktiling",
        r"void sgemm1DBlocktiling",
        r"__syncthreads\(\);",
        "",
        r"As\[|Bs\[",
    ),
    Bug(
        "barrier",
        _C + "0_Introduction/simpleCooperativeGroups/simpleCooperativeGroups.cu",
        "cgkernel",
        r"int sumReduction",
        r"g\.sync\(\);",
        "",
        r"x\[",
    ),
    Bug(
        "index",
        _L + "matmul_forward.cu",
        "matmul_forward_kernel1",
        r"void matmul_forward_kernel1",
        r"out\[bt \* OC \+ oc\]",
        "out[oc * OC + bt]",
        r"out\[",
    ),
    Bug(
        "index", _S + "1_naive.cuh", "sgemm_naive", r"void sgemm_naive", r"A\[x \* K \+ i\]", "A[i * M + x * K]", r"A\["
    ),
    Bug(
        "index",
        _L + "permute.cu",
        "permute_kernel",
        r"void permute_kernel",
        r"dim1 \* dim2 \* dim3 \* dim4",
        "dim1 * dim2 * dim3 * dim4 + 1",
        r"\[",
    ),
    Bug(
        "index",
        _L + "residual_forward.cu",
        "residual_forward_kernel1",
        r"void residual_forward_kernel1",
        r"inp2\[idx\]",
        "inp2[idx + 1]",
        r"inp2\[",
    ),
    Bug(
        "array",
        _S + "3_kernel_shared_mem_blocking.cuh",
        "sgemm_shared_mem_block",
        r"void sgemm_shared_mem_block",
        r"__shared__ float As\[BLOCKSIZE \* BLOCKSIZE\]",
        "__shared__ float As[BLOCKSIZE * BLOCKSIZE - 32]",
        r"As\[",
    ),
    Bug(
        "array",
        _S + "4_kernel_1D_blocktiling.cuh",
        "sgemm1DBlocktiling",
        r"void sgemm1DBlocktiling",
        r"__shared__ float As\[BM \* BK\]",
        "__shared__ float As[BM * BK / 2]",
        r"As\[",
    ),
    Bug(
        "array",
        _L + "matmul_forward.cu",
        "matmul_forward_kernel4",
        r"void __launch_bounds__\(16\*16\) matmul_forward_kernel4",
        r"lhs_s\[128\]\[32\]",
        "lhs_s[120][32]",
        r"lhs_s\[",
    ),
    Bug(
        "rounding",
        _L + "softmax_forward.cu",
        "softmax_forward_kernel2",
        r"void softmax_forward2",
        r"block_size \* sizeof\(float\)",
        "block_size / 2 * sizeof(float)",
        r"shared\[|shared_mem_size",
    ),
    Bug(
        "rounding",
        _C + "0_Introduction/vectorAdd/vectorAdd.cu",
        "vectorAdd",
        r"int main",
        r"\(numElements \+ threadsPerBlock - 1\) / threadsPerBlock",
        "numElements / threadsPerBlock",
        r"C\[i\]|vectorAdd\(",
    ),
)


def planted(text: str, bug: Bug) -> tuple[str, frozenset[int]] | None:
    """Return a file's text with a bug and its lines, from 1; None if the file does not have the code."""
    start = re.search(bug.within, text)
    found = re.compile(bug.right).search(text, start.end()) if start is not None else None
    if start is None or found is None:
        return None
    changed = text[: found.start()] + bug.wrong + text[found.end() :]
    first, own = text.count("\n", 0, start.start()) + 1, text.count("\n", 0, found.start()) + 1
    end = changed.find("\n}", start.end())
    last = changed.count("\n", 0, end) + 1
    written = changed.split("\n")
    shown = {number for number in range(first, last + 1) if re.search(bug.shows, written[number - 1])}
    kernel = re.search(rf"__global__[^;{{]*\b{bug.kernel}\(", changed)
    if kernel is not None:
        first = changed.count("\n", 0, kernel.start()) + 1
        last = changed.count("\n", 0, changed.find("\n}", kernel.end())) + 1
        shown |= {number for number in range(first, last + 1) if re.search(bug.shows, written[number - 1])}
    return changed, frozenset(shown | {own})


def errors(repository: Path, file: Path, kernel: str, pool: Pool) -> list[Finding]:
    """Return the findings at error level of one kernel of a file, or of one that its file includes."""
    requests = collect([str(file)], CheckOptions(cases=_CASES), repository).requests
    mine = [request for request in requests if request.spec.name.split("::")[-1] == kernel]
    run = run_requests(mine, (), str(repository), pool)
    return [one for one in run.findings if one.severity is Severity.ERROR and not one.rule.startswith("compile/")]


def measure(folder: Path, bugs: Sequence[Bug]) -> Iterator[tuple[Bug, str, str]]:
    """Yield for each bug what was found: ``yes``, ``elsewhere``, ``no`` or ``not planted``, and the findings."""
    with Pool(FUNCTIONS, size=2, preload=PRELOAD) as pool, tempfile.TemporaryDirectory() as name:
        for bug in bugs:
            repository, _, path = bug.file.partition("/")
            copy = Path(name) / repository
            if not copy.exists() and (folder / repository).exists():
                shutil.copytree(folder / repository, copy, ignore=shutil.ignore_patterns(".git"))
            file = copy / path
            text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
            changed = planted(text, bug)
            if changed is None:
                yield bug, "not planted", ""
                continue
            before = {(one.rule, one.place.range.start.line) for one in errors(copy, file, bug.kernel, pool)}
            file.write_text(changed[0], encoding="utf-8")
            found = [
                one
                for one in errors(copy, file, bug.kernel, pool)
                if (one.rule, one.place.range.start.line) not in before
            ]
            file.write_text(text, encoding="utf-8")
            lines = [(one.rule, one.place.range.start.line + 1) for one in found]
            # An access in a helper function is shown at its call too.
            calls = {other.place.range.start.line + 1 for one in found for other in one.related}
            hit = any(line in changed[1] for line in (*(line for _, line in lines), *calls))
            said = "; ".join(f"{rule} line {line}" for rule, line in lines[:3])
            yield bug, "yes" if hit else "elsewhere" if lines else "no", said


def main() -> None:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    lines, total = ["| bug | file | kernel | found | findings |", "|---|---|---|---|---|"], 0
    for bug, verdict, said in measure(options.folder, BUGS):
        total += verdict == "yes"
        lines.append(f"| {bug.kind} | {Path(bug.file).name} | {bug.kernel} | {verdict} | {said} |")
        print(lines[-1], flush=True)
    page = "\n".join(["## Planted bugs", "", *lines, "", f"Found on their line: {total} of {len(BUGS)}.", ""])
    put(options.output, "planted bugs", page)


if __name__ == "__main__":
    main()
