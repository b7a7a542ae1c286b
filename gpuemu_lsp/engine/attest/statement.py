"""The signed content: an in-toto Statement v1 with a test-result predicate v0.1 (in-toto attestation framework).

The predicate's standard fields hold the result and the digests of the configuration. Its field ``gpuemu`` holds what
else the result depends on: versions, commit, seed, and the number of cases of each kernel.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuemu_lsp import __version__
from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.report.model import Run, relative
from gpuemu_lsp.engine.subjects.request import CheckOptions

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://in-toto.io/attestation/test-result/v0.1"


class NotSignableError(ValueError):
    """A run that is not a test result, because it is empty or covers only a part of the project."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Input of a statement: the run, its options and seed, and the SHA-256 of its files by absolute path.

    ``registered`` names every kernel of the project, ``broken`` those whose entry in gpuemu.toml has errors.
    """

    run: Run
    options: CheckOptions
    seed: str
    files: Mapping[str, str]
    registered: Sequence[str]
    broken: Sequence[str] = ()


def result_of(evidence: Evidence) -> str:
    """Return ``PASSED``, ``WARNED`` or ``FAILED``.

    Raises
    ------
    NotSignableError
        If a registered kernel was not checked to the end: "not run" is neither a pass nor a failure.
    """
    run = evidence.run
    by_name = {kernel.name: kernel for kernel in run.kernels if kernel.registered}
    if not evidence.registered:
        raise NotSignableError("no kernel is registered")
    if evidence.broken:
        raise NotSignableError(f"gpuemu.toml has errors in {', '.join(evidence.broken)}")
    missing = [name for name in evidence.registered if name not in by_name]
    if missing:
        raise NotSignableError(f"the run does not include {', '.join(missing)}")
    not_run = [name for name, kernel in by_name.items() if kernel.status == "not-executed" or _cut_short(kernel)]
    if not_run:
        raise NotSignableError(f"{', '.join(not_run)} did not run")
    if any(kernel.status in ("failed", "error") for kernel in run.kernels) or run.summary.errors:
        return "FAILED"
    if run.exit_code != 0:
        raise NotSignableError("something was not checked")
    all_passed = all(kernel.status == "passed" for kernel in by_name.values())
    return "PASSED" if all_passed and not run.summary.warnings else "WARNED"


def statement(evidence: Evidence, report_name: str, report: bytes) -> dict[str, Json]:
    """Return the statement about a report file.

    Raises
    ------
    NotSignableError
        See :func:`result_of`.
    """
    run = evidence.run
    result = result_of(evidence)
    digests: list[Json] = [
        {"name": relative(path, run.root), "digest": {"sha256": digest}}
        for path, digest in sorted(evidence.files.items())
    ]
    names = {
        "passedTests": [kernel.name for kernel in run.kernels if kernel.status == "passed"],
        "warnedTests": [kernel.name for kernel in run.kernels if kernel.status in ("unreferenced", "not-executed")],
        "failedTests": [kernel.name for kernel in run.kernels if kernel.status in ("failed", "error")],
    }
    return {
        "_type": STATEMENT,
        "subject": [{"name": report_name, "digest": {"sha256": sha256(report)}}],
        "predicateType": PREDICATE,
        "predicate": {
            "result": result,
            "configuration": digests,
            **{key: list(value) for key, value in names.items()},
            "gpuemu": {
                "version": __version__,
                "toolchain": run.toolchain,
                "project": run.context.project,
                "commit": run.context.commit or None,
                "dirty": run.context.dirty,
                "created": round(run.context.created),
                "seed": evidence.seed,
                "cases": evidence.options.most,
                "arch": evidence.options.arch,
                "kernels": [_kernel(kernel) for kernel in run.kernels],
            },
        },
    }


def digests(paths: Sequence[str]) -> dict[str, str]:
    """Return the SHA-256 of every readable file, by path."""
    digests = {}
    for path in paths:
        try:
            digests[path] = sha256(file_bytes(path))
        except OSError:
            continue
    return digests


def sha256(data: bytes) -> str:
    """Return the SHA-256 digest in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _cut_short(kernel: KernelReport) -> bool:
    return kernel.status in ("passed", "unreferenced") and kernel.cases.run == 0


def _kernel(kernel: KernelReport) -> Json:
    return {
        "name": kernel.name,
        "status": kernel.status,
        "executor": kernel.executor,
        "cases": {"run": kernel.cases.run, "passed": kernel.cases.passed},
        "errors": {item.dtype: _errors(item.errors) for item in kernel.measured},
    }


def _errors(errors: Sequence[float]) -> Json:
    """Return a digest of the errors of all cases, bit for bit; listing them would make the statement large."""
    return sha256(",".join(value.hex() for value in errors).encode())
