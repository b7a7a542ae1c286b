"""The fork server: preload, warm-up, failures of its start, and its death."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path

import pytest
from support.processes import children, descendants
from support.worker_pool import FUNCTIONS, wait_gone

from gpuemu_lsp.engine.workers.model import Cancelled, Done, Event, Job, Progress, WorkerDied
from gpuemu_lsp.engine.workers.pool import Pool


def test_missing_preload_is_named_and_harmless():
    with Pool(FUNCTIONS, preload=["no_such_module_at_all", "json"]) as pool:
        ready = pool.wait_ready(20)
        assert ready is not None and list(ready.missing) == ["no_such_module_at_all"]
        assert isinstance(pool.submit(Job("echo")).wait(20), Done)


@pytest.mark.parametrize("python", ["/no/such/python", "/bin/false"])
def test_interpreter_that_cannot_start_fails_each_job(python):
    before = set(descendants(os.getpid()))
    with Pool(FUNCTIONS, python=python) as pool:
        assert pool.wait_ready(20) is None
        endings = [pool.submit(Job("echo")).wait(20) for _ in range(20)]
        assert all(isinstance(ending, WorkerDied) and "cannot be started" in ending.reason for ending in endings)
        assert not set(descendants(os.getpid())) - before


COMPILE = """
from cupy.cuda import nvrtc
import llvmlite.binding as llvm

def job(number):
    source = f'extern "C" __global__ void k(float *x) {{ x[threadIdx.x] += {number}; }}'
    program = nvrtc.createProgram(source, "k.cu", (), ())
    nvrtc.compileProgram(program, ("-arch=compute_80",))
    yield b".entry k" in nvrtc.getPTX(program)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text = f"define i32 @f() {{ ret i32 {number} }}"
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(text), llvm.Target.from_default_triple().create_target_machine()
    )
    import ctypes
    yield ctypes.CFUNCTYPE(ctypes.c_int)(engine.get_function_address("f"))()
"""


def test_compilers_work_in_forked_workers_side_by_side(tmp_path):
    path = tmp_path / "compile.py"
    path.write_text(COMPILE)
    with Pool(FUNCTIONS, size=2, preload=["numpy", "llvmlite.binding", "cupy"]) as pool:
        events = [[] for _ in range(6)]
        handles = [
            pool.submit(Job("script", {"path": str(path), "argument": i}, taint=str(i % 3)), events[i].append)
            for i in range(6)
        ]
        assert [type(handle.wait(60)) for handle in handles] == [Done] * 6
    assert [[event.value for event in seen[:-1]] for seen in events] == [[True, i] for i in range(6)]


def test_an_internal_error_ends_every_job(monkeypatch, caplog):
    with Pool(FUNCTIONS) as pool:
        assert pool.wait_ready(20)
        monkeypatch.setattr(type(pool._supervisor), "_assign", lambda self: 1 / 0)
        endings = [pool.submit(Job("echo")).wait(20) for _ in range(3)]
    assert isinstance(endings[0], WorkerDied) and "ZeroDivisionError" in endings[0].reason
    assert all(isinstance(ending, (WorkerDied, Cancelled)) for ending in endings)


def test_fork_server_is_single_threaded_when_it_forks():
    """A fork copies one thread only: a lock held by another would stay locked in the child for ever."""
    before = set(descendants(os.getpid()))
    with Pool(FUNCTIONS, preload=["numpy", "ml_dtypes", "llvmlite.binding", "cupy"]) as pool:
        ready = pool.wait_ready(60)
        assert ready is not None and not ready.missing
        (server,) = set(descendants(os.getpid())) - before
        assert len(list(Path(f"/proc/{server}/task").iterdir())) == 1


WARMED = """
import os
import signal
import tempfile
from pathlib import Path
from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.compile.scratch import scratch

def job(number):
    threads = len(os.listdir(f"/proc/{os.getppid()}/task"))
    ready = dict(scratch().prefixes)
    text = f"#include <cuda_fp16.h>\\n__global__ void k(__half* x) {{ x[{number}] = __float2half(1.0f); }}"
    result = compile_source(CompileRequest(f"/k{number}.cu", text))
    made = sum(1 for _ in Path(scratch().root, "pch").iterdir())
    yield [threads, len(ready), result.artifact is not None, made]
"""


def test_workers_inherit_the_warm_state(tmp_path, monkeypatch, short_folder):
    scratch = short_folder
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "warmed.py"
    path.write_text(WARMED)
    steps = ("gpuemu_lsp.engine.no_such_module:warm_up", "gpuemu_lsp.engine.compile.compiler:warm_up")
    with Pool(FUNCTIONS, size=2, preload=["cupy"], warm_up=steps) as pool:
        deadline = time.monotonic() + 60
        for number in range(1000):
            events = []
            job = Job("script", {"path": str(path), "argument": number}, taint=str(number))
            assert isinstance(pool.submit(job, events.append).wait(60), Done)
            ((threads, ready, compiled, made),) = [event.value for event in events[:-1]]
            assert threads == 1 and compiled
            if ready == 2 or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        assert (ready, made) == (2, 0)
        # Removed precompiled headers cost time, not results.
        precompiled = list(scratch.rglob("*.pch"))
        assert len(precompiled) >= 2  # those of the warm-up, and of workers forked before it
        for file in precompiled:
            file.unlink()
        assert isinstance(pool.submit(job, events.append).wait(60), Done)
        assert events[-2].value[2] is True


def test_killed_fork_server_fails_its_jobs_and_is_replaced(tmp_path, monkeypatch):
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    path = tmp_path / "kill.py"
    path.write_text(
        "import os, time\ndef job(argument):\n    yield os.getpid()\n    os.kill(os.getppid(), 9)\n    time.sleep(99)\n"
    )
    with Pool(FUNCTIONS) as pool:
        events = []
        ending = pool.submit(Job("script", {"path": str(path)}), events.append).wait(20)
        assert isinstance(ending, WorkerDied) and "fork server was killed" in ending.reason
        assert not wait_gone(events[0].value)
        assert isinstance(pool.submit(Job("echo")).wait(20), Done)
    assert not list(scratch.iterdir())


# A process of a job in a session of its own: one that keeps the environment, and one that clears it.
LEAVE = """
import os, signal, subprocess

def job(cleared):
    environment = {} if cleared else None
    yield subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True, env=environment).pid
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(write, str(os.getpid()).encode())
            signal.pause()
        os._exit(0)
    yield int(os.read(read, 20))
    import time
    time.sleep(1000)
"""


def _started(pool: Pool, path: Path, cleared: bool) -> list[int]:
    """Start the job; return the pids of the processes that it has started, with that of the worker."""
    path.write_text(LEAVE)
    pids: list[int] = []

    def receive(event: Event) -> None:
        if isinstance(event, Progress):
            pids.append(event.value)

    pool.submit(Job("script", {"path": str(path), "argument": cleared}), receive)
    while len(pids) < 2:
        time.sleep(0.01)
    return pids


@pytest.mark.parametrize("cleared", [False, True])
def test_fork_server_that_does_not_end_is_killed_with_all_its_descendants(tmp_path, cleared):
    before = descendants(os.getpid())
    pool = Pool(FUNCTIONS)
    assert pool.wait_ready(20)
    (fork_server,) = children(os.getpid()) - before
    pids = _started(pool, tmp_path / "job.py", cleared)
    os.kill(fork_server, signal.SIGSTOP)
    pool.close()
    assert not wait_gone(fork_server, *pids)


def test_fork_server_that_is_killed_leaves_no_process_of_a_job(tmp_path):
    before = descendants(os.getpid())
    with Pool(FUNCTIONS) as pool:
        assert pool.wait_ready(20)
        (fork_server,) = children(os.getpid()) - before
        pids = _started(pool, tmp_path / "job.py", False)
        os.kill(fork_server, signal.SIGKILL)
        assert not wait_gone(fork_server, *pids)
        assert isinstance(pool.submit(Job("echo")).wait(20), Done)
