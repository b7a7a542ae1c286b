"""textDocument/hover: on a kernel its verdict and resources, on a key of gpuemu.toml its documentation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lsprotocol import types

from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Position
from gpuemu_lsp.engine.project import place_of
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.schema import describe_key, lookup
from gpuemu_lsp.server.documents import Document
from gpuemu_lsp.server.kernels import Kernel, Summary, kernels
from gpuemu_lsp.server.paths import path_of
from gpuemu_lsp.server.positions import byte_position
from gpuemu_lsp.server.protocol import Server
from gpuemu_lsp.server.session import Session


def register(server: Server, session: Session) -> None:
    """Add the handler."""

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        path = path_of(params.text_document.uri)
        document = session.documents.get(path) if path is not None else None
        if document is None:
            return None
        asked = Position(params.position.line, params.position.character)
        position = byte_position(document.text.split("\n"), asked, session.publisher.encoding)
        if Path(document.path).name == CONFIG_NAME:
            text = _key(document, position)
        else:
            text = _kernel(session, document, position)
        return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text)) if text else None


def _key(document: Document, position: Position) -> str | None:
    spot = place_of(document.text, position.line, position.column)
    if spot is None or not spot.range.start <= position <= spot.range.end:
        return None
    key = lookup(spot.path)
    return describe_key(key) if key is not None else None


def _kernel(session: Session, document: Document, position: Position) -> str | None:
    for kernel in kernels(session, document.path):
        if kernel.decl.name_range.start <= position <= kernel.decl.name_range.end:
            return _describe(kernel)
    return None


def _describe(kernel: Kernel) -> str:
    lines = [f"**{kernel.decl.qualified_name}**"]
    lines += [_verdict(summary) for summary in kernel.summaries()] or ["not checked yet"]
    if kernel.resources:
        lines.append(_table(kernel.resources))
    return "\n\n".join(lines)


def _verdict(summary: Summary) -> str:
    report = summary.verdict.report
    parts = [summary.words]
    if report.worst is not None:
        parts.append(f"worst error {100 * report.worst:.3g} % of what is allowed")
    if "total" in report.timing_ms:
        parts.append(f"{report.timing_ms['total']:.0f} ms on the {'GPU' if report.executor == 'gpu' else 'emulator'}")
    if report.approximate:
        parts.append(f"approximate instructions: {', '.join(report.approximate)}")
    rules = dict.fromkeys(finding.rule for finding in summary.verdict.findings)
    if rules:
        parts.append(f"found: {', '.join(rules)}")
    return "; ".join(parts)


def _table(resources: Mapping[str, ResourceUsage]) -> str:
    rows = [
        "| | registers | spill stores | spill loads | stack | static shared | barriers |",
        "|---|---|---|---|---|---|---|",
    ]
    for arch, usage in resources.items():
        cells = (
            f"{usage.registers}",
            f"{usage.spill_stores} B",
            f"{usage.spill_loads} B",
            f"{usage.stack_bytes} B",
            f"{usage.static_shared_bytes} B",
            f"{usage.barriers}",
        )
        rows.append(f"| {arch} | {' | '.join(cells)} |")
    return "\n".join(rows)
