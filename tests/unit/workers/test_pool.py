"""Jobs run, stream, fail, hang and die in real processes, and the next job never notices."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
import time
from pathlib import Path

import pytest

from gpuemu_lsp.engine.workers import Job, Limits, Pool
from gpuemu_lsp.engine.workers.model import Cancelled, Done, Failed, Progress, TimedOut, WorkerDied

FUNCTIONS = {
    "echo": "gpuemu_lsp.engine.workers.selftest:echo",
    "script": "gpuemu_lsp.engine.workers.selftest:script",
    "absent": "gpuemu_lsp.engine.workers.no_such_module:run",
}
GONE = 2.0  # seconds in which a killed process must be gone


@pytest.fixture(scope="module")
def pool():
    with Pool(FUNCTIONS, size=2, preload=["numpy"], limits=Limits(wall_seconds=20.0)) as pool:
        yield pool


@pytest.fixture
def run(pool, tmp_path):
    """Run ``body`` (statements of a generator ``job(argument)``) in a worker; give the ending and what it yielded."""
    count = 0

    def run(body, argument=None, before="", **job):
        nonlocal count
        count += 1
        path = tmp_path / f"script{count}.py"
        lines = "\n".join(f"    {line}" for line in body.splitlines())
        path.write_text(f"{before}\ndef job(argument):\n    yield {{'stage': 'script'}}\n{lines}\n")
        events = []
        payload = {"path": str(path), "argument": argument}
        ending = pool.submit(Job("script", payload, **job), events.append).wait(30)
        assert events[-1] is ending  # the callback has run, once, before wait() returned
        assert not [event for event in events[:-1] if not isinstance(event, Progress)]
        return ending, [event.value for event in events[:-1]][1:]

    return run


def alive(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def open_fds():
    """Count our open descriptors once their number has settled: other pools may still be tidying up."""
    counts = [-1]
    while len(counts) < 11 or len(set(counts[-10:])) > 1:
        counts.append(len(list(Path("/proc/self/fd").iterdir())))
        time.sleep(0.01)
    return counts[-1]


def wait_gone(*pids):
    deadline = time.monotonic() + GONE
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return [pid for pid in pids if alive(pid)]


# ---- the ordinary ----------------------------------------------------------------------------------------------------


def test_events_come_in_order_and_while_the_job_runs(pool, tmp_path):
    gate = tmp_path / "gate"
    path = tmp_path / "s.py"
    path.write_text(
        "import os, time\n"
        "def job(gate):\n"
        "    yield from range(3)\n"
        "    while not os.path.exists(gate): time.sleep(0.005)\n"
        "    yield 'after'\n"
    )
    seen, third = [], threading.Event()

    def on_event(event):
        seen.append(event)
        if len(seen) == 3:
            third.set()

    ticket = pool.submit(Job("script", {"path": str(path), "argument": str(gate)}), on_event)
    assert third.wait(10) and not ticket.ended
    gate.touch()
    assert isinstance(ticket.wait(10), Done)
    assert [event.value for event in seen[:-1]] == [0, 1, 2, "after"]


@pytest.mark.parametrize("payload", [None, [1, 2.5, "ü\udcff\0", {"a": None}], 2**64 - 1, "x" * 3_000_000])
def test_payloads_of_any_kind_and_size_come_back(pool, payload):
    events = []
    assert isinstance(pool.submit(Job("echo", payload), events.append).wait(20), Done)
    assert events[0].value == payload


def test_warm_workers_are_used_again(run):
    ending, (first,) = run("import os; yield os.getpid()")
    assert isinstance(ending, Done)
    assert run("import os; yield os.getpid()")[1] == [first]


def test_two_jobs_run_at_a_time_and_no_more(pool, tmp_path):
    path = tmp_path / "s.py"
    path.write_text(
        "import os, time\n"
        "def job(argument):\n"
        "    yield time.monotonic()\n"
        "    time.sleep(0.15)\n"
        "    yield time.monotonic()\n"
    )
    spans = [[] for _ in range(5)]
    tickets = [pool.submit(Job("script", {"path": str(path)}), spans[i].append) for i in range(5)]
    assert all(isinstance(ticket.wait(20), Done) for ticket in tickets)
    edges = sorted((span[k].value, 1 - 2 * k) for span in spans for k in (0, 1))
    busy = [sum(step for _, step in edges[: i + 1]) for i in range(len(edges))]
    assert max(busy) == 2


def test_events_reach_an_event_loop_that_is_never_blocked(pool):
    async def main():
        loop, events = asyncio.get_running_loop(), asyncio.Queue()
        pool.submit(Job("echo", 7), lambda event: loop.call_soon_threadsafe(events.put_nowait, event))
        return [await asyncio.wait_for(events.get(), 20) for _ in range(2)]

    progress, ending = asyncio.run(main())
    assert progress == Progress(7) and isinstance(ending, Done)


def test_unknown_function_and_foreign_module_are_refused(pool):
    with pytest.raises(KeyError):
        pool.submit(Job("nothing"))
    with pytest.raises(ValueError, match="os:system"):
        Pool({"x": "os:system"})


# ---- failures that belong to the job ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("1 / 0", "ZeroDivisionError", "division by zero"),
        ("raise SystemExit(3)", "SystemExit", "3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
        ("raise GeneratorExit", "GeneratorExit", ""),
        ("import no_such_module", "ModuleNotFoundError", "No module named 'no_such_module'"),
        ("def f(): f()\nf()", "RecursionError", "maximum recursion depth exceeded"),
        ("x = bytearray(50 << 30)", "MemoryError", ""),
        ("import numpy as np\nnp.ones(50 << 27)", "MemoryError", "50.0 GiB"),
    ],
)
def test_what_a_job_raises_is_reported(run, body, kind, message):
    ending, _ = run(body)
    assert isinstance(ending, Failed)
    assert kind in ending.kind and message in ending.message
    assert ending.stage == "script"
    assert "script1.py" in ending.traceback
    assert isinstance(run("yield 1")[0], Done)


def test_memory_is_limited_in_sum_and_reservations_are_free(tmp_path):
    path = tmp_path / "memory.py"
    path.write_text(
        "import mmap\n"
        "def job(argument):\n"
        "    kept = [mmap.mmap(-1, 1 << 36, flags=mmap.MAP_PRIVATE | 0x4000, prot=0)]\n"  # MAP_NORESERVE, no access
        "    for count in range(100):\n"
        "        yield count\n"
        "        kept.append(bytearray(64 << 20))\n"
    )
    events = []
    with Pool(FUNCTIONS, limits=Limits(memory_bytes=1 << 30)) as pool:
        ending = pool.submit(Job("script", {"path": str(path)}), events.append).wait(20)
        assert isinstance(ending, Failed) and ending.kind == "MemoryError"
        assert 10 <= len(events) <= 17
        assert isinstance(pool.submit(Job("echo")).wait(20), Done)


def test_function_whose_module_is_absent_fails_with_its_reason(pool):
    ending = pool.submit(Job("absent")).wait(20)
    assert isinstance(ending, Failed) and "no_such_module" in ending.message


def test_value_that_is_no_json_fails_its_job(run):
    ending, _ = run("yield {1, 2}")
    assert isinstance(ending, Failed) and ending.message == "Object of type set is not JSON serializable"


def test_payload_that_is_no_json_fails_its_own_job(pool):
    ending = pool.submit(Job("echo", {1, 2})).wait(20)
    assert isinstance(ending, Failed) and ending.kind == "TypeError"


# ---- crashes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "signal", "exit_code", "says"),
    [
        ("import os; os._exit(0)", None, 0, "exited with code 0"),
        ("import os; os._exit(3)", None, 3, "exited with code 3"),
        ("import os; os.abort()", 6, None, "SIGABRT"),
        ("import ctypes; ctypes.string_at(8)", 11, None, "SIGSEGV"),
        ("import os; os.kill(os.getpid(), 9)", 9, None, "SIGKILL"),
        ("import os; os.killpg(0, 9)", 9, None, "SIGKILL"),
        ("import os; os.closerange(0, 4096); yield 1", None, 71, "channel"),
    ],
)
def test_death_of_a_worker_is_told_and_blames_one_job(run, body, signal, exit_code, says):
    ending, _ = run(body)
    assert isinstance(ending, WorkerDied)
    assert (ending.signal, ending.exit_code) == (signal, exit_code)
    assert says in ending.reason and ending.stage == "script"
    ending, values = run("yield 'next'")
    assert isinstance(ending, Done) and values == ["next"]


def test_crash_shows_the_python_stack(run):
    ending, _ = run("import ctypes; ctypes.string_at(8)")
    assert "Segmentation fault" in ending.output and "script1.py" in ending.output


def test_what_was_yielded_before_a_crash_stands(run):
    ending, values = run("for i in range(1000): yield i\nimport os; os._exit(1)")
    assert isinstance(ending, WorkerDied) and values == list(range(1000))


def test_job_is_not_blamed_for_a_worker_that_died_before_it(run):
    """Workers that die while idle, or just as a job is handed to them, are replaced without a word."""
    _, (pid,) = run("import os; yield os.getpid()")
    for wait in (0.0, 0.0, 0.05):
        os.kill(pid, 9)
        time.sleep(wait)
        ending, (pid,) = run("import os; yield os.getpid()")
        assert isinstance(ending, Done)


def test_garbage_on_the_channel_kills_the_worker_only(run):
    find = (
        "import os, stat\n"
        "for fd in range(3, 4096):\n"
        "    try: kind = os.fstat(fd).st_mode\n"
        "    except OSError: continue\n"
        "    if stat.S_ISSOCK(kind): os.write(fd, b'\\xff' * 64)\n"
        "while True: pass"
    )
    ending, _ = run(find)
    assert isinstance(ending, WorkerDied) and "makes no sense" in ending.reason
    assert isinstance(run("yield 1")[0], Done)


# ---- time ------------------------------------------------------------------------------------------------------------

SPINS = {
    "python": "while True: pass",
    "sleep": "import time; time.sleep(1000)",
    "c": "import ctypes; ctypes.CDLL(None).pause()",
    "numpy": "import numpy as np\nx = np.ones((1500, 1500))\nwhile True: x = x @ x / 1500",
    "regex": "import re; re.match('(a*)*b', 'a' * 60)",
    "deaf": "import signal\nfor n in (1, 2, 3, 15): signal.signal(n, signal.SIG_IGN)\nwhile True: pass",
    "swallow": "while True:\n    try:\n        while True: pass\n    except BaseException: pass",
    "stopped": "import os; os.kill(os.getpid(), 19)",
}


@pytest.mark.parametrize("body", SPINS.values(), ids=SPINS.keys())
def test_time_limit_kills_whatever_it_does(run, body):
    ending, values = run(f"import os; yield os.getpid()\nprint('before', flush=True)\n{body}", wall_seconds=0.3)
    assert isinstance(ending, TimedOut)
    assert ending.stage == "script" and 0.3 <= ending.seconds < 5 and ending.output == "before\n"
    assert not wait_gone(*values)
    assert isinstance(run("yield 1")[0], Done)


@pytest.mark.parametrize("body", ["def spin():\n    while True: pass\nspin()", SPINS["c"], SPINS["regex"]])
def test_time_limit_says_where_the_code_was(run, body):
    ending, _ = run(f"print('before', flush=True)\n{body}", wall_seconds=0.3)
    assert isinstance(ending, TimedOut) and ending.output == "before\n"
    assert "script1.py" in ending.traceback and "in job" in ending.traceback
    assert "worker.py" not in ending.traceback


def test_native_llvm_loop_is_killed(run):
    body = (
        "import ctypes, os\n"
        "import llvmlite.binding as llvm\n"
        "llvm.initialize_native_target(); llvm.initialize_native_asmprinter()\n"
        "loop = ['l:', ' call void asm sideeffect \"\", \"\"()', ' br label %l', '}']\n"
        "lines = ['define void @f() {', ' br label %l', *loop]\n"
        "module = llvm.parse_assembly(chr(10).join(lines))\n"
        "engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine())\n"
        "yield os.getpid()\n"
        "ctypes.CFUNCTYPE(None)(engine.get_function_address('f'))()\n"
    )
    ending, values = run(body, wall_seconds=1.5)
    assert isinstance(ending, TimedOut) and values
    assert not wait_gone(*values)


# ---- output ----------------------------------------------------------------------------------------------------------


def test_everything_printed_is_captured_and_nothing_corrupts_the_stream(run):
    body = (
        "import ctypes, os, sys, subprocess\n"
        "print('print')\n"
        "sys.stdout.flush()\n"
        "sys.stdout.buffer.write(b'buffer\\n'); sys.stdout.flush()\n"
        "os.write(1, b'write\\n')\n"
        "os.write(2, b'stderr \\xff\\n')\n"
        "ctypes.CDLL(None).printf(b'printf\\n')\n"
        "subprocess.run(['echo', 'child'])\n"
        "yield 'value'\n"
        "print('unflushed ', end='')\n"
    )
    ending, values = run(body)
    assert isinstance(ending, Done) and values == ["value"]
    assert sorted(ending.output.split()) == sorted(
        ["print", "buffer", "write", "stderr", "�", "printf", "child", "unflushed"]
    )


def test_output_is_bounded_and_keeps_its_end(run):
    ending, _ = run("for _ in range(200): print('x' * 100_000)\nprint('last')\nyield 1")
    assert isinstance(ending, Done)
    assert len(ending.output) < 70_000 and ending.output.endswith("last\n") and ending.output.startswith("[...]")


def test_output_of_one_job_is_not_shown_with_the_next(run):
    run("print('mine'); yield 1")
    assert run("yield 1")[0].output == ""


# ---- what jobs leave behind ------------------------------------------------------------------------------------------


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
def test_state_is_put_back_for_the_same_worker(run, change, look):
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
    assert run(look, taint="a.py")[1] == [[first, True]]  # its own mess
    for taint in ("b.py", None):
        ((pid, patched),) = run(look, taint=taint)[1]
        assert pid != first and not patched


@pytest.mark.parametrize(
    "fork",
    [
        "os.fork()",  # the child runs on into our loop
        "if os.fork() == 0: raise ValueError",
        "if os.fork() == 0: sys.exit(1)",
    ],
)
def test_forked_child_never_speaks_for_the_worker(run, fork):
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


def test_thread_that_stays_retires_its_worker(run):
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


# ---- cancelling, closing, counting -----------------------------------------------------------------------------------


def _descendants(root=None):
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat[stat.rindex(")") + 2 :].split()[1])
    found, front = [], [root or os.getpid()]
    while front:
        front = [pid for pid, parent in parents.items() if parent in front]
        found += front
    return found


def test_cancel_of_a_running_job_is_immediate_and_frees_the_place(pool, run, tmp_path):
    path = tmp_path / "spin.py"
    path.write_text("import os\ndef job(argument):\n    yield os.getpid()\n    while True: pass\n")
    seen, started = [], threading.Event()
    ticket = pool.submit(Job("script", {"path": str(path)}), lambda event: (seen.append(event), started.set()))
    assert started.wait(10)
    ticket.cancel()
    assert ticket.ended
    assert isinstance(ticket.wait(1), Cancelled) and seen[-1] == Cancelled()
    assert not wait_gone(seen[0].value)
    ticket.cancel()
    assert [type(event) for event in seen] == [Progress, Cancelled]


def test_two_hundred_submits_and_cancels_leave_nothing(tmp_path):
    strangers = set(_descendants())  # of other tests in this process
    path = tmp_path / "spin.py"
    path.write_text("def job(argument):\n    while True: yield 1\n")
    with Pool(FUNCTIONS, size=2) as pool:
        assert isinstance(pool.submit(Job("echo")).wait(20), Done)
        fds = open_fds()
        tickets = []
        for _ in range(200):
            tickets.append(pool.submit(Job("script", {"path": str(path)})))
            tickets[-1].cancel()
        last = pool.submit(Job("echo", "last"))
        assert all(ticket.wait(10) == Cancelled() for ticket in tickets)
        assert isinstance(last.wait(20), Done)
        deadline = time.monotonic() + 10
        while len(set(_descendants()) - strangers) > 1 + 2 and time.monotonic() < deadline:  # some are being reaped
            time.sleep(0.01)
        assert len(set(_descendants()) - strangers) <= 1 + 2  # nursery, two workers
        assert open_fds() <= fds + 4  # two workers at most, where one may have been


def test_killed_workers_leave_no_descriptors_and_no_zombies(run):
    run("yield 1")
    fds = open_fds()
    for _ in range(10):
        assert isinstance(run("import os; os._exit(1)")[0], WorkerDied)
    assert open_fds() <= fds
    states = [Path(f"/proc/{pid}/stat").read_text() for pid in _descendants()]
    assert not [state for state in states if ") Z " in state]


def test_pool_is_safe_to_use_from_many_threads(pool):
    results = []

    def work(number):
        for i in range(20):
            events = []
            ticket = pool.submit(Job("echo", [number, i]), events.append)
            if i % 3 == 0:
                ticket.cancel()
            results.append((ticket.wait(30), [event.value for event in events[:-1]], [number, i]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 160
    for ending, values, sent in results:
        assert (isinstance(ending, Done) and values == [sent]) or ending == Cancelled()


def test_job_whose_events_got_lost_does_not_end_as_done(pool, caplog):
    endings = []

    def broken(event):
        if isinstance(event, Progress):
            raise RuntimeError("mine")
        endings.append(event)

    ending = pool.submit(Job("echo"), broken).wait(20)
    assert isinstance(ending, Failed) and ending.kind == "RuntimeError" and endings == [ending]
    assert isinstance(pool.submit(Job("echo")).wait(20), Done)
    assert "callback" in caplog.text


def test_wait_in_a_callback_is_refused(pool):
    errors = []

    def wait(event):
        try:
            ticket.wait()
        except RuntimeError as error:
            errors.append(error)

    ready = threading.Event()
    ticket = pool.submit(Job("echo"), lambda event: (ready.wait(10), wait(event)))
    ready.set()
    assert isinstance(ticket.wait(20), Done) and errors


def test_slow_callback_does_not_stop_the_clock(pool, tmp_path):
    path = tmp_path / "spin.py"
    path.write_text("import os\ndef job(argument):\n    yield os.getpid()\n    while True: pass\n")
    gate, pid = threading.Event(), []

    def slow(event):
        if isinstance(event, Progress):
            pid.append(event.value)
            gate.wait(20)

    ticket = pool.submit(Job("script", {"path": str(path)}, wall_seconds=0.3), slow)
    while not pid:
        time.sleep(0.01)
    assert not wait_gone(*pid)
    assert ticket.ended and ticket.wait(0) is None
    gate.set()
    assert isinstance(ticket.wait(10), TimedOut)


def test_close_ends_running_and_waiting_jobs_and_every_process(tmp_path):
    path = tmp_path / "spin.py"
    path.write_text(
        "import os, signal, subprocess\n"
        "def job(argument):\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    yield [os.getpid(), subprocess.Popen(['sleep', '1000'], start_new_session=True).pid]\n"
        "    while True: pass\n"
    )
    before, others = open_fds(), set(_descendants())
    pool = Pool(FUNCTIONS, size=2)
    pids, started = [], threading.Semaphore(0)

    def note(event):
        if isinstance(event, Progress):
            pids.extend(event.value)
            started.release()

    tickets = [pool.submit(Job("script", {"path": str(path)}), note) for _ in range(5)]
    assert all(started.acquire(timeout=10) for _ in range(2))
    pids += set(_descendants()) - others
    start = time.monotonic()
    pool.close()
    assert time.monotonic() - start < 1.0
    assert [ticket.wait(1) for ticket in tickets] == [Cancelled()] * 5
    assert len(pids) >= 7 and not wait_gone(*pids)
    pool.close()
    assert pool.submit(Job("echo")).wait(1) == Cancelled()
    assert open_fds() == before


def test_closing_a_pool_that_never_started_is_nothing():
    pool = Pool(FUNCTIONS)
    pool.close()
    pool.close()
    assert pool.wait_ready(1) is None


# ---- starting --------------------------------------------------------------------------------------------------------


def test_missing_preload_is_named_and_harmless():
    with Pool(FUNCTIONS, preload=["no_such_module_at_all", "json"]) as pool:
        ready = pool.wait_ready(20)
        assert ready is not None and list(ready.missing) == ["no_such_module_at_all"]
        assert isinstance(pool.submit(Job("echo")).wait(20), Done)


@pytest.mark.parametrize("python", ["/no/such/python", "/bin/false"])
def test_interpreter_that_cannot_start_fails_each_job_once_and_clearly(python):
    before = set(_descendants())
    with Pool(FUNCTIONS, python=python) as pool:
        assert pool.wait_ready(20) is None
        endings = [pool.submit(Job("echo")).wait(20) for _ in range(20)]
        assert all(isinstance(ending, WorkerDied) and "cannot be started" in ending.reason for ending in endings)
        assert not set(_descendants()) - before


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
        tickets = [
            pool.submit(Job("script", {"path": str(path), "argument": i}, taint=str(i % 3)), events[i].append)
            for i in range(6)
        ]
        assert [type(ticket.wait(60)) for ticket in tickets] == [Done] * 6
    assert [[event.value for event in seen[:-1]] for seen in events] == [[True, i] for i in range(6)]


def test_mistake_of_ours_ends_every_job(monkeypatch, caplog):
    with Pool(FUNCTIONS) as pool:
        assert pool.wait_ready(20)
        monkeypatch.setattr(type(pool._supervisor), "_assign", lambda self: 1 / 0)
        endings = [pool.submit(Job("echo")).wait(20) for _ in range(3)]
    assert isinstance(endings[0], WorkerDied) and "ZeroDivisionError" in endings[0].reason
    assert all(isinstance(ending, (WorkerDied, Cancelled)) for ending in endings)


def test_nursery_has_one_thread_when_it_forks():
    """A fork copies one thread; locks that others hold would stay locked for ever."""
    before = set(_descendants())
    with Pool(FUNCTIONS, preload=["numpy", "ml_dtypes", "llvmlite.binding", "cupy"]) as pool:
        ready = pool.wait_ready(60)
        assert ready is not None and not ready.missing
        (nursery,) = set(_descendants()) - before
        assert len(list(Path(f"/proc/{nursery}/task").iterdir())) == 1


WARMED = """
import os
from pathlib import Path
from gpuemu_lsp.engine.compile import compile_source
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


def test_workers_inherit_what_was_warmed_up_before_they_were_forked(tmp_path, monkeypatch):
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / "cache"))
    path = tmp_path / "warmed.py"
    path.write_text(WARMED)
    steps = ("gpuemu_lsp.engine.no_such_module:warm_up", "gpuemu_lsp.engine.compile:warm_up")
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
        # Who removes what lies there costs others nothing but time.
        precompiled = list(scratch.rglob("*.pch"))
        assert len(precompiled) >= 2  # two, and what a worker made before there were any
        for file in precompiled:
            file.unlink()
        assert isinstance(pool.submit(job, events.append).wait(60), Done)
        assert events[-2].value[2] is True


def test_killed_nursery_fails_its_jobs_and_is_replaced(tmp_path, monkeypatch):
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
        assert isinstance(ending, WorkerDied) and "watches over" in ending.reason
        assert not wait_gone(events[0].value)
        assert isinstance(pool.submit(Job("echo")).wait(20), Done)
    assert not list(scratch.iterdir())
