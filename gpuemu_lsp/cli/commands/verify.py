"""``gpuemu verify``: is a report what was signed, by whom, and are the files still those it is about."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from gpuemu_lsp.cli.commands.report import SUFFIX
from gpuemu_lsp.cli.output import print_out
from gpuemu_lsp.engine.attest.envelope import EnvelopeError, key_id, unseal
from gpuemu_lsp.engine.attest.keys import KeyFileError, trusted_key
from gpuemu_lsp.engine.attest.statement import PREDICATE, STATEMENT, digests, sha256
from gpuemu_lsp.engine.project import discover
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_USAGE


def verify(report: Path, attestation: Path | None, key: Path | None) -> int:
    """Verify: 0 genuine and of these files, 1 not, 2 it cannot be verified. A genuine report may say that it failed."""
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
        told = _told(statement, content)
    except EnvelopeError as error:
        print_out(f"NOT VERIFIED: {sealed.name}: {error}.\n")
        return EXIT_FINDINGS
    changed, absent = _files(statement)
    lines = [f"Signed by {key_id(trusted)[:16]}", *told]
    lines += [f"  changed since: {name}" for name in changed]
    lines += [f"  not here to compare: {name}" for name in absent]
    lines.append("The report is genuine" + (", but of other files than these." if changed else "."))
    print_out("\n".join(lines) + "\n")
    return EXIT_FINDINGS if changed else EXIT_CLEAN


def _told(statement: dict[str, Any], content: bytes) -> list[str]:
    """Return what the statement says of the report, once it is known to be about it."""
    if statement.get("_type") != STATEMENT or statement.get("predicateType") != PREDICATE:
        raise EnvelopeError("it is signed, but no test result")
    subjects = {subject["digest"]["sha256"] for subject in statement["subject"]}
    if sha256(content) not in subjects:
        raise EnvelopeError("it is about another report, or this one was changed")
    predicate = statement["predicate"]
    details = predicate["gpuemu"]
    commit = details["commit"] or "no commit"
    return [
        f"  result:    {predicate['result']}",
        f"  kernels:   {len(predicate['passedTests'])} passed, {len(predicate['failedTests'])} failed",
        f"  cases:     {sum(item['cases']['run'] for item in details['kernels'])} with seed {details['seed']}",
        f"  toolchain: {details['toolchain']}, gpuemu-lsp {details['version']}",
        f"  commit:    {commit}{' with uncommitted changes' if details['dirty'] else ''}",
    ]


def _files(statement: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return which files of the statement are others now, and which are not here."""
    config = discover(Path.cwd())
    root = config.parent if config is not None else Path.cwd()
    named = {item["name"]: item["digest"]["sha256"] for item in statement["predicate"]["configuration"]}
    now = {name: digests([str(root / name)]) for name in named}
    absent = [name for name, found in now.items() if not found]
    return [name for name, found in now.items() if found and named[name] not in found.values()], absent
