"""Jobs that raise, crash, hang and print, in real processes; the next job is unaffected."""

from __future__ import annotations

import os
import time

import pytest
from support.worker_pool import FUNCTIONS, wait_gone

from gpuemu_lsp.engine.workers.model import Done, Failed, Job, Limits, TimedOut, WorkerDied
from gpuemu_lsp.engine.workers.pool import Pool

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


def test_memory_limit_counts_the_sum_but_not_reservations(tmp_path):
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


def test_value_that_is_not_json_fails_its_job(run):
    ending, _ = run("yield {1, 2}")
    assert isinstance(ending, Failed) and ending.message == "Object of type set is not JSON serializable"


def test_payload_that_is_not_json_fails_its_own_job(pool):
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
def test_death_of_a_worker_is_reported_for_one_job(run, body, signal, exit_code, says):
    ending, _ = run(body)
    assert isinstance(ending, WorkerDied)
    assert (ending.signal, ending.exit_code) == (signal, exit_code)
    assert says in ending.reason and ending.stage == "script"
    ending, values = run("yield 'next'")
    assert isinstance(ending, Done) and values == ["next"]


def test_crash_shows_the_python_stack(run):
    ending, _ = run("import ctypes; ctypes.string_at(8)")
    assert "Segmentation fault" in ending.output and "script1.py" in ending.output


def test_values_yielded_before_a_crash_are_kept(run):
    ending, values = run("for i in range(1000): yield i\nimport os; os._exit(1)")
    assert isinstance(ending, WorkerDied) and values == list(range(1000))


def test_job_does_not_fail_when_its_worker_died_before_it(run):
    """Workers that die while idle, or before they accept a job, are replaced silently."""
    _, (pid,) = run("import os; yield os.getpid()")
    for wait in (0.0, 0.0, 0.05):
        os.kill(pid, 9)
        time.sleep(wait)
        ending, (pid,) = run("import os; yield os.getpid()")
        assert isinstance(ending, Done)


def test_malformed_messages_kill_the_worker_only(run):
    find = (
        "import os, stat\n"
        "for fd in range(3, 4096):\n"
        "    try: kind = os.fstat(fd).st_mode\n"
        "    except OSError: continue\n"
        "    if stat.S_ISSOCK(kind): os.write(fd, b'\\xff' * 64)\n"
        "while True: pass"
    )
    ending, _ = run(find)
    assert isinstance(ending, WorkerDied) and "malformed message from worker" in ending.reason
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
def test_time_limit_kills_any_job(run, body):
    ending, values = run(f"import os; yield os.getpid()\nprint('before', flush=True)\n{body}", wall_seconds=0.3)
    assert isinstance(ending, TimedOut)
    assert ending.stage == "script" and 0.3 <= ending.seconds < 5 and ending.output == "before\n"
    assert not wait_gone(*values)
    assert isinstance(run("yield 1")[0], Done)


@pytest.mark.parametrize("body", ["def spin():\n    while True: pass\nspin()", SPINS["c"], SPINS["regex"]])
def test_time_out_has_the_python_stack(run, body):
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


def test_all_output_is_captured_and_does_not_corrupt_the_stream(run):
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


def test_the_first_stage_of_a_job_may_have_a_limit_of_its_own(run):
    spin = "import time\nwhile True: time.sleep(0.01)"
    ending, _ = run(spin, wall_seconds=20.0, first_stage=("script", 0.2))
    assert isinstance(ending, TimedOut) and ending.stage == "script" and ending.seconds < 5
    later = "yield {'stage': 'later'}\nimport time\ntime.sleep(0.5)\nyield 1"
    assert isinstance(run(later, wall_seconds=20.0, first_stage=("script", 0.2))[0], Done)
