"""``gpuemu verify``: verify the signature of a report, and compare the files it names with those present."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from gpuemu_lsp.cli.commands.report import SUFFIX
from gpuemu_lsp.cli.output import print_out
from gpuemu_lsp.engine.attest import SigningUnavailableError, require_signing
from gpuemu_lsp.engine.attest.statement import PREDICATE, STATEMENT, digests, sha256
from gpuemu_lsp.engine.project import discover
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_USAGE


def verify(report: Path, attestation: Path | None, key: Path | None) -> int:
    """Verify a report.

    Return 0 if the signature is valid and all files are unchanged, 1 if not, 2 if that cannot be determined.
    The exit code does not depend on the signed result: a genuine report of a failed check verifies with 0.
    """
    try:
        require_signing()
    except SigningUnavailableError as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return EXIT_USAGE
    from gpuemu_lsp.engine.attest.envelope import EnvelopeError, key_id, unseal
    from gpuemu_lsp.engine.attest.keys import KeyFileError, trusted_key

    sealed = attestation or report.with_name(report.name + SUFFIX)
    try:
        text, content = sealed.read_text(encoding="utf-8"), report.read_bytes()
        trusted = trusted_key(key)
    except OSError as error:
        print(f"gpuemu: {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_USAGE
    except (UnicodeDecodeError, KeyFileError) as error:
        print(f"gpuemu: {error}", file=sys.stderr)
        return EXIT_USAGE
    try:
        statement = unseal(text, trusted)
        details = _details(statement, content)
    except EnvelopeError as error:
        print_out(f"NOT VERIFIED: {sealed.name}: {error}.\n")
        return EXIT_FINDINGS
    changed, absent = _compare_files(statement)
    lines = [f"Signed by {key_id(trusted)[:16]}", *details]
    lines += [f"  changed since: {name}" for name in changed]
    lines += [f"  not found: {name}" for name in absent]
    lines.append("The report is genuine" + (", but files have changed since." if changed else "."))
    print_out("\n".join(lines) + "\n")
    return EXIT_FINDINGS if changed else EXIT_CLEAN


def _details(statement: dict[str, Any], content: bytes) -> list[str]:
    """Return the lines that describe a statement.

    Raises
    ------
    EnvelopeError
        If it is not a test result, or is about a report other than ``content``.
    """
    from gpuemu_lsp.engine.attest.envelope import EnvelopeError

    if statement.get("_type") != STATEMENT or statement.get("predicateType") != PREDICATE:
        raise EnvelopeError("its statement is not a test result")
    subjects = {subject["digest"]["sha256"] for subject in statement["subject"]}
    if sha256(content) not in subjects:
        raise EnvelopeError("it was made for another report, or the report has been modified")
    predicate = statement["predicate"]
    details = predicate["gpuemu"]
    commit = details["commit"] or "none"
    return [
        f"  result:    {predicate['result']}",
        f"  kernels:   {len(predicate['passedTests'])} passed, {len(predicate['failedTests'])} failed",
        f"  cases:     {sum(item['cases']['run'] for item in details['kernels'])} with seed {details['seed']}",
        f"  toolchain: {details['toolchain']}, gpuemu-lsp {details['version']}",
        f"  commit:    {commit}{' with uncommitted changes' if details['dirty'] else ''}",
    ]


def _compare_files(statement: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of the statement's files that have changed, and of those that are absent."""
    config = discover(Path.cwd())
    root = config.parent if config is not None else Path.cwd()
    named = {item["name"]: item["digest"]["sha256"] for item in statement["predicate"]["configuration"]}
    now = {name: digests([str(root / name)]) for name in named}
    absent = [name for name, found in now.items() if not found]
    return [name for name, found in now.items() if found and named[name] not in found.values()], absent
