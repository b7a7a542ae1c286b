"""Files the results of batches under their diagnostic sources, and publishes the diagnostics that change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpuemu_lsp.engine.check.model import Replay
from gpuemu_lsp.engine.findings import Finding, Place, Related, Role, Severity
from gpuemu_lsp.engine.jobs.run import fingerprinted
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.server.diagnostics.kernel_results import KernelResult
from gpuemu_lsp.server.diagnostics.sources import DiagnosticSource, Layer, split_by_layer
from gpuemu_lsp.server.diagnostics.unused_suppressions import unused_suppressions
from gpuemu_lsp.server.documents.parsed_files import kernel_id
from gpuemu_lsp.server.events import BatchEnded, KernelCompiled, KernelFinished, RunErrorFound, ServerEvent
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.work import Batch, KernelCheck

_MANY_KERNELS = 8
_PUBLISH_SECONDS = 0.05
"""Least time between two publications of a batch of many kernels: if their verdicts are known, the file would otherwise
be published once per kernel within less than a second, each time with the findings of all."""
_TRANSIENT_RULES = frozenset({"engine/worker-crashed", "engine/timeout", "engine/internal-error"})
"""Another check of the same content may end differently."""
_NOT_COMPARED = "\n(found in an earlier check; not compared again, because the reference failed)"


class ResultFiler:
    """Writes results into the session. Methods that file return the paths whose diagnostics may have changed."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._unpublished: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    def on_event(self, event: ServerEvent) -> None:
        """File the result of an event, and publish: for a batch of many kernels not more often than a client can show.

        Everything is published when a batch has ended, before other services react to its end.
        """
        match event:
            case KernelCompiled(batch, check):
                paths = self._file_compilation(batch, check, split_by_layer(check.findings)[0])
            case RunErrorFound(batch, check):
                paths = self._file_first_error(batch, check)
            case KernelFinished(batch, check):
                paths = self._file_result(batch, check)
            case BatchEnded(batch, completed):
                if completed:
                    self._unpublished |= self._drop_removed_kernels(batch) | self._file_suppressions(batch)
                self._publish()
                return
            case _:
                return
        self._unpublished |= paths
        if len(batch.checks) < _MANY_KERNELS:
            self._publish()
        elif self._timer is None:
            self._publish()
            self._timer = asyncio.get_running_loop().call_later(_PUBLISH_SECONDS, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._publish()

    def _publish(self) -> None:
        paths, self._unpublished = self._unpublished, set()
        self._session.publisher.publish(paths)

    def replace_case(self, request: CheckRequest, replay: Replay) -> None:
        """Replace the finding a case was minimised from by that of the smaller case, and publish it.

        Does nothing if the text of the file has changed since.
        """
        session, error = self._session, replay.error
        if error is None or session.text(request.spec.source) != request.text:
            return
        (minimised,) = fingerprinted([error], request.root)
        source = DiagnosticSource("run", request.spec.source, kernel_id(request.spec))
        identity = (minimised.rule, minimised.dtype, minimised.place)
        others = [
            item
            for item in session.diagnostics.findings_from(source)
            if (item.rule, item.dtype, item.place) != identity
        ]
        paths = session.diagnostics.replace(source, [*others, minimised], session.revision, request.text, stored=True)
        session.publisher.publish(paths)

    def _file_compilation(self, batch: Batch, check: KernelCheck, findings: Iterable[Finding]) -> set[str]:
        """File findings of compilation and lint; those of the last run stay."""
        all_findings = tuple(findings)
        return self._replace(
            "compile", batch, check, (*all_findings, *_on_includes(check.request.spec.source, all_findings))
        )

    def _file_first_error(self, batch: Batch, check: KernelCheck) -> set[str]:
        """File the first error of a run before the run ends.

        Errors of the previous run stay until the kernel has finished: else the file would look better than it is.
        """
        run_findings = split_by_layer(check.findings)[1]
        previous = self._session.diagnostics.findings_from(_source("run", batch, check))
        if batch.key.kind != "check" or not _has_error(run_findings) or _has_error(previous):
            return set()
        return self._replace("run", batch, check, run_findings)

    def _file_result(self, batch: Batch, check: KernelCheck) -> set[str]:
        """File all findings of a kernel, and its result for hovers and lenses."""
        report = check.report
        assert report is not None
        executed = batch.key.kind == "check"
        result = KernelResult(check.request, report, tuple(check.findings))
        self._session.results.put(result, executed)
        if not executed:
            # A compilation while typing never runs the kernel: that is not worth a diagnostic.
            shown = [item for item in check.findings if item.rule != "engine/not-executed" or not report.compiled]
            return self._file_compilation(batch, check, shown)
        static, ran = split_by_layer(check.findings)
        op = check.request.spec.op
        if op is not None:
            ran = (*ran, *on_places_of_op(ran))
            if not op.runnable:
                # The configuration shows that already, also before the check.
                ran = tuple(item for item in ran if item.rule != "engine/not-executed")
        if any(_is_reference_error(item) for item in ran):
            ran = (*ran, *self._hints_on_kernel(check, ran), *self._not_compared_again(batch, check))
        return self._replace("run", batch, check, ran) | self._file_compilation(batch, check, static)

    def _hints_on_kernel(self, check: KernelCheck, findings: Iterable[Finding]) -> list[Finding]:
        """Return hints on the kernel's name that its reference failed: the error itself is in the reference."""
        name_place = self._name_place(check)
        if name_place is None:
            return []
        return [
            replace(
                item,
                severity=Severity.HINT,
                message=f"'{check.request.spec.name}' was not compared with its reference: {item.message}",
                place=name_place,
                related=(Related(item.place, "the reference"),),
            )
            for item in findings
            if _is_reference_error(item)
        ]

    def _not_compared_again(self, batch: Batch, check: KernelCheck) -> list[Finding]:
        """Return the last numeric findings of a kernel that could not be compared with its reference now.

        Without a comparison nothing is known about them: to drop them would make the kernel look clean.
        """
        source, diagnostics = _source("run", batch, check), self._session.diagnostics
        revision, document = diagnostics.revision_of(source), self._session.documents.get(batch.key.path)
        kept = []
        for item in diagnostics.findings_from(source):
            if not item.rule.startswith("numeric/"):
                continue
            if document is not None and revision is not None and item.place.path == batch.key.path:
                item = replace(item, place=replace(item.place, range=document.migrate(item.place.range, revision)))
            message = item.message if item.data.get("stale") else item.message + _NOT_COMPARED
            kept.append(replace(item, message=message, data={**item.data, "stale": True}))
        return kept

    def _drop_removed_kernels(self, batch: Batch) -> set[str]:
        """Drop the results of kernels that the file no longer contains."""
        if not batch.whole:
            return set()
        parsed = self._session.parsed_files.last(batch.key.path)
        left_out = {entry.id for entry in parsed.entries if entry.runs_python} if parsed is not None else set()
        current = frozenset(kernel_id(check.request.spec) for check in batch.checks) | left_out
        paths = self._session.diagnostics.drop("compile", batch.key.path, current)
        if batch.key.kind == "check":
            paths |= self._session.diagnostics.drop("run", batch.key.path, current)
            self._session.results.drop(batch.key.path, current)
        return paths

    def _file_suppressions(self, batch: Batch) -> set[str]:
        """File the suppression comments of a file that had no effect in a check of all its kernels."""
        if batch.key.kind != "check" or not batch.whole or not batch.checks:
            return set()
        source, text = DiagnosticSource("run", batch.key.path), batch.checks[0].request.text
        unused = list(unused_suppressions(batch))
        return self._session.diagnostics.replace(source, unused, batch.revision, text) if unused else set()

    def _replace(self, layer: Layer, batch: Batch, check: KernelCheck, findings: Iterable[Finding]) -> set[str]:
        identified = [self._on_kernel(check, finding) for finding in fingerprinted(list(findings), check.request.root)]
        stored = batch.store_root is not None and not any(item.rule == "engine/not-stored" for item in check.findings)
        return self._session.diagnostics.replace(
            _source(layer, batch, check), identified, batch.revision, check.request.text, stored
        )

    def _on_kernel(self, check: KernelCheck, finding: Finding) -> Finding:
        """Move a finding that a kernel did not run from gpuemu.toml to the kernel, where its author sees it."""
        request, place = check.request, finding.place
        if not finding.rule.startswith("engine/") or place.path == request.spec.source:
            return finding
        name_place = self._name_place(check)
        if name_place is None:
            return finding
        related = (*finding.related, Related(place, "registered here"))
        return replace(finding, place=name_place, related=related)

    def _name_place(self, check: KernelCheck) -> Place | None:
        """Return the place of the kernel's name in its source, if that is still the text that was checked."""
        request = check.request
        parsed = self._session.parsed_files.last(request.spec.source)
        decl = parsed.decl_of(request.spec) if parsed is not None and parsed.text == request.text else None
        return None if decl is None else Place(request.spec.source, decl.name_range)


def on_places_of_op(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the errors of an op at its entry in gpuemu.toml and at its reference, where its author may be."""
    for item in findings:
        for other in item.related:
            if item.severity is Severity.ERROR and other.role in (Role.OP_ENTRY, Role.OP_REFERENCE):
                yield replace(item, place=other.place, related=(Related(item.place, "the op"),))


def is_repeatable(batch: Batch) -> bool:
    """Return whether another check of the same content would have the same result, and can be left out."""
    return not any(finding.rule in _TRANSIENT_RULES for check in batch.checks for finding in check.findings)


def _source(layer: Layer, batch: Batch, check: KernelCheck) -> DiagnosticSource:
    return DiagnosticSource(layer, batch.key.path, kernel_id(check.request.spec))


def _on_includes(source: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield, for each include of a source, the first error in a header that it leads to, as clangd does.

    The header may not be open, and then nothing would be shown next to the code that does not compile.
    """
    seen = set()
    for item in findings:
        if item.rule != "compile/error" or item.place.path == source:
            continue
        include = next(
            (other for other in item.related if other.place.path == source and other.role is Role.INCLUDE), None
        )
        if include is not None and include.place not in seen:
            seen.add(include.place)
            related = (Related(item.place, "error in the header"), *item.related)
            yield replace(item, message=f"in included file: {item.message}", place=include.place, related=related)


def _is_reference_error(finding: Finding) -> bool:
    return finding.rule.startswith("reference/") and finding.severity is Severity.ERROR


def _has_error(findings: Iterable[Finding]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in findings)
