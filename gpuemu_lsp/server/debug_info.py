"""What a bug report needs: versions, paths, workers, settings, and the state of every open file, as Markdown."""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict

from gpuemu_lsp import __version__
from gpuemu_lsp.engine.workers.system import resident_bytes
from gpuemu_lsp.server.checks.queue import Checker
from gpuemu_lsp.server.client.progress import ProgressBars
from gpuemu_lsp.server.client.status import Status
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.workspace.settings import camel


def debug_info(session: Session, checker: Checker, status: Status, bars: ProgressBars, handled: int) -> str:
    """Return the text; ``handled`` is how many messages are being handled."""
    lines = [f"# gpuemu-lsp {__version__}", "", f"- Python {platform.python_version()}: `{sys.executable}`"]
    lines += [f"- process {os.getpid()} on {platform.platform()}"]
    lines += [f"- {name}: {version}" for name, version in status.versions.items() if name != "gpuemu-lsp"]
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
        f"{len(session.readings)} readings",
        f"{len(session.verdicts)} verdicts",
        f"{len(session.diagnostics)} lists of findings",
        f"{session.publisher.kept} publications",
        f"{handled} messages in hand",
    )
    lines += ["", f"Kept: {', '.join(kept)}; {resident_bytes() >> 20} MB in memory."]
    state = "busy" if checker.scheduler.busy else "idle"
    lines += ["", f"Positions are {session.publisher.encoding}; {state}; {bars.count} progress bars."]
    return "\n".join(lines) + "\n"
