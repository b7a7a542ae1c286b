"""``gpuemu register FILE:KERNEL``: an entry of gpuemu.toml with everything that was found filled in."""

from __future__ import annotations

import sys
from pathlib import Path

from gpuemu_lsp.cli.output import print_out
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.jobs.requests.new_entry import reference_path, relative_path, with_free_name
from gpuemu_lsp.engine.jobs.requests.targets import TargetError, collect
from gpuemu_lsp.engine.jobs.run_one import run_job
from gpuemu_lsp.engine.project import discover, load
from gpuemu_lsp.engine.project.edits import append, applied
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.recordings.model import RecordingError
from gpuemu_lsp.engine.recordings.project_files import FOLDER, read_recordings, recordings_root
from gpuemu_lsp.engine.recordings.reader import read_recording
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_USAGE
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.engine.workers.pool import Pool
from gpuemu_lsp.engine.workers.wire import to_json

_SECONDS = 60.0


def register(target: str) -> int:
    """Append the entry, write a template of its reference, and print one question for each value not found.

    gpuemu.toml is the nearest one above the file, else a new one in the working directory if the file is below it,
    else in the file's folder. Returns 0, or 2 if nothing was written.
    """
    request = _request(target)
    if isinstance(request, str):
        print(f"gpuemu: {request}", file=sys.stderr)
        return EXIT_USAGE
    with open_pool(1) as pool:
        written = _registered(pool, request, recorded=False)
    return EXIT_CLEAN if written else EXIT_USAGE


def register_recorded(recording: Path | None, target: str | None) -> int:
    """Register kernels with the launches that runs have recorded: the one of ``target``, else each that is not yet.

    ``recording`` is a file in the project's ``.gpuemu/recordings``; None stands for all that are there. Returns 0, or 2
    if nothing was written.
    """
    try:
        targets = _recorded_targets(recording)
    except RecordingError as error:
        print(f"gpuemu: {error}.", file=sys.stderr)
        return EXIT_USAGE
    if target is not None:
        wanted = _request(target)
        if isinstance(wanted, str):
            print(f"gpuemu: {wanted}", file=sys.stderr)
            return EXIT_USAGE
        requests = [wanted]
    else:
        # A registered kernel, and one that the file has no longer, is none of these.
        requested = {name: _request(name) for name in targets}
        requests = [one for one in requested.values() if isinstance(one, CheckRequest)]
        if not requests:
            reasons = [f"{name}: {one}" for name, one in requested.items()] or ["there are no recorded launches."]
            print("\n".join(f"gpuemu: {one}" for one in reasons), file=sys.stderr)
            return EXIT_USAGE
    with open_pool(1) as pool:
        written = [_registered(pool, one, recorded=True) for one in requests]
    return EXIT_CLEAN if any(written) else EXIT_USAGE


def _recorded_targets(path: Path | None) -> list[str]:
    """Return ``FILE:KERNEL`` of each recorded kernel that a file of the program defines.

    Raises
    ------
    RecordingError
        If there is no recording, or it cannot be read.
    """
    here = Path.cwd()
    config = discover(here)
    root = recordings_root(None if config is None else str(Path(config).parent), str(here / CONFIG_NAME))
    if path is None:
        recordings, errors = ([], []) if root is None else read_recordings(root)
        if not recordings:
            raise errors[0] if errors else RecordingError(f"{here} has no recordings: make one, gpuemu run --record")
    else:
        recordings = [read_recording(path)]
        if root is None or path.resolve().parent != (root / FOLDER).resolve():
            folder = (root or here) / FOLDER
            raise RecordingError(f"{path} is not used by checks: they read the recordings in {folder}")
    kernels = [one for recording in recordings for one in recording.kernels if one.source is not None]
    names = [f"{one.source}:{one.name.rpartition('::')[2]}" for one in kernels if Path(one.source or "").is_file()]
    return list(dict.fromkeys(names))


def _registered(pool: Pool, request: CheckRequest, *, recorded: bool) -> bool:
    """Write the entry and the reference of one kernel, and say so; return whether they were written."""
    path = Path(request.spec.source)
    project = discover(path.parent)
    below = path.is_relative_to(Path.cwd())
    config = Path(project) if project is not None else (Path.cwd() if below else path.parent) / CONFIG_NAME
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
    entry, skeleton = written.get("entry"), written.get("reference")
    if not isinstance(entry, str) or not isinstance(skeleton, str):
        why = written.get("trouble", "the launches that find its sizes did not end")
        print(f"gpuemu: {request.spec.name} cannot be registered: {why}.", file=sys.stderr)
        return False
    try:
        text = config.read_bytes().decode("utf-8") if config.exists() else ""
        Path(reference).write_bytes(skeleton.encode("utf-8"))
        config.write_bytes(applied(text, append(text, entry)).encode("utf-8"))
    except OSError as error:
        print(f"gpuemu: {error.filename}: {error.strerror or error}", file=sys.stderr)
        return False
    lines = [f"Registered {request.spec.name} in {config}.", f"Write its formula in {reference}."]
    questions = written.get("questions")
    if isinstance(questions, list) and questions:
        lines += ["", "Answer in [kernels.args] of the entry:", *(f"  {question}" for question in questions)]
    print_out("\n".join(lines) + "\n")
    return True


def _request(target: str) -> CheckRequest | str:
    """Return the request of an unregistered kernel, or what is wrong with ``FILE:KERNEL``."""
    file, separator, kernel = target.rpartition(":")
    if not separator or not file or not kernel:
        return f"{target!r} is not FILE:KERNEL, for example kernels/gelu.cu:gelu."
    try:
        requests = collect([file], CheckOptions(), Path.cwd()).requests
    except TargetError as error:
        return str(error)
    chosen = next((one for one in requests if kernel in (one.spec.name, one.spec.entry)), None)
    if chosen is None:
        names = ", ".join(dict.fromkeys(one.spec.name for one in requests))
        return f"{file} has no kernel {kernel!r}. Its kernels are: {names or 'none'}."
    if chosen.registered:
        return f"{kernel} is registered already."
    return chosen
