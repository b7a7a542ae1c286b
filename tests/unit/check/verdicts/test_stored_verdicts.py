"""Stored verdicts: taken for the same code, with findings as a new check would place them; never after a cut."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from support.check_project import CU, REFERENCE, request

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, collect
from gpuemu_lsp.engine.jobs.requests import targets
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

KERNELS = Path(__file__).parents[4] / "kernels"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuemu_lsp.engine.check.verdicts import cache

    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / "cache"))
    cache._folder.cache_clear()


def check(made: CheckRequest, verdicts: str = "reuse") -> tuple[KernelReport, list[Finding]]:
    findings: list[Finding] = []
    report = None
    for event in check_kernel(replace(made, options=replace(made.options, verdicts=verdicts))):
        if isinstance(event, Finding):
            collect(findings, event)
        elif isinstance(event, KernelReport):
            report = event
    assert report is not None
    return report, findings


def with_comments(text: str, seed: int) -> str:
    """Return a text with comments and blank lines between its lines."""
    rng, lines = random.Random(seed), []
    for line in text.split("\n"):
        # A line that a backslash continues admits none.
        if not (lines and lines[-1].endswith("\\")) and rng.random() < 0.4:
            lines += [rng.choice(["", "// a comment", "    /* another */"])] * rng.randint(1, 3)
        lines.append(line)
    return "\n".join(lines)


@pytest.mark.parametrize(
    "name",
    ["scan_buggy", "halo_buggy", "gelu", "gather_buggy", "divergent_barrier_buggy", "row_loop_buggy", "matmul_buggy"],
)
def test_findings_are_placed_as_by_a_new_check(name: str, tmp_path: Path) -> None:
    root = tmp_path / "kernels"
    shutil.copytree(KERNELS, root, ignore=shutil.ignore_patterns(".gpuemu"))
    folders = (path.parent for path in sorted(root.rglob("gpuemu.toml")))
    requests = (one for folder in folders for one in targets.collect([str(folder)], CheckOptions(), root).requests)
    made = next((one for one in requests if one.spec.name == name), None)
    if made is None:
        pytest.skip(f"the corpus has no {name}")
    check(made)
    moved = replace(made, text=with_comments(Path(made.spec.source).read_text(), seed=len(name)))
    report, found = check(moved)
    again, expected = check(moved, "run")
    assert report.reused and not again.reused
    assert report.status == again.status
    assert [(item.rule, item.place, item.severity) for item in found] == [
        (item.rule, item.place, item.severity) for item in expected
    ]
    assert [[one.place for one in item.locations] for item in found] == [
        [one.place for one in item.locations] for item in expected
    ]


WRONG = CU.replace("2.0f", "3.0f")
CONTENTS = {"cu": WRONG, "reference": REFERENCE, "toml": '[[kernels]]\nname = "twice"\nsource = "twice.cu"\n'}
CONTENTS["toml"] += 'reference = "twice.py"\ntolerances = { float32 = 1e-6 }\n'


@pytest.mark.parametrize(
    ("part", "old", "new", "reused"),
    [
        ("cu", "if (i < n)", "\n  // comment\n  if (i < n)", True),
        ("cu", "3.0f", "4.0f", False),
        ("reference", "2.0 *", "2 *", False),
        ("toml", "1e-6", "1e-5", False),
        ("toml", "[[kernels]]", "# comment\n[[kernels]]", True),
        ("toml", "tolerances", "artifact_checks = { max_registers = 99 }\ntolerances", True),
        ("toml", "tolerances", "dtypes = ['float32']\ntolerances", False),
        ("toml", "tolerances", "invariants = { no_nan = true }\ntolerances", False),
    ],
)
def test_what_runs_decides(part: str, old: str, new: str, reused: bool, tmp_path: Path) -> None:
    assert not check(request(tmp_path, **CONTENTS))[0].reused
    assert check(request(tmp_path, **CONTENTS))[0].reused
    report, found = check(request(tmp_path, **{**CONTENTS, part: CONTENTS[part].replace(old, new)}))
    assert report.reused is reused
    assert {item.rule for item in found if item.severity == "error"} == {"numeric/tolerance-exceeded"}


MUCH_CODE = """
__global__ void filled(float* x) {
    #pragma unroll
    for (int i = 0; i < 40; ++i) x[i * 40 + threadIdx.x] = sinf(x[i + threadIdx.x]) * 3;
}
"""


def test_a_file_with_much_code_keeps_its_verdict_through_comments_only(tmp_path: Path) -> None:
    text, made = WRONG + MUCH_CODE, request(tmp_path, **CONTENTS)
    first, found = check(replace(made, text=text))
    kept, moved = check(replace(made, text=f"// a comment\n{text}"))
    assert kept.reused and kept.resources == first.resources != {}
    assert [(one.rule, one.place.range.start.line - 1) for one in moved] == [
        (one.rule, one.place.range.start.line) for one in found
    ]
    shared = "__shared__ volatile float tile[99]; tile[threadIdx.x % 99] = 4.0f;\n  if (i < n)"
    changed, _ = check(replace(made, text=text.replace("if (i < n)", shared)))
    assert not changed.reused
    assert changed.resources["sm_80"].static_shared_bytes == 4 * 99


@pytest.mark.parametrize("options", [{"seed": 7, "seed_given": True}, {"cases": 5}, {"strategy": "default"}])
def test_options_decide(options: dict[str, object], tmp_path: Path) -> None:
    check(request(tmp_path))
    assert not check(request(tmp_path, **options))[0].reused


def test_a_stored_case_decides(tmp_path: Path) -> None:
    check(request(tmp_path, cu=WRONG, store_root=str(tmp_path)))
    assert check(request(tmp_path, cu=WRONG, store_root=str(tmp_path)))[0].reused
    shutil.rmtree(tmp_path / ".gpuemu")
    report, _ = check(request(tmp_path, cu=WRONG, store_root=str(tmp_path)))
    assert not report.reused and (tmp_path / ".gpuemu").exists()


def test_a_stored_failure_moves_to_the_line_of_its_finding(tmp_path: Path) -> None:
    from gpuemu_lsp.engine.store import Store

    check(request(tmp_path, cu=WRONG, store_root=str(tmp_path)))
    assert check(request(tmp_path, cu="\n\n" + WRONG, store_root=str(tmp_path)))[0].reused
    with Store(tmp_path) as store:
        assert {item.failure.line for item in store.failures()} == {4}


def test_a_check_that_ran_out_of_time_is_not_stored(tmp_path: Path) -> None:
    assert check(request(tmp_path, seconds=0.0))[0].cases.run == 1
    assert not check(request(tmp_path, seconds=0.0))[0].reused


@pytest.mark.parametrize(
    "reference",
    [
        "def reference(inputs):\n    raise ValueError('broken')\n",
        "import random\ndef reference(inputs):\n    return inputs['x'] * random.random()\n",
    ],
)
def test_a_reference_that_fails_or_varies_is_called_again(reference: str, tmp_path: Path) -> None:
    check(request(tmp_path, reference=reference))
    report, found = check(request(tmp_path, reference=reference))
    assert not report.reused and report.status == "error" and found


def test_the_line_of_a_launch_in_a_message_is_that_of_the_text(tmp_path: Path) -> None:
    text = "__global__ void k(const float* x, float* y, int n) {\n"
    text += "  int i = blockIdx.x * 64 + threadIdx.x; if (i < n) y[i] = x[i];\n}\n"
    text += "void host(float* x, float* y, int n) { k<<<(n + 63) / 64, 64>>>(x, y, n); }\n"
    for shift, reused in (("", False), ("// a comment\n", True)):
        (tmp_path / "k.cu").write_text(shift + text)
        (made,) = targets.collect([str(tmp_path / "k.cu")], CheckOptions(), tmp_path).requests
        report, found = check(made)
        assert report.reused is reused
        (inferred,) = [item for item in found if item.rule == "config/launch-inferred"]
        assert f"launch of line {4 + len(shift.splitlines())}" in inferred.message


def test_a_command_line_check_runs_always(tmp_path: Path) -> None:
    made = request(tmp_path)
    check(made)
    assert made.options.verdicts == "run" and not check(made, "run")[0].reused


def test_a_damaged_entry_is_ignored(tmp_path: Path) -> None:
    check(request(tmp_path))
    for path in (tmp_path / "cache" / "verdicts").iterdir():
        path.write_bytes(path.read_bytes()[:-20])
    assert not check(request(tmp_path))[0].reused
