"""Scripts in processes that are forked from a kept interpreter behave as those that are started for them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuemu import Client
from gpuemu_lsp.engine.deadline import DeadlineError, deadline
from gpuemu_lsp.engine.oracle.scripts.script_processes import ScriptServerError, processor_seconds, run_script
from tests.unit.subjects.test_ops import SCRIPT, scripts


def run(folder: Path, text: str, document: bytes = b"") -> tuple[int, str, str]:
    path = folder / "script.py"
    path.write_text(text)
    done = run_script(sys.executable, str(path), document)
    return done.status, done.output.decode(), done.errors.decode()


ENDINGS = {
    "print('x')": (0, "x\n", ""),
    "import sys\nsys.stdout.write('x')\nsys.exit(3)": (3, "x", ""),
    "import sys\nsys.exit('why')": (1, "", "why"),
    "raise ValueError('why')": (1, "", "ValueError: why"),
    "import os\nos.write(1, b'x')\nos._exit(4)": (4, "x", ""),
    "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)": (-signal.SIGKILL, "", ""),
    "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)": (-signal.SIGTERM, "", ""),
    "import atexit\natexit.register(print, 'late')": (0, "late\n", ""),
    "import threading\nthreading.Timer(0.05, print, ['late']).start()": (0, "late\n", ""),
    "print(__name__, __file__[-9:])": (0, "__main__ script.py\n", ""),
    "import sys\nprint(sys.stdin.read(), len(sys.argv), end='')": (0, "given 1", ""),
    "def f(: pass": (1, "", "SyntaxError"),
}


@pytest.mark.parametrize("text", ENDINGS)
def test_endings_are_those_of_an_interpreter(tmp_path, text):
    status, output, errors = ENDINGS[text]
    found = run(tmp_path, text, b"given")
    assert found[:2] == (status, output), found
    assert errors in found[2].splitlines()[-1] if errors else found[2] == ""


def test_processor_time_is_that_of_scripts_too(tmp_path):
    others = processor_seconds() - time.thread_time()
    assert run(tmp_path, "print(sum(range(3_000_000)))")[0] == 0
    assert processor_seconds() - time.thread_time() > others


def test_nothing_of_a_run_is_left_for_the_next(tmp_path, monkeypatch):
    counter = "import json, sys\njson.count = getattr(json, 'count', 0) + 1\nprint(json.count)"
    assert [run(tmp_path, counter)[1] for _ in range(2)] == ["1\n", "1\n"]
    monkeypatch.setenv("GPUEMU_OF_THE_TEST", "seen")
    assert (
        run(tmp_path, "import os\nprint(os.environ.get('GPUEMU_OF_THE_TEST'), os.getcwd())")[1] == f"seen {tmp_path}\n"
    )
    monkeypatch.delenv("GPUEMU_OF_THE_TEST")
    assert run(tmp_path, "import os\nprint(os.environ.get('GPUEMU_OF_THE_TEST'))")[1] == "None\n"


@pytest.mark.parametrize("draw", ["numpy as r\nprint(r.random.rand())", "random as r\nprint(r.random())"])
def test_random_numbers_without_a_seed_differ(tmp_path, draw):
    assert len({run(tmp_path, f"import {draw}")[1] for _ in range(3)}) == 3


def test_what_a_script_has_started_ends_with_it(tmp_path):
    _, output, _ = run(tmp_path, "import subprocess\nprint(subprocess.Popen(['sleep', '600']).pid)")
    status, until = Path(f"/proc/{int(output)}/stat"), time.monotonic() + 10.0
    while status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z" and time.monotonic() < until:
        time.sleep(0.02)
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


PARENT = "import os\nprint(os.getppid())"


def test_the_interpreter_is_kept_and_replaced_where_a_call_does_not_return(tmp_path):
    first = run(tmp_path, PARENT)[1]
    assert run(tmp_path, PARENT)[1] == first != f"{os.getpid()}\n"
    with pytest.raises(DeadlineError), deadline(0.3):
        run(tmp_path, "while True: pass")
    assert run(tmp_path, PARENT)[1] != first


def test_the_interpreter_is_replaced_where_it_has_ended(tmp_path):
    first = int(run(tmp_path, PARENT)[1])
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)
    # Another child of this process group, which is neither waited for nor reaped.
    with subprocess.Popen(["sleep", "600"]) as other:
        assert int(run(tmp_path, PARENT)[1]) != first
        assert other.poll() is None
        other.kill()


def test_an_installed_package_replaces_the_interpreter(tmp_path):
    import venv

    venv.create(tmp_path / ".venv", symlinks=True)
    python, script = str(tmp_path / ".venv/bin/python"), tmp_path / "script.py"
    script.write_text(PARENT)
    first = run_script(python, str(script), b"").output
    assert run_script(python, str(script), b"").output == first
    packages = next((tmp_path / ".venv").glob("lib/python*/site-packages"))
    (packages / "fresh.py").write_text("")
    assert run_script(python, str(script), b"").output != first


def test_an_interpreter_that_cannot_be_started(tmp_path):
    for python in (tmp_path / "missing", Path("/bin/false")):
        with pytest.raises(ScriptServerError, match="cannot be started"):
            run_script(str(python), str(tmp_path / "script.py"), b"")


def test_workers_keep_the_interpreter_between_evaluations(tmp_path):
    note = "import os\nopen('parents', 'a').write(f'{os.getppid()} ')\npayload ="
    scripts(tmp_path, SCRIPT, SCRIPT.replace("payload =", note))
    client = Client(tmp_path)
    for seed in range(2):
        inputs = client.get_test_case("scale", seed, dtypes=["float32"])["inputs"]
        assert client.validate_op("scale", inputs, inputs["x"] * 2.5).passed
    parents = (tmp_path / "parents").read_text().split()
    assert len(parents) >= 2
    assert len(set(parents)) == 1
