"""``gpuemu.debugInfo``: contents of a bug report as Markdown."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict

from gpuemu_lsp import __version__
from gpuemu_lsp.engine.workers.system import resident_bytes
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.services import Services
from gpuemu_lsp.server.settings import camel


def debug_info(server: GpuemuServer, services: Services) -> str:
    """Return versions, settings, folders, projects, open files, and the number of objects kept in memory."""
    session = services.session
    lines = [f"# gpuemu-lsp {__version__}", "", f"- Python {platform.python_version()}: `{sys.executable}`"]
    lines += [f"- process {os.getpid()} on {platform.platform()}"]
    lines += [f"- {name}: {version}" for name, version in services.status.versions.items() if name != "gpuemu-lsp"]
    lines += ["", "## Settings", ""]
    lines += [f"- `{camel(name)}`: `{value!r}`" for name, value in asdict(session.settings).items()]
    lines += ["", "## Folders", ""]
    lines += [f"- `{folder}`" for folder in session.folders] or ["- none"]
    lines += ["", "## Projects", ""]
    for project in session.projects.known():
        lines.append(
            f"- `{project.config or project.root}`: {len(project.kernels)} kernels, {len(project.findings)} findings"
        )
    lines += ["", "## Open files", ""]
    for document in session.documents.values():
        state = "as saved" if not document.edited_since(document.saved) else "edited"
        lines.append(f"- `{document.path}` version {document.version}, {state}, `{document.uri}`")
    kept = (
        f"{len(session.parsed_files)} parsed files",
        f"{len(session.results)} kernel results",
        f"{len(session.diagnostics)} diagnostic sources",
        f"{session.publisher.published_count} publications",
        f"{server.protocol.open_handlers} messages in progress",
    )
    lines += ["", f"Kept: {', '.join(kept)}; {resident_bytes() >> 20} MB in memory."]
    state = "busy" if services.queue.busy else "idle"
    lines += ["", f"Positions are {session.publisher.encoding}; {state}; {services.progress.count} progress bars."]
    return "\n".join(lines) + "\n"
