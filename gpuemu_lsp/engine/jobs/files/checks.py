"""The kernels of one file in one job: everything of their checks but the launches.

The file is read and compiled once, and each kernel gets its findings of compilation and lint. A kernel whose verdict is
stored gets that. The job says of the others that their cases are to run; each of them is then a job of its own, which
may be killed, and whose worker may run the user's reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.functions import checked, encode
from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.wire import from_json, to_json


def shares_program(requests: Sequence[CheckRequest]) -> bool:
    """Return whether the kernels of a file are compiled as one program: several, and not of a ``.py``."""
    return len(requests) > 1 and not requests[0].spec.source.endswith(".py")


def file_payload(requests: Sequence[CheckRequest]) -> Json:
    """Return the payload of :func:`check_file`; text and overlay, which all requests have, are in it once."""
    first = requests[0]
    return {
        "requests": [to_json(replace(request, text=None, overlay={})) for request in requests],
        "text": first.text,
        "overlay": dict(first.overlay),
    }


def check_file(payload: Json) -> Iterator[Json]:
    """Check the kernels of a file as far as this takes no launch.

    Each event has the number of its request as ``kernel``. The last one of a request is its report, or ``pending`` with
    the name expressions of the file's program.
    """
    requests = _requests(payload)
    programs = _programs(requests)
    for number, (request, program) in enumerate(zip(requests, programs, strict=True)):
        verdicts = "find" if request.options.verdicts == "reuse" else "stop"
        options = replace(request.options, verdicts=verdicts) if request.options.execute else request.options
        done = False
        for item in checked(replace(request, options=options, program=program)):
            if not isinstance(item, list):
                done = done or isinstance(item, KernelReport)
                encoded = encode(item)
                assert isinstance(encoded, dict)
                yield {"kernel": number, **encoded}
        if not done:
            yield {"kernel": number, "pending": list(program)}


def programs(payload: Json) -> Iterator[Json]:
    """Yield the program of each request, as ``program`` with the number of the request as ``kernel``.

    ``payload`` is as for :func:`check_file`; without a text the file is read.
    """
    for number, program in enumerate(_programs(_requests(payload))):
        yield {"kernel": number, "program": list(program)}


def _requests(payload: Json) -> list[CheckRequest]:
    assert isinstance(payload, dict) and isinstance(payload["requests"], list)
    text, overlay = payload["text"], payload["overlay"]
    assert isinstance(overlay, dict)
    texts: Mapping[str, str] = {path: str(header) for path, header in overlay.items()}
    requests = [from_json(CheckRequest, item) for item in payload["requests"]]
    if not isinstance(text, str):
        text = file_bytes(requests[0].spec.source).decode("utf-8-sig")
    return [replace(request, text=text, overlay=texts) for request in requests]


def _programs(requests: Sequence[CheckRequest]) -> list[tuple[str, ...]]:
    """Return the program of each request: the entries of all kernels that are compiled with the same options."""
    from gpuemu_lsp.engine.subjects.cuda.program import program_of
    from gpuemu_lsp.engine.subjects.cuda.session import session_of

    groups: dict[tuple[object, ...], list[CheckRequest]] = {}
    for request in requests:
        groups.setdefault(_options(request), []).append(request)
    programs = {key: program_of(group, session_of(group[0])) for key, group in groups.items()}
    return [programs[_options(request)] for request in requests]


def _options(request: CheckRequest) -> tuple[object, ...]:
    return request.spec.compile_options, request.spec.include_dirs
