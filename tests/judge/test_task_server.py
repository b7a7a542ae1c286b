"""The process of a task ends with the connection to it, and the server that forks it with the process that judges."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuemu.judge.processes import TaskConnection, TaskFailedError

ENDLESS = "import torch.nn as nn\n\nwhile True:\n    pass\n\n\nclass Model(nn.Module):\n    pass\n"
PRINTS = "import sys\n\nprint('a line of the task')\nsys.stdout.flush()\nimport os\nos._exit(3)\n"

JUDGE = """
import sys
import threading
from pathlib import Path

from gpuemu.judge import processes

folder = Path(sys.argv[1])
task = processes.TaskConnection(folder)
threading.Thread(target=task.ask, kwargs={"do": "cases", "path": str(folder / "task.py"), "model": "Model",
                 "holds_answer": False}, daemon=True).start()
while not (folder / "task.log").exists():
    pass
print(processes._task_server._process.pid, flush=True)
threading.Event().wait()
"""


def _children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _wait_until_ended(pids):
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, pids
        time.sleep(0.05)


def test_a_killed_judge_leaves_no_process(tmp_path):
    (tmp_path / "task.py").write_text(ENDLESS)
    with subprocess.Popen([sys.executable, "-c", JUDGE, str(tmp_path)], stdout=subprocess.PIPE, text=True) as judge:
        server = int(judge.stdout.readline())
        started = [server, *_children(server)]
        judge.kill()
    assert len(started) == 2
    _wait_until_ended(started)


def test_a_task_that_ends_its_process_is_named_by_what_it_printed(tmp_path):
    (tmp_path / "task.py").write_text(PRINTS)
    with TaskConnection(tmp_path) as task, pytest.raises(TaskFailedError, match="a line of the task"):
        task.ask(do="cases", path=str(tmp_path / "task.py"), model="Model", holds_answer=False)
