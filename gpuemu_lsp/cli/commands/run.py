"""``gpuemu run``: whole CUDA programs."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.cli.commands.nvcc import nvcc
from gpuemu_lsp.cli.commands.python_programs import (
    PythonProgram,
    UnusableTorchError,
    python_environment,
    untried_versions,
    used_languages,
    uses_runtime,
)
from gpuemu_lsp.cli.process_boundary import ended_as_by_an_interrupt
from gpuemu_lsp.engine.jobs.run import fingerprinted
from gpuemu_lsp.engine.memory_limit import kills_for_memory
from gpuemu_lsp.engine.project import discover
from gpuemu_lsp.engine.recordings.model import RecordingError
from gpuemu_lsp.engine.recordings.project_files import recording_path
from gpuemu_lsp.engine.recordings.writer import RecordingWriter
from gpuemu_lsp.engine.report.exit_codes import EXIT_FINDINGS, EXIT_USAGE
from gpuemu_lsp.engine.report.json_format import finding_record
from gpuemu_lsp.engine.report.text import TextStyle, render_finding
from gpuemu_lsp.engine.runtime.findings import has_errors
from gpuemu_lsp.engine.runtime.observers.recorder import LaunchRecorder
from gpuemu_lsp.engine.runtime.processes.supervised import temporary_folder
from gpuemu_lsp.engine.runtime.program import ProgramRun, RunLimits, run_program
from gpuemu_lsp.engine.runtime.toolchain.wheels import ProgramBuildError

_NOT_RECORDED = (
    "gpuemu: --record needs PyTorch's CUDA device, which this program does not get: pip install "
    "'gpuemu-lsp[run,torch-device]' and the CPU build of PyTorch, or --torch-device on. Launches of Triton and "
    "numba-cuda are not recorded; `gpuemu-lsp --check FILE.py` checks kernels with the sizes of their launches"
)
_SIGNALS = 128
"""Exit statuses above it are of a command that a signal has ended."""


def run(
    words: Sequence[str],
    limits: RunLimits,
    form: str,
    output: Path | None,
    *,
    leaks: bool = False,
    record: str | None = None,
    arch: str | None = None,
) -> int:
    """Run a program and check its launches; return its exit status, or the code of the first problem.

    ``words`` are sources and arguments, or a program and its arguments. Standard output is the program's: the result
    goes to standard error, or to ``output``. ``record`` is the file of the recording, empty for that of the program in
    its project, None for none. ``arch`` is an architecture as nvcc names it.
    """
    sources = [word for word in words if word.endswith((".cu", ".hip", ".cpp", ".cc"))]
    sources = list(words[: len(sources)]) if words[0] in sources else []
    with ended_as_by_an_interrupt(), temporary_folder("gpuemu-run-") as folder:
        program = Path(words[0])
        if sources:
            program = Path(folder) / program.stem
            killed_before = kills_for_memory()
            status = nvcc(["-o", str(program), *([f"-arch={arch}"] if arch else []), *sources])
            if status:
                reason = ": nvcc was ended by a signal" if status > _SIGNALS else ""
                if kills_for_memory() > killed_before:
                    reason = ": the system ended a process, as it had no memory left. Use a machine with more memory"
                print(f"gpuemu: the program was not built{reason}.", file=sys.stderr)
                return EXIT_USAGE
        installed = None if program.exists() else shutil.which(words[0])
        command = [installed or str(program.absolute()), *words[max(len(sources), 1) :]]
        try:
            # What is found on the path may start Python.
            environment = python_environment() if installed else {}
            folder_of = Path(sources[0]).absolute().parent if sources else Path.cwd()
            path = _recording_path(record, folder_of, program.name)
            result = _run_program(
                command,
                limits,
                path,
                program.name,
                leaks=leaks,
                environment=environment,
                on_finding=_writer(form, output),
            )
        except (UnusableTorchError, ProgramBuildError, RecordingError) as error:
            print(f"gpuemu: {error}", file=sys.stderr)
            return EXIT_USAGE
        except OSError as error:
            print(f"gpuemu: {program}: {error.strerror}", file=sys.stderr)
            return EXIT_USAGE
    return _report(result, form, output, builds=installed is not None)


def _recording_path(record: str | None, folder: Path, program: str) -> Path | None:
    """Return the file that ``--record`` names: without a name that of the program in the project of ``folder``."""
    if record is None or record:
        return Path(record) if record else None
    config = discover(folder)
    return recording_path(config.parent if config is not None else folder, program)


def _run_program(
    command: Sequence[str],
    limits: RunLimits,
    recording_file: Path | None,
    program: str,
    *,
    leaks: bool,
    environment: Mapping[str, str],
    on_finding: Callable[[ProgramRun], None] | None,
) -> ProgramRun:
    """Run a program and write its recording, if a file is given; the result's notes say what the recording lacks."""
    if recording_file is None:
        return run_program(command, limits, leaks=leaks, environment=environment, on_finding=on_finding)
    with RecordingWriter(recording_file) as writer:
        recorder = LaunchRecorder(writer, program)
        result = run_program(
            command, limits, leaks=leaks, recorder=recorder, environment=environment, on_finding=on_finding
        )
        recording = recorder.finish()
    launches, kernels = (
        _counted(len(recording.launches), "launch", "launches"),
        _counted(len(recording.kernels), "kernel"),
    )
    note = f"recorded {launches} of {kernels} in {recording_file}"
    if not recording.kernels:
        kept = "; that of an earlier run stays" if recording_file.exists() else ""
        note = f"nothing was recorded in {recording_file}{kept}"
    return replace(result, notes=(*result.notes, note, *recording.notes))


def run_python_program(
    program: PythonProgram,
    limits: RunLimits,
    form: str,
    output: Path | None,
    *,
    leaks: bool = False,
    record: str | None = None,
) -> int:
    """Run a Python program and check its launches; return its exit status, or the code of the first problem.

    ``record`` is the file of the recording, as in :func:`run`.
    """
    words, module = program.words, program.module
    if not module and not Path(words[0]).is_file():
        print(f"gpuemu: {words[0]}: No such file or directory", file=sys.stderr)
        return EXIT_USAGE
    if not uses_runtime(program):
        from gpuemu_lsp.cli.commands.run_python import run_python

        if record is not None:
            print(_NOT_RECORDED, file=sys.stderr)
            return EXIT_USAGE
        hint = "Triton's and numba-cuda's are checked"
        for language in used_languages(program):
            hint = f"{language.name} is not installed: pip install 'gpuemu-lsp[{language.extra}]'"
        return _report(run_python(words, module=module), form, output, hint)
    with ended_as_by_an_interrupt():
        try:
            folder = Path.cwd() if module else Path(words[0]).absolute().parent
            path = _recording_path(record, folder, program.name)
            result = _run_program(
                program.command,
                limits,
                path,
                program.name,
                leaks=leaks,
                environment=python_environment(program),
                on_finding=_writer(form, output),
            )
        except (UnusableTorchError, ProgramBuildError, RecordingError) as error:
            print(f"gpuemu: {error}", file=sys.stderr)
            return EXIT_USAGE
    result = replace(result, notes=(*untried_versions(program), *result.notes))
    return _report(result, form, output, "those of PyTorch's own operators are not kernels", builds=program.builds)


def _counted(count: int, noun: str, nouns: str = "") -> str:
    return f"{count} {noun if count == 1 else nouns or f'{noun}s'}"


def _report(
    result: ProgramRun,
    form: str,
    output: Path | None,
    hint: str = "was it built by `gpuemu nvcc`?",
    *,
    builds: bool = False,
) -> int:
    """Write the result; return the exit code. ``hint`` says why there may be no launch.

    ``builds``: the program may be one that builds others, of which no launch is expected.
    """
    findings = result.findings
    text = _text(result, form, hint)
    if output is not None:
        output.write_text(text, encoding="utf-8")
    else:
        print(text, end="", file=sys.stderr)
    if has_errors(findings):
        return EXIT_FINDINGS
    unchecked = any(one.rule == "api/unsupported" or one.rule.startswith("engine/") for one in findings)
    anything = builds or result.launches + result.library_calls > 0
    complete = result.problem is None and anything and result.launches == result.completed and not unchecked
    return result.exit_status if complete else EXIT_USAGE


def _writer(form: str, output: Path | None) -> Callable[[ProgramRun], None] | None:
    """Return what writes a run that has not ended to the file of its result, None if it has no such file."""
    if output is None or (output.exists() and not output.is_file()):
        return None
    part = output.with_name(f"{output.name}.part")

    def write(result: ProgramRun) -> None:
        with contextlib.suppress(OSError):  # the result at the end cannot be written either, which is an error
            part.write_text(_text(result, form, "not yet"), encoding="utf-8")
            part.replace(output)

    return write


def _text(result: ProgramRun, form: str, hint: str) -> str:
    root = str(Path.cwd())
    findings = fingerprinted(result.findings, root)
    if form == "json":
        document = {
            "version": 1,
            "exit_status": result.exit_status,
            "launches": result.launches,
            "checked": result.completed,
            "repeated": result.repeated,
            "library_calls": result.library_calls,
            "seconds": result.seconds,
            "problem": result.problem,
            "notes": list(result.notes),
            "findings": [finding_record(finding, root) for finding in findings],
        }
        return json.dumps(document, indent=2) + "\n"
    blocks = [render_finding(finding, root, TextStyle()) for finding in findings]
    noun = "launch" if result.launches == 1 else "launches"
    closing = f"gpuemu: checked {result.completed} of {result.launches:,} {noun}"
    if result.repeated:
        closing += f" ({result.repeated:,} proved repeats)"
    if result.library_calls:
        closing += f" and {_counted(result.library_calls, 'library call')}"
    elif result.launches == 0:
        closing = f"gpuemu: the program made no launch ({hint}): nothing was checked"
    for remark in (*result.notes, result.problem):
        closing += f"; {remark}" if remark is not None else ""
    return "\n".join([*blocks, f"{closing}; exit status {result.exit_status}; {result.seconds:.1f} s\n"])
