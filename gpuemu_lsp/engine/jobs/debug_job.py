"""The job of a debugging session: it records a failing case, then answers requests on a channel of its own.

A job's values only go out; requests come in through a socket whose path the payload has. User code runs here while the
case is recorded, and nothing of it afterwards.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from gpuemu_lsp.engine.check.chosen_sizes import ChosenSizesError, chosen_case
from gpuemu_lsp.engine.check.model import Stage
from gpuemu_lsp.engine.check.questions import Question, ask
from gpuemu_lsp.engine.check.recorded_launch import NoLaunchError, launched_case
from gpuemu_lsp.engine.check.why import AskedCase, asked_case
from gpuemu_lsp.engine.debug.explain import ChainQuestion, RecordedBlock
from gpuemu_lsp.engine.debugger.breakpoints import Hit
from gpuemu_lsp.engine.debugger.protocol import Body, DebugRequestError, number, text
from gpuemu_lsp.engine.debugger.requests import Requests, output
from gpuemu_lsp.engine.debugger.session import DebuggedCase, DebugSession, FurtherFinding, Locate
from gpuemu_lsp.engine.debugger.syntax import CExpressionError
from gpuemu_lsp.engine.findings import Finding, Json
from gpuemu_lsp.engine.jobs.functions import encode
from gpuemu_lsp.engine.jobs.requests.cuda_strings import compiled_request
from gpuemu_lsp.engine.jobs.requests.stored_cases import request_of
from gpuemu_lsp.engine.store import RECORDED, Failure, Store, StoreError
from gpuemu_lsp.engine.subjects.languages import calls_function
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.frames import FrameReader
from gpuemu_lsp.engine.workers.frames import encode as frame

_NO_LAUNCH = "it is a call of a Python function, of which no launch can be recorded"

_UNNAMED = "the optimised code is shown, which has lines, arguments, registers and memory, but no variables"


_Compiled: TypeAlias = tuple[CheckRequest, Locate]
"""The request for the text that is compiled, and what places its results in the user's file."""


class _CannotDebugError(Exception):
    """The launch cannot be debugged; the message is for the user."""


def debug(payload: Json) -> Iterator[Json]:
    """Record a case, and answer requests about it until the other side closes the channel.

    ``payload`` has the ``channel``, the arguments of the ``launch`` (``root`` and ``case``, optionally ``kernel`` and
    ``dtype``; or ``root``, ``kernel`` and ``dims``, optionally ``dtype`` and ``seed``; or ``root``, ``kernel`` and
    ``launch``, that of a recorded run), and the numbers ``first_line`` and ``first_column`` of the client. Yields
    stages, then ``{"ready": True}`` or ``{"problem"}``, the reason why there is nothing to debug.
    """
    assert isinstance(payload, dict)
    launch = payload["launch"]
    assert isinstance(launch, dict)
    try:
        (request, located), failure = _case_of(launch)
        for event in asked_case(request, failure, failure.case):
            if isinstance(event, Stage):
                yield encode(event)
            else:
                session = session_of(event, located)
                # It has the first recording, which the session may drop.
                del event
    except (_CannotDebugError, StoreError) as error:
        yield {"problem": str(error)}
        return
    requests = Requests(session, number(payload, "first_line"), number(payload, "first_column"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.connect(text(payload, "channel"))
        session.announce = lambda said: channel.sendall(frame(event_of(*output(said))))
        yield {"ready": True}
        _serve(channel, requests)


def _case_of(launch: dict[str, Json]) -> tuple[_Compiled, Failure]:
    """Return the case that a launch names, and the request for its kernel."""
    if "case" in launch:
        return _stored(launch)
    return _launched(launch) if "launch" in launch else _chosen(launch)


def _stored(launch: dict[str, Json]) -> tuple[_Compiled, Failure]:
    """Return the stored failure that a launch names, and the request for its kernel."""
    root, case = Path(text(launch, "root")), text(launch, "case")
    kernel, dtype = text(launch, "kernel"), text(launch, "dtype")
    with Store(root) as store:
        failures = [
            item.failure
            for item in store.find(case)
            if kernel in ("", item.failure.kernel) and dtype in ("", item.failure.dtype)
        ]
    if not failures:
        of = f" of '{kernel}'" if kernel else ""
        raise _CannotDebugError(f"there is no stored case '{case}'{of} in {root}; gpuemu failures lists them")
    kernels = sorted({failure.kernel for failure in failures})
    if len(kernels) > 1:
        raise _CannotDebugError(f'case {case} is of several kernels: choose one with "kernel": {", ".join(kernels)}')
    failure = failures[0]
    if failure.key.strategy == RECORDED:
        raise _CannotDebugError(_NO_LAUNCH)
    return _request(root, failure.kernel), failure


def _chosen(launch: dict[str, Json]) -> tuple[_Compiled, Failure]:
    """Return the case at the sizes that a launch names, and the request for its kernel."""
    request, located = _request(Path(text(launch, "root")), text(launch, "kernel"))
    given = launch.get("dims")
    dims = {name: size for name, size in given.items() if isinstance(size, int)} if isinstance(given, dict) else {}
    seed = number(launch, "seed") or request.validation.seed or request.options.seed
    try:
        return (request, located), chosen_case(request, dims, text(launch, "dtype"), seed)
    except ChosenSizesError as error:
        raise _CannotDebugError(str(error)) from error


def _launched(launch: dict[str, Json]) -> tuple[_Compiled, Failure]:
    """Return the recorded launch that a launch names, and the request for its kernel."""
    request, located = _request(Path(text(launch, "root")), text(launch, "kernel"))
    try:
        request, failure = launched_case(request, text(launch, "launch"))
    except NoLaunchError as error:
        raise _CannotDebugError(str(error)) from error
    return (request, located), failure


def _request(root: Path, kernel: str) -> _Compiled:
    """Return the request for a kernel of a project."""
    request = request_of(root, kernel, CheckOptions())
    if request is None:
        raise _CannotDebugError(f"there is no kernel '{kernel}' in {root}")
    if calls_function(request.spec):
        raise _CannotDebugError(_NO_LAUNCH)
    return compiled_request(request)


def session_of(case: AskedCase, located: Locate = lambda place: place) -> DebugSession:
    """Return a session about a recorded case, which begins at its finding."""
    answer, finding = case.answer, case.answer.finding
    latest = case.recorder.latest if case.recorder is not None else None
    if case.recorder is not None and latest is not None and finding is None:
        subject = DebuggedCase("the case shows no error", notes=_notes(case, latest))
        return DebugSession(latest, case.recorder, subject, located)
    if case.recorder is None or latest is None or finding is None:
        raise _CannotDebugError(f"case {answer.case} of '{answer.kernel}' cannot be debugged: {answer.problem}")
    asked = _closest(case.questions, finding)
    block = asked.block if asked is not None else latest
    further = tuple(
        FurtherFinding(asked.finding.rule, asked.finding.whole_message, partial(_moment, asked))
        for asked in case.further
    )
    subject = DebuggedCase(
        finding.whole_message, finding.rule, _hit(asked), _notes(case, block), case.ask_again, further
    )
    return DebugSession(block, case.recorder, subject, located)


def _notes(case: AskedCase, block: RecordedBlock) -> tuple[str, ...]:
    return case.notes if block.named else (_UNNAMED, *case.notes)


def _closest(questions: Sequence[ChainQuestion], finding: Finding) -> ChainQuestion | None:
    """Return what is asked about the line of a finding: a race has two accesses, and may have two blocks."""
    line = finding.place.range.start.line
    return min(
        questions, key=lambda one: (place := one.place()) is None or place.range.start.line != line, default=None
    )


def _moment(question: Question, block: RecordedBlock) -> Hit | None:
    """Return the moment of a finding, if the block that was recorded has it."""
    chains, _ = ask(question, lambda number: block if number == block.recording.block else None)
    return _hit(_closest(chains, question.finding))


def _hit(question: ChainQuestion | None) -> Hit | None:
    return None if question is None else Hit(question.criteria[0].tick, question.criteria[0].thread)


def _serve(channel: socket.socket, requests: Requests) -> None:
    reader = FrameReader()
    while data := channel.recv(1 << 16):
        for request in reader.feed(data):
            assert isinstance(request, dict)
            for message in _answers(requests, request):
                channel.sendall(frame(message))


def _answers(requests: Requests, request: dict[str, Json]) -> Iterator[Json]:
    """Yield the response to a request, and the events that follow it."""
    command, arguments = text(request, "command"), request.get("arguments")
    response: dict[str, Json] = {"type": "response", "request_seq": request.get("seq"), "command": command}
    try:
        reply = requests.reply(command, arguments if isinstance(arguments, dict) else {})
    except (DebugRequestError, CExpressionError) as error:
        yield response | {"success": False, "message": str(error)}
        return
    except Exception as error:
        # A mistake of ours in one answer does not end the session.
        yield response | {"success": False, "message": f"internal error: {type(error).__name__}: {error}"}
        return
    yield response | {"success": True, "body": reply.body}
    for name, body in reply.events:
        yield event_of(name, body)


def event_of(name: str, body: Body) -> Json:
    """Return the message of an event."""
    return {"type": "event", "event": name, "body": body}
