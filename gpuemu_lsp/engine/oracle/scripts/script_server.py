"""Runs of scripts, each in a process of its own that is forked from this one, which has imported NumPy already.

:mod:`.script_processes` runs this file in the interpreter of the project, as a script: it imports the standard library
and the packages of that environment only, and its syntax is that of Python 3.8. Messages are JSON in one line each. A
request comes with three descriptors, which become the standard streams of the script, and one for what
:mod:`.traced_scripts` reports. The answers are the pid and, when the script has ended, its status and processor time.

A run differs from ``python script.py`` in what it does not show: packages that earlier runs have imported are there,
and strings have the hashes of this process.
"""

from __future__ import annotations

import array
import atexit
import builtins
import contextlib
import gc
import importlib
import json
import os
import signal
import socket
import sys
import threading
import traceback
import types
from pathlib import Path
from typing import Any

KEPT = ("numpy", "ml_dtypes", "scipy", "torch")
"""Packages that are slow to import and may be used after a fork. Others may have started threads."""
ROOT = Path(__file__).resolve().parents[4]
STREAMS = ((0, "r"), (1, "w"), (2, "w"))
_DESCRIPTORS = 4
_PR_SET_PDEATHSIG = 1  # prctl(2)


class ForkedScript:
    """What a forked process shall run."""

    def __init__(self, request: dict[str, Any], report: int) -> None:
        self.request = request
        self.report = report


def main(connection: socket.socket, modules: list[str]) -> None:
    """Answer requests until the connection ends; in a forked process run its script, and end it."""
    connection.set_inheritable(False)
    given = serve(connection, modules)
    if given is not None:
        leave(given)


def serve(connection: socket.socket, modules: list[str]) -> ForkedScript | None:
    """Answer requests until the connection ends; return what to run in each forked process, None in this one."""
    if modules:  # of gpuemu_lsp, which need not be installed
        sys.path.append(str(ROOT))
    for name in ["base64", "ctypes", "numpy", *modules]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    send(connection, {"folders": [sys.prefix, *sys.path[1:]]})
    received = b""
    while True:
        request, descriptors, received = receive(connection, received)
        if request is None:
            return None
        # Garbage collection in the forked processes shall not copy the memory of what is imported here.
        gc.freeze()
        imported, imports = os.pipe()
        parent, child = os.getpid(), os.fork()
        if child == 0:
            connection.close()
            os.close(imported)
            enter(descriptors, parent, imports)
            return ForkedScript(request, descriptors[3])
        os.close(imports)
        for one in descriptors:
            os.close(one)
        send(connection, {"pid": child})
        status, seconds = ended(child)
        send(connection, {"status": status, "seconds": seconds})
        for name in learned(imported):
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    """Send a message."""
    connection.sendall(json.dumps(message).encode() + b"\n")


def receive(connection: socket.socket, received: bytes) -> tuple[dict[str, Any] | None, list[int], bytes]:
    """Return a request, its descriptors, and the bytes after it; None when the connection has ended."""
    descriptors = array.array("i")
    while b"\n" not in received:
        space = socket.CMSG_SPACE(_DESCRIPTORS * descriptors.itemsize)
        data, ancillary, _, _ = connection.recvmsg(1 << 16, space)
        for level, kind, value in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                descriptors.frombytes(value[: len(value) - len(value) % descriptors.itemsize])
        if not data:
            return None, [], b""
        received += data
    line, _, rest = received.partition(b"\n")
    return json.loads(line), descriptors.tolist(), rest


def ended(child: int) -> tuple[int, float]:
    """Wait for a process and end all that it has started.

    Return its exit code, negative for a signal, and its processor time in seconds.
    """
    if hasattr(os, "waitid"):
        # Not reaped yet: its number, which is that of its group, cannot be that of another one.
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        with contextlib.suppress(OSError):
            os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    return code, usage.ru_utime + usage.ru_stime


def learned(imported: int) -> list[str]:
    """Return the packages to keep that a script has imported, as it reported when it ended."""
    os.set_blocking(imported, False)
    try:
        names = os.read(imported, 1 << 10).decode().split()
    except OSError:  # it did not
        names = []
    os.close(imported)
    return [name for name in names if name in KEPT and name not in sys.modules]


# ---- in the forked process -------------------------------------------------------------------------------------------


def enter(descriptors: list[int], parent: int, imports: int) -> None:
    """Make this process as one that was started for a script."""
    os.setsid()
    die_with(parent)
    for target, given in enumerate(descriptors[:3]):
        os.dup2(given, target)
    for one in descriptors[:3]:
        os.close(one)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode, closefd=False) for number, mode in STREAMS)
    own = os.getpid()

    def report_imports() -> None:
        if os.getpid() == own:
            with contextlib.suppress(OSError):
                os.write(imports, " ".join(name for name in KEPT if name in sys.modules).encode())

    atexit.register(report_imports)
    # Random numbers without a seed differ from run to run; the module `random` sees to that itself.
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends, on Linux."""
    with contextlib.suppress(Exception):
        ctypes = sys.modules["ctypes"]
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def leave(given: ForkedScript) -> None:
    """Run a script and end this process as the interpreter does, but for the release of its memory."""
    status = 0
    try:
        run(given.request, given.report)
    except SystemExit as error:
        code = error.code
        status = code if isinstance(code, int) else int(code is not None)
        if code is not None and not isinstance(code, int):
            sys.stderr.write(f"{code}\n")
    except BaseException:
        traceback.print_exc()
        status = 1
    for finish in (getattr(threading, "_shutdown", int), atexit._run_exitfuncs, sys.stdout.flush, sys.stderr.flush):
        # Closed streams, or exceptions of the script's own functions.
        with contextlib.suppress(Exception):
            finish()
    with contextlib.suppress(Exception):
        sys.modules["ctypes"].CDLL(None).fflush(None)
    os._exit(status & 0xFF)


def run(request: dict[str, Any], report: int) -> None:
    """Run a script as the main program."""
    path = request["path"]
    os.environ.clear()
    os.environ.update(request["environment"])
    folder = str(Path(path).parent)
    os.chdir(folder)
    sys.argv = [path]
    sys.path[0] = folder
    sys.dont_write_bytecode = True
    if request["traced"] is not None:
        module = importlib.import_module(request["traced"]["module"])
        module.run(path, request["traced"], report)
        return
    os.close(report)
    execute(path)


def execute(path: str) -> None:
    """Execute a file in a new module ``__main__``."""
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    main: Any = types.ModuleType("__main__")
    main.__file__ = path
    main.__builtins__ = builtins
    sys.modules["__main__"] = main
    exec(code, main.__dict__)  # noqa: S102 - the user's script


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
