"""Findings of an inspection."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.findings import Finding, Related
from gpuemu_lsp.engine.lint.inspection import Inspection, LimitCheck, PatternCheck
from gpuemu_lsp.engine.lint.measure import inspect
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import SourceFile


def lint(artifact: Artifact, entry: str, spec: KernelSpec, source: SourceFile) -> tuple[Finding, ...]:
    """Compare a compiled kernel with its ``artifact_checks``.

    Parameters
    ----------
    artifact
        The compiled file.
    entry
        Mangled name of the kernel.
    spec
        Configuration of the kernel; without ``artifact_checks`` there are no findings.
    source
        The .cu file of the kernel.

    Returns
    -------
    tuple of Finding
        Exceeded limits and missing patterns on the kernel's name, forbidden patterns on their own lines; each related
        to its value in gpuemu.toml. Checks that could not be made are findings too. Limits apply to each instance of a
        kernel. A required pattern must be in one instance; a forbidden one is reported once per line, for the first
        instance that has it.
    """
    if spec.artifact_checks is None:
        return ()
    inspection = inspect(artifact, entry, spec, source)
    return tuple(_findings(inspection, spec, artifact.arch))


def _findings(inspection: Inspection, spec: KernelSpec, arch: str) -> Iterator[Finding]:
    for check in inspection.limits:
        if not check.ok:
            yield _over(check, inspection, spec, arch)
    for pattern in inspection.patterns:
        if not pattern.decided and pattern.first:
            message = (
                f"pattern '{pattern.pattern}' of '{spec.name}' was not checked: it is a SASS instruction; "
                "use the PTX instruction instead"
            )
            yield _made("engine/not-executed", message, inspection, spec, arch, pattern)
        elif pattern.decided and pattern.required and pattern.first and not pattern.ok:
            message = (
                f"required pattern '{pattern.pattern}' not found in '{spec.name}' on {arch}: no instruction, called or "
                "inlined function, or intrinsic matches"
            )
            yield _made("artifact/required-pattern", message, inspection, spec, arch, pattern)
        elif not pattern.required:
            yield from _forbidden(pattern, inspection, spec, arch)
    for reason in inspection.unchecked:
        message = f"'{inspection.name}' was not fully checked on {arch}: {reason}"
        yield make("engine/not-executed", message, inspection.place, kernel=spec.name, arch=arch)


def _over(check: LimitCheck, inspection: Inspection, spec: KernelSpec, arch: str) -> Finding:
    detail = f" ({', '.join(f'{value} in {name}' for name, value in check.parts.items())})" if check.parts else ""
    message = f"'{inspection.name}' uses {check.value} {check.unit} on {arch}{detail}; the limit is {check.limit}"
    return make(
        check.rule,
        message,
        inspection.place,
        kernel=spec.name,
        arch=arch,
        data={"value": check.value, "limit": check.limit, "instance": inspection.name, **check.parts},
        related=_related(spec, f"artifact_checks.{check.key}", "limit set here"),
    )


def _forbidden(pattern: PatternCheck, inspection: Inspection, spec: KernelSpec, arch: str) -> Iterator[Finding]:
    for match in pattern.matches:
        if match.place in pattern.known:
            continue
        message = f"forbidden pattern '{pattern.pattern}' in '{spec.name}': {match.what}"
        if match.place is None:
            yield _made("artifact/forbidden-pattern", f"{message} on {arch}", inspection, spec, arch, pattern)
        else:
            yield make(
                "artifact/forbidden-pattern",
                message,
                match.place,
                kernel=spec.name,
                arch=arch,
                data={"pattern": pattern.pattern, "instance": inspection.name},
                related=_pattern_related(spec, pattern),
            )


def _made(
    rule: str, message: str, inspection: Inspection, spec: KernelSpec, arch: str, pattern: PatternCheck
) -> Finding:
    return make(
        rule,
        message,
        inspection.place,
        kernel=spec.name,
        arch=arch,
        data={"pattern": pattern.pattern, "instance": inspection.name},
        related=_pattern_related(spec, pattern),
    )


def _pattern_related(spec: KernelSpec, pattern: PatternCheck) -> tuple[Related, ...]:
    key = "required_patterns" if pattern.required else "forbidden_patterns"
    return _related(
        spec, f"artifact_checks.{key}.{pattern.index}", "required here" if pattern.required else "forbidden here"
    )


def _related(spec: KernelSpec, key: str, message: str) -> tuple[Related, ...]:
    """Return the place of a value in gpuemu.toml, or of the nearest enclosing table or list."""
    while key:
        place = spec.places.get(key)
        if place is not None:
            return (Related(place, message),)
        key = key.rpartition(".")[0]
    return ()
