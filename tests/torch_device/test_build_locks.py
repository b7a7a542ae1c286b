"""The lock of a build of an extension ends with the process that holds it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HOLD = """
import sys
import threading

from torch.utils import file_baton

from gpuemu_lsp.engine.runtime.torch_device import build_locks

build_locks.install(file_baton)
assert file_baton.FileBaton(sys.argv[1]).try_acquire()
print("held", flush=True)
threading.Event().wait()
"""


@pytest.fixture
def baton(tmp_path):
    from torch.utils import file_baton

    from gpuemu_lsp.engine.runtime.torch_device import build_locks

    create = file_baton.FileBaton.try_acquire
    build_locks.install(file_baton)
    yield file_baton.FileBaton(str(tmp_path / "lock"))
    file_baton.FileBaton.try_acquire = create


def test_the_lock_of_a_killed_process_is_taken(baton):
    path = Path(baton.lock_file_path)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        assert not baton.try_acquire()
        holder.kill()
    assert path.exists()
    assert baton.try_acquire()
    baton.release()
    assert not path.exists()


def test_a_file_of_a_process_that_does_not_lock_it_is_left(baton):
    Path(baton.lock_file_path).touch()
    assert not baton.try_acquire()
    assert Path(baton.lock_file_path).exists()
