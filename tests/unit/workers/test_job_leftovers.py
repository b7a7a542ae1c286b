"""Process state, child processes and threads of a job do not outlive it."""

from __future__ import annotations

import pytest
from support.worker_pool import FUNCTIONS, wait_gone

from gpuemu_lsp.engine.workers.model import Done, Job, Limits, Progress, TimedOut, WorkerDied
from gpuemu_lsp.engine.workers.pool import Pool


@pytest.mark.parametrize(
    ("change", "look"),
    [
        ("os.chdir('/')", "os.getcwd()"),
        ("os.umask(0o011)", "[os.umask(0), os.umask(0)][0]"),
        ("os.environ['GPUEMU_X'] = '1'; del os.environ['PATH']", "[os.environ.get('GPUEMU_X'), 'PATH' in os.environ]"),
        ("sys.path.insert(0, '/x'); sys.argv.append('y')", "[sys.path, sys.argv]"),
        ("sys.stdout = None; sys.stderr = None", "[sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__]"),
        ("os.close(0); os.close(1); os.close(2)", "[os.read(0, 1).decode(), os.write(1, b'')]"),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", "str(signal.getsignal(signal.SIGTERM))"),
        ("signal.pthread_sigmask(0, [signal.SIGALRM])", "len(signal.pthread_sigmask(0, []))"),
        (
            "signal.signal(signal.SIGALRM, lambda *_: os._exit(9)); signal.setitimer(signal.ITIMER_REAL, 0.2)",
            "[time.sleep(0.4), signal.getitimer(0)[0]]",
        ),
        ("locale.setlocale(locale.LC_ALL, 'C')", "locale.setlocale(locale.LC_ALL)"),
        ("sys.stdout.close(); sys.stdin.close()", "[sys.stdout.closed, sys.stdin.closed]"),
        ("sys.setrecursionlimit(60)", "sys.getrecursionlimit()"),
    ],
)
def test_state_is_restored_in_the_same_worker(run, change, look):
    imports = "import locale, os, signal, sys, time\n"
    _, before = run(f"{imports}yield [os.getpid(), {look}]")
    ending, _ = run(f"{imports}{change}\nyield 1")
    assert isinstance(ending, Done)
    after = run(f"{imports}yield [os.getpid(), {look}]")[1]
    assert after[0][1] == before[0][1]
    assert after[0][0] == before[0][0] or "close()" in change  # a closed stream cannot be opened again: a new worker


def test_other_user_code_gets_another_process(run):
    patch = "import os, numpy\nnumpy.add = None\nyield os.getpid()"
    (first,) = run(patch, taint="a.py")[1]
    look = "import os, numpy\nyield [os.getpid(), numpy.add is None]"
    assert run(look, taint="a.py")[1] == [[first, True]]  # its own changes
    for taint in ("b.py", None):
        ((pid, patched),) = run(look, taint=taint)[1]
        assert pid != first and not patched


@pytest.mark.parametrize("spare", [0, 2])
def test_spare_workers_keep_the_modules_of_user_code(tmp_path, spare):
    """The server lists failures and measurements after each check, at the same time."""
    script = tmp_path / "script.py"
    script.write_text("import os, time\ndef job(seconds):\n    time.sleep(seconds)\n    yield os.getpid()\n")

    def submit(pool, seconds, taint=None):
        events = []
        payload = {"path": str(script), "argument": seconds}
        return pool.submit(Job("script", payload, taint=taint), events.append), events

    def pids(*submitted):
        assert all(isinstance(handle.wait(20), Done) for handle, _ in submitted)
        return [events[0].value for _, events in submitted]

    with Pool(FUNCTIONS, size=2, spare=spare) as pool:
        before = pids(submit(pool, 0, "a.py"))
        others = pids(submit(pool, 0.2), submit(pool, 0.2))
        assert pids(submit(pool, 0, "a.py")) == before or not spare
        assert len({*before, *others}) == 3
        # Other user code takes the workers that have run none; then the one of the oldest job is ended.
        if spare:
            assert {pids(submit(pool, 0, taint))[0] for taint in ("b.py", "c.py")} == set(others)
            added = pids(submit(pool, 0, "d.py"))
            assert pids(submit(pool, 0, "a.py")) == before
            pids(submit(pool, 0, "e.py"))
            assert pids(submit(pool, 0, "a.py"), submit(pool, 0, "d.py")) == [*before, *added]


@pytest.mark.parametrize(
    "fork",
    [
        "os.fork()",  # the child returns into the worker's loop
        "if os.fork() == 0: raise ValueError",
        "if os.fork() == 0: sys.exit(1)",
    ],
)
def test_forked_child_sends_no_messages(run, fork):
    ending, values = run(f"import os, sys\n{fork}\nyield 'once'")
    assert isinstance(ending, Done) and values == ["once"]
    assert isinstance(run("yield 1")[0], Done)


SPAWN = {
    "child": "pid = os.fork()\nif pid == 0: time.sleep(1000)\nyield pid",
    "daemon": (
        "r, w = os.pipe()\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        os.write(w, str(os.getpid()).encode())\n"
        "        time.sleep(1000)\n"
        "    os._exit(0)\n"
        "yield int(os.read(r, 20))"
    ),
    "program": "yield subprocess.Popen(['sleep', '1000'], start_new_session=True).pid",
}


@pytest.mark.parametrize("how", ["ends", "is killed", "crashes"])
@pytest.mark.parametrize("spawn", SPAWN.values(), ids=SPAWN.keys())
def test_no_process_of_a_job_survives_it(run, spawn, how):
    then = {"ends": "", "is killed": "while True: pass", "crashes": "os._exit(1)"}[how]
    ending, pids = run(f"import os, subprocess, time\n{spawn}\n{then}", wall_seconds=0.5)
    assert isinstance(ending, {"ends": Done, "is killed": TimedOut, "crashes": WorkerDied}[how])
    assert len(pids) == 1 and not wait_gone(*pids)


def test_thread_left_running_retires_its_worker(run):
    start = "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()"
    ending, (pid,) = run(f"import os, threading, time\nyield os.getpid()\n{start}")
    assert isinstance(ending, Done) and not wait_gone(pid)


def test_job_can_retire_its_worker(run):
    ending, values = run("import os; yield {'retire': True}; yield os.getpid()")
    assert isinstance(ending, Done) and not wait_gone(values[-1])


@pytest.mark.parametrize(
    ("limits", "expected"), [(Limits(), 1), (Limits(jobs_per_worker=2), 2), (Limits(resident_bytes=1), 4)]
)
def test_workers_are_recycled(limits, expected, tmp_path):
    path = tmp_path / "pid.py"
    path.write_text("import os\ndef job(argument): yield os.getpid()\n")
    events = []
    with Pool(FUNCTIONS, size=1, limits=limits) as pool:
        for _ in range(4):
            assert isinstance(pool.submit(Job("script", {"path": str(path)}), events.append).wait(20), Done)
    assert len({event.value for event in events if isinstance(event, Progress)}) == expected
