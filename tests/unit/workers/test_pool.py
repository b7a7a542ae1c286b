"""The pool: order of events, parallel jobs, cancellation, thread safety, and closing."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from pathlib import Path

import pytest
from support.processes import descendants
from support.worker_pool import FUNCTIONS, open_fds, wait_gone

from gpuemu_lsp.engine.workers.model import (
    Cancelled,
    Done,
    Failed,
    Job,
    Limits,
    Progress,
    Restarted,
    TimedOut,
    WorkerDied,
)
from gpuemu_lsp.engine.workers.pool import Pool


def test_events_arrive_in_order_and_during_the_job(pool, tmp_path):
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

    handle = pool.submit(Job("script", {"path": str(path), "argument": str(gate)}), on_event)
    assert third.wait(10) and not handle.ended
    gate.touch()
    assert isinstance(handle.wait(10), Done)
    assert [event.value for event in seen[:-1]] == [0, 1, 2, "after"]


@pytest.mark.parametrize("payload", [None, [1, 2.5, "ü\udcff\0", {"a": None}], 2**64 - 1, "x" * 3_000_000])
def test_payloads_round_trip(pool, payload):
    events = []
    assert isinstance(pool.submit(Job("echo", payload), events.append).wait(20), Done)
    assert events[0].value == payload


def test_idle_workers_are_reused(run):
    ending, (first,) = run("import os; yield os.getpid()")
    assert isinstance(ending, Done)
    assert run("import os; yield os.getpid()")[1] == [first]


def test_at_most_size_jobs_run_in_parallel(pool, tmp_path):
    path = tmp_path / "s.py"
    path.write_text(
        "import os, time\n"
        "def job(argument):\n"
        "    yield time.monotonic()\n"
        "    time.sleep(0.15)\n"
        "    yield time.monotonic()\n"
    )
    spans = [[] for _ in range(5)]
    handles = [pool.submit(Job("script", {"path": str(path)}), spans[i].append) for i in range(5)]
    assert all(isinstance(handle.wait(20), Done) for handle in handles)
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


def test_unknown_function_and_malformed_target_are_refused(pool):
    with pytest.raises(KeyError):
        pool.submit(Job("nothing"))
    with pytest.raises(ValueError, match="not a module:function"):
        Pool({"x": "os.getpid"})


# ---- cancelling, closing, counting -----------------------------------------------------------------------------------


def test_cancelling_a_running_job_is_immediate_and_frees_its_worker(pool, run, tmp_path):
    path = tmp_path / "spin.py"
    path.write_text("import os\ndef job(argument):\n    yield os.getpid()\n    while True: pass\n")
    seen, started = [], threading.Event()
    handle = pool.submit(Job("script", {"path": str(path)}), lambda event: (seen.append(event), started.set()))
    assert started.wait(10)
    handle.cancel()
    assert handle.ended
    assert isinstance(handle.wait(1), Cancelled) and seen[-1] == Cancelled()
    assert not wait_gone(seen[0].value)
    handle.cancel()
    assert [type(event) for event in seen] == [Progress, Cancelled]


def test_many_submits_and_cancels_leak_nothing(tmp_path):
    others = set(descendants(os.getpid()))  # of other tests in this process
    path = tmp_path / "spin.py"
    path.write_text("def job(argument):\n    while True: yield 1\n")
    with Pool(FUNCTIONS, size=2) as pool:
        assert isinstance(pool.submit(Job("echo")).wait(20), Done)
        fds = open_fds()
        handles = []
        for _ in range(200):
            handles.append(pool.submit(Job("script", {"path": str(path)})))
            handles[-1].cancel()
        last = pool.submit(Job("echo", "last"))
        assert all(handle.wait(10) == Cancelled() for handle in handles)
        assert isinstance(last.wait(20), Done)
        deadline = time.monotonic() + 10
        while (
            len(set(descendants(os.getpid())) - others) > 1 + 2 and time.monotonic() < deadline
        ):  # some are being reaped
            time.sleep(0.01)
        assert len(set(descendants(os.getpid())) - others) <= 1 + 2  # fork server, two workers
        assert open_fds() <= fds + 4  # two workers at most, where there may have been one


def test_killed_workers_leak_no_descriptors_and_no_zombies(run):
    run("yield 1")
    fds = open_fds()
    for _ in range(10):
        assert isinstance(run("import os; os._exit(1)")[0], WorkerDied)
    assert open_fds() <= fds
    states = [Path(f"/proc/{pid}/stat").read_text() for pid in descendants(os.getpid())]
    assert not [state for state in states if ") Z " in state]


def test_pool_is_safe_to_use_from_many_threads(pool):
    results = []

    def work(number):
        for i in range(20):
            events = []
            handle = pool.submit(Job("echo", [number, i]), events.append)
            if i % 3 == 0:
                handle.cancel()
            results.append((handle.wait(30), [event.value for event in events[:-1]], [number, i]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(results) == 160
    for ending, values, sent in results:
        assert (isinstance(ending, Done) and values == [sent]) or ending == Cancelled()


def test_job_whose_callback_fails_does_not_end_as_done(pool, caplog):
    endings = []

    def broken(event):
        if isinstance(event, Progress):
            raise RuntimeError("mine")
        endings.append(event)

    ending = pool.submit(Job("echo"), broken).wait(20)
    assert isinstance(ending, Failed) and ending.kind == "RuntimeError" and endings == [ending]
    assert isinstance(pool.submit(Job("echo")).wait(20), Done)
    assert "callback" in caplog.text


def test_wait_in_a_callback_is_an_error(pool):
    errors = []

    def wait(event):
        try:
            handle.wait()
        except RuntimeError as error:
            errors.append(error)

    ready = threading.Event()
    handle = pool.submit(Job("echo"), lambda event: (ready.wait(10), wait(event)))
    ready.set()
    assert isinstance(handle.wait(20), Done) and errors


def test_slow_callback_does_not_delay_the_time_limit(pool, tmp_path):
    path = tmp_path / "spin.py"
    path.write_text("import os\ndef job(argument):\n    yield os.getpid()\n    while True: pass\n")
    gate, pid = threading.Event(), []

    def slow(event):
        if isinstance(event, Progress):
            pid.append(event.value)
            gate.wait(20)

    handle = pool.submit(Job("script", {"path": str(path)}, wall_seconds=0.3), slow)
    while not pid:
        time.sleep(0.01)
    assert not wait_gone(*pid)
    assert handle.ended and handle.wait(0) is None
    gate.set()
    assert isinstance(handle.wait(10), TimedOut)


def test_close_ends_running_and_waiting_jobs_and_every_process(tmp_path):
    path = tmp_path / "spin.py"
    path.write_text(
        "import os, signal, subprocess\n"
        "def job(argument):\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    yield [os.getpid(), subprocess.Popen(['sleep', '1000'], start_new_session=True).pid]\n"
        "    while True: pass\n"
    )
    before, others = open_fds(), set(descendants(os.getpid()))
    pool = Pool(FUNCTIONS, size=2)
    pids, started = [], threading.Semaphore(0)

    def note(event):
        if isinstance(event, Progress):
            pids.extend(event.value)
            started.release()

    handles = [pool.submit(Job("script", {"path": str(path)}), note) for _ in range(5)]
    assert all(started.acquire(timeout=10) for _ in range(2))
    pids += set(descendants(os.getpid())) - others
    pool.close()
    assert [handle.wait(1) for handle in handles] == [Cancelled()] * 5
    assert len(pids) >= 7 and not wait_gone(*pids)
    pool.close()
    assert pool.submit(Job("echo")).wait(1) == Cancelled()
    assert open_fds() == before


def test_closing_a_pool_that_never_started():
    pool = Pool(FUNCTIONS)
    pool.close()
    pool.close()
    assert pool.wait_ready(1) is None


@pytest.mark.parametrize(("kills", "restarts", "done"), [(1, 1, True), (2, 1, False), (1, 0, False)])
def test_a_job_whose_worker_is_killed_begins_again_as_often_as_it_may(pool, tmp_path, kills, restarts, done):
    path = tmp_path / "killed.py"
    path.write_text(
        "import time\n"
        "def job(argument):\n"
        "    import os\n"
        "    yield os.getpid()\n"
        "    while not os.path.exists(argument): time.sleep(0.01)\n"
    )
    gate, events = tmp_path / "go", []

    def receive(event):
        events.append(event)
        if isinstance(event, Progress):
            if sum(isinstance(one, Progress) for one in events) <= kills:
                os.kill(event.value, signal.SIGKILL)
            else:
                gate.touch()

    job = Job("script", {"path": str(path), "argument": str(gate)}, restarts=restarts)
    ending = pool.submit(job, receive).wait(20)
    assert isinstance(ending, Done if done else WorkerDied)
    kinds = [Progress, Restarted, Progress] if restarts else [Progress]
    assert [type(event) for event in events] == [*kinds, type(ending)]


def test_an_interactive_job_waits_for_no_other_and_has_no_time_limit(tmp_path):
    gate = tmp_path / "gate"
    path = tmp_path / "s.py"
    path.write_text(
        "import os, time\n"
        "def job(argument):\n"
        "    yield os.getpid()\n"
        "    while not os.path.exists(argument): time.sleep(0.005)\n"
    )
    events = []
    with Pool(FUNCTIONS, size=1, limits=Limits(wall_seconds=20.0)) as pool:
        script = {"path": str(path), "argument": str(gate)}
        handles = [pool.submit(Job("script", script), events.append)]
        handles.append(pool.submit(Job("echo", 1)))
        open_ones = [pool.submit(Job("script", script, wall_seconds=0.01, interactive=True)) for _ in range(2)]
        assert isinstance(pool.submit(Job("echo", 2, interactive=True)).wait(20), Done)
        assert not any(one.ended for one in (*handles, *open_ones))
        gate.touch()
        assert all(isinstance(one.wait(20), Done) for one in (*handles, *open_ones))
