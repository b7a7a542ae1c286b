"""The life of a session: a client's requests, the worker that answers them, and the end of both.

Three threads write to the client: that of its requests, that of the pool, and that of the worker's answers. Requests
that come while the case is being recorded wait in the channel; a launch is answered when there is a recording, so that
the client shows the reason if there is none.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from itertools import count
from pathlib import Path
from typing import BinaryIO, Final

from gpuemu_lsp.debug_adapter.capabilities import CAPABILITIES
from gpuemu_lsp.debug_adapter.messages import read_message, write_message
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.workers.frames import FrameReader, encode
from gpuemu_lsp.engine.workers.job_handle import JobHandle
from gpuemu_lsp.engine.workers.model import Cancelled, Done, Ending, Event, Failed, Job, Progress, TimedOut, WorkerDied
from gpuemu_lsp.engine.workers.pool import Pool

RECORD_SECONDS: Final = 300.0
"""The longest time from the launch to the recording."""
_STAGES: Final = {"compile": "compiling", "execute": "running the case", "record": "recording the case"}
_PROGRESS: Final = "recording"
_LONGEST_FOLDER: Final = 70
_STOPPED: Final = "the debug session was ended"


class Adapter:
    """One session with a client that reads ``output`` and writes ``source``."""

    def __init__(self, pool: Pool, source: BinaryIO, output: BinaryIO) -> None:
        self._pool, self._source, self._output = pool, source, output
        self._numbers = count(1)
        self._writing = threading.Lock()
        self._folder = socket_folder("gpuemu-debug-")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._channel: socket.socket | None = None
        self._waiting: list[dict[str, Json]] = []
        self._passing = threading.Lock()
        self._client: dict[str, Json] = {}
        self._launch: dict[str, Json] | None = None
        self._answered = self._job_ended = False
        self._job: JobHandle | None = None
        self._deadline: threading.Timer | None = None

    def run(self) -> None:
        """Answer requests until the client disconnects.

        Raises
        ------
        FramingError
            If the client does not speak the protocol.
        """
        try:
            while (message := read_message(self._source)) is not None:
                if message.get("type") == "request" and not self._handle(message):
                    return
        finally:
            self._end()

    def _end(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        if self._job is not None:
            self._job.cancel()
        for endpoint in (self._listener, self._channel):
            if endpoint is not None:
                endpoint.close()
        self._folder.cleanup()

    # ---- requests ----------------------------------------------------------------------------------------------------

    def _handle(self, request: dict[str, Json]) -> bool:
        """Answer a request, or pass it on; return False after the last one."""
        command = request.get("command")
        arguments = request.get("arguments")
        given = arguments if isinstance(arguments, dict) else {}
        if command == "initialize":
            self._client = given
            self._respond(request, CAPABILITIES)
        elif command == "launch":
            self._start(request, given)
        elif command == "attach":
            self._refuse(request, 'there is no process to attach to: use "request": "launch" with a stored case')
        elif command == "cancel":
            if given.get("progressId") == _PROGRESS and self._job is not None:
                self._job.cancel()
            self._respond(request)
        elif command in ("disconnect", "terminate"):
            self._respond(request)
            if command == "disconnect":
                return False
            self._event("terminated", {})
        else:
            self._pass_on(request)
        return True

    def _pass_on(self, request: dict[str, Json]) -> None:
        with self._passing:
            if self._launch is None or self._job_ended:
                self._refuse(request, "nothing is being debugged")
            elif self._channel is None:
                self._waiting.append(request)
            else:
                with contextlib.suppress(OSError):  # its end is reported by the pool
                    self._channel.sendall(encode(request))

    # ---- launch ------------------------------------------------------------------------------------------------------

    def _start(self, request: dict[str, Json], launch: dict[str, Json]) -> None:
        problem = _launch_problem(launch)
        if self._launch is not None:
            problem = "this session has a launch already: start another session"
        if problem is not None:
            self._refuse(request, problem)
            return
        self._launch = request
        path = str(Path(self._folder.name) / "channel")
        self._listener.bind(path)
        self._listener.listen(1)
        threading.Thread(target=self._answers, daemon=True).start()
        payload: dict[str, Json] = {
            "channel": path,
            "launch": launch,
            "first_line": int(self._client.get("linesStartAt1") is not False),
            "first_column": int(self._client.get("columnsStartAt1") is not False),
        }
        # The client sends its breakpoints as soon as it hears this; they wait in the channel.
        self._event("initialized", {})
        self._progress("progressStart", {"title": "gpuemu", "message": "starting", "cancellable": True})
        self._job = self._pool.submit(Job("debug", payload, interactive=True), self._on_event)
        self._deadline = threading.Timer(RECORD_SECONDS, self._job.cancel)
        self._deadline.daemon = True
        self._deadline.start()

    def _on_event(self, event: Event) -> None:
        """Report what the worker does; called on the pool's thread."""
        if isinstance(event, Progress):
            value = event.value if isinstance(event.value, dict) else {}
            if "stage" in value:
                stage = str(value["stage"])
                self._progress("progressUpdate", {"message": _STAGES.get(stage, stage)})
            elif "problem" in value:
                self._launched(str(value["problem"]))
            elif "ready" in value:
                self._launched(None)
        elif isinstance(event, Done | Failed | TimedOut | WorkerDied | Cancelled):
            self._job_has_ended(event)

    def _job_has_ended(self, ending: Ending) -> None:
        with self._passing:
            self._job_ended, waiting, self._waiting = True, self._waiting, []
        if not self._launched(_ending(ending)):
            if isinstance(ending, Failed | TimedOut | WorkerDied):
                self._event("output", {"category": "stderr", "output": f"The session ends: {_ending(ending)}.\n"})
            self._event("terminated", {})
        for request in waiting:
            self._refuse(request, "nothing is being debugged")

    def _launched(self, problem: str | None) -> bool:
        """Answer the launch, once; return whether it had no answer yet."""
        if self._launch is None or self._answered:
            return False
        request, self._answered = self._launch, True
        if self._deadline is not None:
            self._deadline.cancel()
        self._progress("progressEnd", {})
        if problem is None:
            self._respond(request)
        else:
            self._refuse(request, problem)
        return True

    def _answers(self) -> None:
        """Pass the worker's answers on to the client."""
        try:
            channel, _ = self._listener.accept()
        except OSError:
            return
        # Nothing is left of it should this process be killed.
        self._listener.close()
        self._folder.cleanup()
        with self._passing:
            self._channel = channel
            waiting, self._waiting = self._waiting, []
            for request in waiting:
                channel.sendall(encode(request))
        reader = FrameReader()
        with contextlib.suppress(OSError):
            while data := channel.recv(1 << 16):
                for message in reader.feed(data):
                    if isinstance(message, dict):
                        self._send(message)

    # ---- messages ----------------------------------------------------------------------------------------------------

    def _send(self, message: dict[str, Json]) -> None:
        with self._writing, contextlib.suppress(BrokenPipeError, ValueError):
            write_message(self._output, {"seq": next(self._numbers), **message})

    def _respond(self, request: dict[str, Json], body: dict[str, Json] | None = None) -> None:
        message: dict[str, Json] = {"type": "response", "request_seq": request.get("seq"), "success": True}
        self._send(message | {"command": request.get("command"), "body": body or {}})

    def _refuse(self, request: dict[str, Json], why: str) -> None:
        error: dict[str, Json] = {"id": 1, "format": why.replace("{", "(").replace("}", ")"), "showUser": True}
        message: dict[str, Json] = {"type": "response", "request_seq": request.get("seq"), "success": False}
        self._send(message | {"command": request.get("command"), "message": why, "body": {"error": error}})

    def _event(self, name: str, body: dict[str, Json]) -> None:
        self._send({"type": "event", "event": name, "body": body})

    def _progress(self, name: str, body: dict[str, Json]) -> None:
        if self._client.get("supportsProgressReporting"):
            self._event(name, {"progressId": _PROGRESS, **body})


def socket_folder(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """Return a folder of this user's for a socket, whose path has at most 107 bytes (unix(7))."""
    folder = None if len(tempfile.gettempdir()) < _LONGEST_FOLDER else "/tmp"
    return tempfile.TemporaryDirectory(prefix=prefix, dir=folder)


def _launch_problem(launch: dict[str, Json]) -> str | None:
    """Return what is wrong with the arguments of a launch."""
    root, case = launch.get("root"), launch.get("case")
    if not isinstance(root, str) or not Path(root).is_dir():
        return f'"root" is the folder of the project\'s gpuemu.toml, not {root!r}'
    chosen = isinstance(launch.get("dims"), dict) or isinstance(launch.get("launch"), str)
    if "case" not in launch and isinstance(launch.get("kernel"), str) and chosen:
        return None
    if not isinstance(case, str) or not case:
        return (
            '"case" is the id of a stored failing case, as findings and gpuemu failures show it, in quotes; '
            'without it, "kernel" and "dims" choose a kernel and its sizes, "kernel" and "launch" a recorded launch'
        )
    return None


def _ending(event: Ending) -> str:
    """Return why the worker ended without a recording."""
    if isinstance(event, Cancelled):
        return f"the recording was cancelled, or took more than {RECORD_SECONDS:.0f} s"
    if isinstance(event, TimedOut):
        return f"the recording took more than {event.seconds:.0f} s"
    if isinstance(event, WorkerDied):
        return f"the process that records the case ended: {event.reason}"
    if isinstance(event, Failed):
        return f"the case cannot be recorded: {event.kind}: {event.message}"
    return _STOPPED
