"""Findings for every ending of a job, and a run of real jobs that crash and hang."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuemu_lsp.engine.check.model import KernelReport, Stage
from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.jobs.functions import decode, encode
from gpuemu_lsp.engine.jobs.run import compile_limit, run_requests
from gpuemu_lsp.engine.jobs.table import FUNCTIONS
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.model import Cancelled, Done, Failed, Limits, TimedOut, WorkerDied
from gpuemu_lsp.engine.workers.pool import Pool


@pytest.fixture
def request_of(tmp_path):
    reference = tmp_path / "ref.py"
    reference.write_text("import time\n\n\ndef reference(inputs):\n    time.sleep(100)\n")
    config = Place((tmp_path / "gpuemu.toml").as_posix(), Range.of(3, 12, 3, 20))
    spec = KernelSpec("k", (tmp_path / "k.cu").as_posix(), reference.as_posix(), places={"reference": config})
    return CheckRequest(spec)


FAULTHANDLER = 'Current thread 0x7f (most recent call first):\n  File "{ref}", line 5 in reference\n  File "/x/pool.py", line 9 in run\n'
TRACEBACK = (
    'Traceback (most recent call last):\n  File "{ref}", line 1, in <module>\n  File "{ref}", line 5, in reference\n'
)


@pytest.mark.parametrize(
    ("ending", "rule", "line"),
    [
        (TimedOut(9.0, "reference", traceback=FAULTHANDLER), "reference/error", 4),
        (TimedOut(9.0, "reference"), "reference/error", None),
        (Failed("ValueError", "no", TRACEBACK, "reference"), "reference/error", 4),
        (
            WorkerDied("it was killed by signal 9", "reference", output="Fatal Python error\n" + FAULTHANDLER),
            "reference/error",
            4,
        ),
        (TimedOut(9.0, "execute"), "engine/timeout", None),
        (TimedOut(9.0, "execute", traceback=FAULTHANDLER), "engine/timeout", None),
        (WorkerDied("it was killed by signal 11", "execute"), "engine/worker-crashed", None),
        (Failed("KeyError", "x", TRACEBACK, "execute"), "engine/internal-error", None),
        (Done(), "engine/internal-error", None),
        (Cancelled(), "engine/not-executed", None),
    ],
)
def test_ending(request_of, ending, rule, line):
    reference = request_of.spec.reference
    for name in ("traceback", "output"):
        if getattr(ending, name, ""):
            object.__setattr__(ending, name, getattr(ending, name).format(ref=reference))
    finding = ending_finding(request_of, ending)
    assert finding.rule == rule
    assert finding.kernel == "k"
    if line is None:
        assert finding.place.path != reference
    else:
        assert (finding.place.path, finding.place.range) == (reference, Range.of(4, 4, 4, 19))
        assert finding.related[0].place == request_of.spec.places["reference"]


def test_events_round_trip():
    place = Place("/k.cu", Range.of(1, 2, 3, 4))
    events = [
        Stage("k", "reference", 3, 8),
        make("numeric/nan", "m", place, kernel="k", data={"expected": 1.0}, dims={"n": 3}),
        KernelReport("k", "/k.cu", "passed", True, resources={"sm_80": ResourceUsage(1, 2, 3, 4, 5, 6, 7)}, worst=0.5),
    ]
    assert [decode(encode(event)) for event in events] == events
    assert encode(events[0])["stage"] == "reference"


BROKEN = {
    "dies": ("import os\nos._exit(3)", "reference/error"),
    "hangs": (
        "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\nwhile True: pass",
        "reference/error",
    ),
    "fine": ("pass", None),
}


def test_a_crashing_reference_does_not_affect_other_kernels(tmp_path, monkeypatch):
    monkeypatch.setattr("gpuemu_lsp.engine.jobs.run._SECONDS_PER_KERNEL", 30.0)  # a hanging reference takes all of it
    source = "__global__ void k(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }\n"
    requests = []
    for index, (name, (code, _)) in enumerate(BROKEN.items()):
        (tmp_path / f"{index}.cu").write_text(source)
        body = "\n    ".join(code.split("\n"))
        (tmp_path / f"{index}.py").write_text(f"def reference(inputs):\n    {body}\n    return inputs['x']\n")
        spec = KernelSpec(name, str(tmp_path / f"{index}.cu"), str(tmp_path / f"{index}.py"), entry="k")
        requests.append(CheckRequest(spec, CheckOptions(cases=2, case_seconds=2.0), root=str(tmp_path)))
    with Pool(FUNCTIONS, size=3, limits=Limits()) as pool:
        run = run_requests(requests, [], str(tmp_path), pool)
    assert [report.name for report in run.kernels] == list(BROKEN)
    found = {finding.kernel: finding for finding in run.findings if finding.severity == "error"}
    assert {name: found[name].rule if name in found else None for name in BROKEN} == {
        name: rule for name, (_, rule) in BROKEN.items()
    }
    assert run.kernels[2].status == "passed"
    assert found["hangs"].place == Place(str(tmp_path / "1.py"), Range.of(3, 4, 3, 20))
    assert run.exit_code == 1


def test_a_compiler_crash_is_an_error_for_registered_kernels_only(request_of):
    died = WorkerDied("it was killed by SIGSEGV", "compile")
    registered, unregistered = (
        ending_finding(request_of, died),
        ending_finding(replace(request_of, registered=False), died),
    )
    assert (registered.rule, registered.severity) == ("engine/worker-crashed", "error")
    assert (unregistered.rule, unregistered.severity) == ("engine/not-executed", "hint")
    assert "SIGSEGV" in unregistered.message


def test_the_compiler_of_an_unregistered_kernel_is_ended_at_its_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("gpuemu_lsp.engine.jobs.run._COMPILE_SECONDS", 0.02)  # less than any compilation takes
    (tmp_path / "k.cu").write_text("__global__ void k(float* y) { y[threadIdx.x] = 1; }\n")
    request = CheckRequest(KernelSpec("k", str(tmp_path / "k.cu"), None), registered=False, root=str(tmp_path))
    with Pool(FUNCTIONS, size=1, limits=Limits()) as pool:
        run = run_requests([request], [], str(tmp_path), pool)
    (report,), (finding,) = run.kernels, run.findings
    assert (report.status, report.compiled) == ("not-executed", False)
    assert report.timing_ms["total"] - report.timing_ms["wait"] == pytest.approx(20)
    assert "'k' was not checked: the compiler ran for more than" in finding.message
    imported = replace(request.spec, source=str(tmp_path / "k.py"))
    asked = [request, replace(request, registered=True), replace(request, spec=imported)]
    assert [compile_limit(one) is not None for one in asked] == [True, False, False]


@pytest.mark.parametrize(("kills", "status"), [(1, "passed"), (2, "error")])
def test_a_check_whose_worker_is_killed_begins_again_once(tmp_path, kills, status):
    (tmp_path / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n) {\n"
        "    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (i < n) y[i] = x[i];\n"
        "}\n"
    )
    (tmp_path / "ref.py").write_text(
        "import os, pathlib\n"
        "killed = pathlib.Path(__file__).with_name('killed')\n"
        "def reference(inputs):\n"
        "    times = len(killed.read_text()) if killed.exists() else 0\n"
        f"    if times < {kills}:\n"
        "        killed.write_text('x' * (times + 1))\n"
        "        os.kill(os.getpid(), 9)\n"
        "    return inputs['x']\n"
    )
    spec = KernelSpec("k", str(tmp_path / "k.cu"), str(tmp_path / "ref.py"))
    request = CheckRequest(spec, CheckOptions(cases=2, case_seconds=2.0), root=str(tmp_path))
    with Pool(FUNCTIONS, size=1, limits=Limits()) as pool:
        run = run_requests([request], [], str(tmp_path), pool)
    assert [report.status for report in run.kernels] == [status]
    assert [finding.rule for finding in run.findings if finding.severity == "error"] == ["reference/error"] * (
        kills - 1
    )
