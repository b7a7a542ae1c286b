"""``gpuemu register FILE:KERNEL``: an entry of gpuemu.toml with everything that was found filled in."""

from __future__ import annotations

import sys
from pathlib import Path

from gpuemu_lsp.cli.output import print_out
from gpuemu_lsp.engine.jobs.new_entries import RegistrationError, unregistered_kernel, write_entry
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.project import discover
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.recordings.model import RecordingError
from gpuemu_lsp.engine.recordings.project_files import FOLDER, read_recordings, recordings_root
from gpuemu_lsp.engine.recordings.reader import read_recording
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_USAGE
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.pool import Pool


def register(target: str) -> int:
    """Append the entry, write a template of its reference, and print one question for each value not found.

    gpuemu.toml is the nearest one above the file, else a new one in the working directory if the file is below it,
    else in the file's folder. Returns 0, or 2 if nothing was written.
    """
    try:
        request = unregistered_kernel(target, Path.cwd())
    except RegistrationError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
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
    requests: list[CheckRequest] = []
    reasons: list[str] = []
    for name in targets if target is None else [target]:
        try:
            requests.append(unregistered_kernel(name, Path.cwd()))
        except RegistrationError as error:
            # A registered kernel, and one that the file has no longer, are left out.
            reasons.append(f"{name}: {error}" if target is None else str(error))
    if not requests:
        print(
            "\n".join(f"gpuemu: {reason}" for reason in reasons or ["there are no recorded launches."]), file=sys.stderr
        )
        return EXIT_USAGE
    with open_pool(1) as pool:
        written = [_registered(pool, request, recorded=True) for request in requests]
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
    try:
        entry = write_entry(pool, request, Path.cwd(), recorded=recorded)
    except RegistrationError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return False
    lines = [f"Registered {entry.kernel} in {entry.config}.", f"Write its formula in {entry.reference}."]
    if entry.questions:
        lines += ["", "Answer in [kernels.args] of the entry:", *(f"  {question}" for question in entry.questions)]
    print_out("\n".join(lines) + "\n")
    return True
