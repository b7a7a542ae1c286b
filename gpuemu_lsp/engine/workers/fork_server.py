"""The nursery process: imports the heavy modules once, then forks workers on request and ends them without fail.

It never runs a job, so it is always listening: when the pool goes away, by ``close`` or by ``kill -9``, its control
socket ends and the nursery kills every worker and everything they started.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterable, Iterator
from typing import Any

from gpuemu_lsp.engine.workers import system, worker
from gpuemu_lsp.engine.workers.model import Limits

_IDLE_MILLISECONDS = 50
"""Nobody wants a worker for so long: then there is time for the next step of a warm-up."""
_LAST = object()
MAX_CONTROL = 1 << 16
"""Longest control message in bytes; each is one packet."""


def main(control_fd: int) -> None:
    """Serve the pool at the other end of ``control_fd`` until it goes away."""
    control = socket.socket(fileno=control_fd)
    configuration = json.loads(control.recv(MAX_CONTROL))
    system.adopt_orphans()
    os.environ["TMPDIR"] = configuration["scratch"]  # killed workers cannot clean up after themselves
    try:
        started = time.monotonic()
        missing = _preload(configuration["preload"])
        _settle()
        nursery = _ForkServer(control, configuration["functions"], Limits(**configuration["limits"]))
        nursery.tell({"ready": (time.monotonic() - started) * 1000, "missing": missing})
        nursery.run(_steps(configuration["warm_up"]))
    finally:
        system.kill_children()
        shutil.rmtree(configuration["scratch"], ignore_errors=True)


def _settle() -> None:
    """See to it that the collector does not touch, and so copy, every page in every worker."""
    gc.collect()
    gc.freeze()


def _preload(modules: Iterable[str]) -> dict[str, str]:
    """Import ``modules``. One that is not there is the business of the job that needs it."""
    missing = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:  # an edge: a broken installation may raise anything
            missing[name] = f"{type(error).__name__}: {error}"
    return missing


def _steps(functions: Iterable[str]) -> Iterator[object]:
    """Call generator functions (``module:function``) one after the other; one that fails has nothing to give."""
    for name in functions:
        module, _, function = name.partition(":")
        try:
            yield from getattr(importlib.import_module(module), function)()
        except Exception:  # an edge: a broken installation may raise anything, and the jobs will say so
            traceback.print_exc()


class _ForkServer:
    def __init__(self, control: socket.socket, functions: dict[str, str], limits: Limits) -> None:
        self._control = control
        self._functions = functions
        self._limits = limits
        self._workers: dict[int, int] = {}  # pid -> serial
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def tell(self, message: dict[str, Any]) -> None:
        self._control.send(json.dumps(message).encode())

    def run(self, warm_up: Iterator[object]) -> None:
        """Obey the pool until it is gone; where it wants nothing, take the steps of ``warm_up``."""
        cold = True
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a handler, so that the wake-up descriptor is written
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(_IDLE_MILLISECONDS if cold else None)}
            if not ready:
                cold = next(warm_up, _LAST) is not _LAST
                if not cold:
                    _settle()
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
                self._reap()
            if self._control.fileno() in ready and not self._obey():
                return

    def _obey(self) -> bool:
        """Carry out one message of the pool; False when the pool is gone."""
        try:
            data, fds, _, _ = socket.recv_fds(self._control, MAX_CONTROL, 2)
        except ConnectionError:
            return False
        if not data:
            return False
        message = json.loads(data)
        if "fork" in message:
            self._fork(message["fork"], *fds)
        elif "kill" in message:
            self._signal(message["kill"], signal.SIGKILL)
        elif "trace" in message:
            self._signal(message["trace"], worker.TRACE_SIGNAL)
        return True

    def _signal(self, serial: int, number: int) -> None:
        for pid, owner in self._workers.items():
            if owner == serial:
                os.kill(pid, number)  # not yet reaped, so the pid is still its own

    def _fork(self, serial: int, channel: int, output: int) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self.tell({"refused": serial, "why": str(error)})
            return
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._control.close()
            os.close(self._wake_read)
            os.close(self._wake_write)
            try:
                worker.serve(channel, output, self._functions, self._limits, parent)
            except BaseException:  # an edge: whatever went wrong, a worker never returns into the nursery
                traceback.print_exc()
            finally:
                os._exit(1)
        os.close(channel)
        os.close(output)
        self._workers[pid] = serial
        self.tell({"forked": serial, "pid": pid})

    def _reap(self) -> None:
        exited = []
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid in self._workers:
                exited.append((self._workers.pop(pid), status))
        if exited:
            system.kill_children(spare=self._workers)  # what the dead workers left behind is ours now
        for serial, status in exited:
            self.tell({"exited": serial, "status": status})
