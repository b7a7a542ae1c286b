"""Kernels that did not run, by reason, with what would let them run."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.build.python_packages import package_of
from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding, Json, Severity

_REGISTER = "register it in gpuemu.toml with its dims, args and launch"
_ENTRY = 'register it in gpuemu.toml with `entry = "kernel<float>"`'
_MOST_CHARACTERS = 110
_PREFIX = re.compile(r"(?:'[^']*' was (?:compiled but )?not (?:run|checked)|This kernel was not run|Not checked): ")
_ADVICE = re.compile(
    r"\.? (?:Register it|Set (?:its|`)|Add |Install |Keep the kernel|It is (?:host code|a header)|Add:).*", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class UnexecutedKernel:
    """A kernel that did not run; ``reason`` is one line."""

    name: str
    source: str
    reason: str

    @property
    def cause(self) -> str:
        """The reason without the kernel's name and the advice."""
        return _ADVICE.sub("", _PREFIX.sub("", self.reason))


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
        message = explaining[0].message if explaining else "no reason was reported"
        compiles = not explaining or not explaining[0].rule.startswith("compile/")
        key = _classified(message) if compiles else ("does not compile", "correct the errors that --check shows")
        reason = _one_line(message)
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


def _one_line(message: str) -> str:
    return message.partition("\n")[0]


def _headers(match: re.Match[str]) -> tuple[str, str]:
    name = next(group for group in match.groups() if group)
    first = name.split(",")[0].strip()
    package = package_of(first)
    remedy = f"pip install {package} into the project's Python" if package is not None else _FOLDER
    return f"header {first} was not found", remedy


def _library(match: re.Match[str]) -> tuple[str, str]:
    return (
        f"library header {match[1]} does not compile under NVRTC",
        "keep the kernel in a file that does not include it",
    )


_FOLDER = "add its folder to `include_dirs` of `[build]` in gpuemu.toml"
_UNKNOWN_SIZES = "the sizes of its buffers are not known"
_UNKNOWN_INSTANCE = "no launch says which instance of the template to check"
_KNOWN: tuple[tuple[str, tuple[str, str] | Callable[[re.Match[str]], tuple[str, str]]], ...] = (
    (r"header \"([^\"]+)\" was not found|headers were not found \(([^)]+)\)|'([^']+)' file not found", _headers),
    (r"is a template, and no launch|guessed instance", (_UNKNOWN_INSTANCE, _ENTRY)),
    (r"no integer parameter says|sizes? of (?:its|the) buffers?|how large", (_UNKNOWN_SIZES, _REGISTER)),
    (
        r"no product of its sizes|in a way (?:that )?no size",
        ("no combination of its sizes explains its accesses", _REGISTER),
    ),
    (r"too many size parameters", ("it has too many size parameters to infer", _REGISTER)),
    (r"Set dims, args and launch", ("with assumed sizes or values it does not run to completion", _REGISTER)),
    (r"removed texture references", ("texture references were removed in CUDA 12", "use texture objects")),
    (
        r"(?:texture|surface) object",
        ("it reads texture or surface objects", "those in memory, and of registered kernels, are not made"),
    ),
    (r"dynamic parallelism|device runtime", ("it uses the CUDA device runtime", "that is not supported")),
    (r"the library's header (\S+) does not compile", _library),
    (r"an #if excludes it", ("an #if excludes it", "define the macro in `compile_options` of `[build]`")),
    (
        r"declare the constant `constexpr`",
        ("a constant at file scope needs dynamic initialisation", "declare it constexpr"),
    ),
)
"""Patterns of messages, and the title and remedy of each."""


def _classified(message: str) -> tuple[str, str]:
    """Return the title and remedy of the reason in a message."""
    for pattern, result in _KNOWN:
        match = re.search(pattern, message)
        if match is not None:
            return result if isinstance(result, tuple) else result(match)
    reason = UnexecutedKernel("", "", _one_line(message)).cause
    general = re.sub(r"'[^']*'|`[^`]*`|\"[^\"]*\"", "...", reason)
    return re.sub(r"\b\d+\b", "N", general)[:_MOST_CHARACTERS].rstrip(". "), _REGISTER
