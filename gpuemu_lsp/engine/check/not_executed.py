"""Kernels that did not run, by reason, with what would let them run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.build.python_packages import package_of
from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding, Json, Severity
from gpuemu_lsp.engine.rules import RULES

_REGISTER = "register it in gpuemu.toml with its dims, args and launch"
_ENTRY = 'register it in gpuemu.toml with `entry = "kernel<float>"`'
_MOST_CHARACTERS = 110


@dataclass(frozen=True, slots=True)
class UnexecutedKernel:
    """A kernel that did not run; ``reason`` is one line."""

    name: str
    source: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReasonGroup:
    """Kernels that did not run for one reason; ``remedy`` is the step that would let most of them run."""

    title: str
    remedy: str
    kernels: tuple[UnexecutedKernel, ...]

    def record(self) -> dict[str, Json]:
        """Return the group as JSON."""
        kernels: list[Json] = [
            {"name": kernel.name, "source": kernel.source, "reason": kernel.reason} for kernel in self.kernels
        ]
        return {"reason": self.title, "remedy": self.remedy, "count": len(self.kernels), "kernels": kernels}


def reason_groups(kernels: Sequence[KernelReport], findings: Sequence[Finding]) -> tuple[ReasonGroup, ...]:
    """Return the kernels that did not run, grouped by reason, the most frequent reason first."""
    groups: dict[tuple[str, str], list[UnexecutedKernel]] = {}
    for kernel in kernels:
        if kernel.status not in ("not-executed", "error"):
            continue
        explaining = explanations(kernel, findings)
        reason = _reason(explaining[0]) if explaining else "no reason was reported"
        key = _title(explaining[0]) if explaining else (reason, _REGISTER)
        groups.setdefault(key, []).append(UnexecutedKernel(kernel.name, kernel.source, reason))
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    return tuple(ReasonGroup(title, remedy, tuple(found)) for (title, remedy), found in ordered)


def explanations(kernel: KernelReport, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings that say why a kernel did not run, errors first; one about its whole file names no kernel."""
    about = (
        finding
        for finding in findings
        if finding.rule.startswith(("engine/", "compile/", "reference/"))
        or finding.rule in ("config/ambiguous-signature", "config/missing-file")
    )
    mine = [
        finding
        for finding in about
        if finding.kernel == kernel.name or (finding.kernel is None and _is_of(finding, kernel.source))
    ]
    serious = [finding for finding in mine if finding.rule != "compile/warning"]
    return tuple(sorted(serious, key=_rank))


def _rank(finding: Finding) -> int:
    """Return an order in which the cause comes before its consequences and before mere hints."""
    if finding.rule.startswith("engine/"):
        return 0
    return 1 if finding.severity is Severity.ERROR else 2


def _is_of(finding: Finding, source: str) -> bool:
    return source in (finding.place.path, *(related.place.path for related in finding.related))


def _reason(finding: Finding) -> str:
    """Return the reason in one line, without the kernel's name and the advice where the finding has it apart."""
    reason = finding.data.get("reason")
    return _one_line(reason if isinstance(reason, str) else finding.message)


def _one_line(message: str) -> str:
    return message.partition("\n")[0]


_FOLDER = "add its folder to `include_dirs` of `[build]` in gpuemu.toml"
_TITLES = {
    Cause.UNKNOWN_INSTANCE: ("no launch says which instance of the template to check", _ENTRY),
    Cause.INCOMPLETE: ("with guessed sizes it does not run to completion", _REGISTER),
    Cause.TEXTURE_REFERENCE: ("texture references were removed in CUDA 12", "use texture objects"),
    Cause.TEXTURE_OBJECT: (
        "it reads texture or surface objects",
        "those in memory, and of registered kernels, are not made",
    ),
    Cause.DEVICE_RUNTIME: ("it uses the CUDA device runtime", "that is not supported"),
    Cause.EXCLUDED: ("an #if excludes it", "define the macro in `compile_options` of `[build]`"),
    Cause.DYNAMIC_INITIALIZATION: (
        "a constant at file scope needs dynamic initialisation",
        "declare it constexpr",
    ),
}


def _title(finding: Finding) -> tuple[str, str]:
    """Return the title of the reason that a finding gives, and its remedy."""
    if finding.rule.startswith("compile/"):
        return "does not compile", "correct the errors that --check shows"
    if isinstance(header := finding.data.get("header"), str):
        return _without_header(header)
    if isinstance(headers := finding.data.get("headers"), list) and headers:
        return _without_header(str(headers[0]))
    if isinstance(library := finding.data.get("library"), str):
        title = f"library header {library} does not compile under NVRTC"
        return title, "keep the kernel in a file that does not include it"
    if finding.cause in _TITLES:
        return _TITLES[finding.cause]
    reason = finding.data.get("reason")
    title = reason if isinstance(reason, str) else RULES[finding.rule].summary
    return _one_line(title)[:_MOST_CHARACTERS].rstrip(". "), _REGISTER


def _without_header(name: str) -> tuple[str, str]:
    package = package_of(name)
    remedy = f"pip install {package} into the project's Python" if package is not None else _FOLDER
    return f"header {name} was not found", remedy
