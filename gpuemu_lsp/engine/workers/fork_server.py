"""Fork server: preloads heavy modules, forks workers on request, and kills and reaps them.

It never runs a job, so it always reacts: when the pool goes away, by ``close`` or by ``SIGKILL``, its control socket
ends and it kills every worker with everything that the workers started. See the package's docstring for why forking
after the imports is safe.
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
"""Time without a request after which the next warm-up step runs."""
_EXHAUSTED = object()
MAX_CONTROL = 1 << 16
"""Largest control message in bytes; each is one packet."""


def main(control_fd: int) -> None:
    """Serve the pool at the other end of ``control_fd`` until it closes."""
    control = socket.socket(fileno=control_fd)
    configuration = json.loads(control.recv(MAX_CONTROL))
    system.become_subreaper()
    os.environ["TMPDIR"] = configuration["scratch"]  # killed workers cannot remove their temporary files
    try:
        started = time.monotonic()
        # What the modules create stays, so that collections meanwhile would find nothing; each takes longer than the
        # last. The warm-up ends with one.
        gc.disable()
        missing = _preload(configuration["preload"])
        gc.freeze()
        gc.enable()
        server = _ForkServer(control, configuration["functions"], Limits(**configuration["limits"]))
        server.send({"ready": (time.monotonic() - started) * 1000, "missing": missing})
        server.run(_steps(configuration["warm_up"]))
    finally:
        system.kill_children()
        shutil.rmtree(configuration["scratch"], ignore_errors=True)


def _freeze_heap() -> None:
    """Exclude all objects from garbage collection: a collection in a worker would copy every page it touches."""
    gc.collect()
    gc.freeze()


def _preload(modules: Iterable[str]) -> dict[str, str]:
    """Import ``modules`` and return the reasons for those that fail; the job that needs one reports it."""
    missing = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception as error:  # a broken installation may raise anything
            missing[name] = f"{type(error).__name__}: {error}"
    return missing


def _steps(functions: Iterable[str]) -> Iterator[object]:
    """Chain the generator functions named (``module:function``). One that raises is skipped: jobs report the cause."""
    for name in functions:
        module, _, function = name.partition(":")
        try:
            yield from getattr(importlib.import_module(module), function)()
        except Exception:  # a broken installation may raise anything
            traceback.print_exc()


class _ForkServer:
    def __init__(self, control: socket.socket, functions: dict[str, str], limits: Limits) -> None:
        self._control = control
        self._functions = functions
        self._limits = limits
        self._workers: dict[int, int] = {}  # pid -> serial
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def send(self, message: dict[str, Any]) -> None:
        self._control.send(json.dumps(message).encode())

    def run(self, warm_up: Iterator[object]) -> None:
        """Handle the pool's messages until it closes; run a step of ``warm_up`` when there are none."""
        cold = True
        signal.signal(signal.SIGCHLD, lambda *_: None)  # without a handler the wake-up descriptor is not written
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll(_IDLE_MILLISECONDS if cold else None)}
            if not ready:
                cold = next(warm_up, _EXHAUSTED) is not _EXHAUSTED
                if not cold:
                    _freeze_heap()
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
                self._reap()
            if self._control.fileno() in ready and not self._handle_message():
                return

    def _handle_message(self) -> bool:
        """Carry out one message of the pool; return False when the pool is gone."""
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
                os.kill(pid, number)  # safe: the pid cannot be reused before this process reaps it

    def _fork(self, serial: int, channel: int, output: int) -> None:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            self.send({"fork_failed": serial, "reason": str(error)})
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
            except BaseException:  # a worker must never return into the fork server's loop
                traceback.print_exc()
            finally:
                os._exit(1)
        # A worker forked later must not inherit these: the pool would then never see the end of the streams.
        os.close(channel)
        os.close(output)
        self._workers[pid] = serial
        self.send({"forked": serial, "pid": pid})

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
            system.kill_children(spare=self._workers)  # processes of the dead workers' jobs are now our children
        for serial, status in exited:
            self.send({"exited": serial, "status": status})
