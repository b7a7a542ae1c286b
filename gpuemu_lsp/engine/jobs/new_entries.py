"""Entries of gpuemu.toml that are written for kernels: found by a job, appended with a template of the reference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.jobs.requests.new_entry import reference_path, relative_path, with_free_name
from gpuemu_lsp.engine.jobs.requests.targets import TargetError, collect
from gpuemu_lsp.engine.jobs.run_one import Submitter, run_job
from gpuemu_lsp.engine.project import discover, load
from gpuemu_lsp.engine.project.edits import append, applied
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.engine.workers.wire import to_json

_SECONDS = 60.0


class RegistrationError(Exception):
    """No entry was written; the message says why."""


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry that was written. ``questions`` has one for each value that was not found."""

    kernel: str
    config: str
    reference: str
    questions: tuple[str, ...]


def unregistered_kernel(target: str, folder: Path) -> CheckRequest:
    """Return the request of an unregistered kernel, named as ``FILE:KERNEL``.

    Raises
    ------
    RegistrationError
        If it is not such a name, or there is no such kernel.
    """
    file, separator, kernel = target.rpartition(":")
    if not separator or not file or not kernel:
        raise RegistrationError(f"{target!r} is not FILE:KERNEL, for example kernels/gelu.cu:gelu.")
    try:
        requests = collect([file], CheckOptions(), folder).requests
    except TargetError as error:
        raise RegistrationError(str(error)) from error
    chosen = next((request for request in requests if kernel in (request.spec.name, request.spec.entry)), None)
    if chosen is None:
        names = ", ".join(dict.fromkeys(request.spec.name for request in requests))
        raise RegistrationError(f"{file} has no kernel {kernel!r}. Its kernels are: {names or 'none'}.")
    if chosen.registered:
        raise RegistrationError(f"{kernel} is registered already.")
    return chosen


def write_entry(pool: Submitter, request: CheckRequest, folder: Path, *, recorded: bool) -> NewEntry:
    """Append the entry of one kernel, and write a template of its reference.

    gpuemu.toml is the nearest one above the file, else a new one in ``folder`` if the file is below it, else in the
    file's folder. ``recorded``: the launches are those of recordings.

    Raises
    ------
    RegistrationError
        If the kernel cannot be registered, or a file cannot be written.
    """
    path = Path(request.spec.source)
    project = discover(path.parent)
    config = project or (folder if path.is_relative_to(folder) else path.parent) / CONFIG_NAME
    taken = {spec.name for spec in load(project).kernels} if project is not None else set()
    request = with_free_name(request, taken)
    reference = reference_path(path.as_posix(), request.spec.name)
    payload = {
        "request": to_json(request),
        "source": relative_path(path.as_posix(), config.parent),
        "reference": relative_path(reference, config.parent),
        "recorded": recorded,
    }
    result = run_job(pool, Job("registration", payload, wall_seconds=_SECONDS))
    written = next((value for value in result.values if isinstance(value, dict)), {})
    entry, skeleton, questions = (written.get(name) for name in ("entry", "reference", "questions"))
    if not isinstance(entry, str) or not isinstance(skeleton, str):
        why = written.get("trouble", "the launches that find its sizes did not end")
        raise RegistrationError(f"{request.spec.name} cannot be registered: {why}.")
    try:
        text = config.read_bytes().decode("utf-8") if config.exists() else ""
        Path(reference).write_bytes(skeleton.encode("utf-8"))
        config.write_bytes(applied(text, append(text, entry)).encode("utf-8"))
    except OSError as error:
        raise RegistrationError(f"{error.filename}: {error.strerror or error}") from error
    asked = tuple(map(str, questions)) if isinstance(questions, list) else ()
    return NewEntry(request.spec.name, str(config), reference, asked)
