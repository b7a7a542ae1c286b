"""The client's folders: what comes and goes with them, and where files lie that count."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.source import include_closure
from gpuemu_lsp.server.session import Session


def load_folders(session: Session) -> None:
    """Show what is wrong with the configurations of the client's folders."""
    for folder in session.folders:
        config = Path(folder) / CONFIG_NAME
        if config.exists():
            session.typed_config(config.as_posix())


def folders_changed(session: Session, added: Sequence[str], removed: Sequence[str]) -> None:
    """Take folders in and let others go, with what was found in files of theirs that are not open."""
    session.folders = [folder for folder in session.folders if folder not in removed] + list(added)
    paths: set[str] = set()
    for path in session.diagnostics.owners():
        gone = any(Path(path).is_relative_to(folder) for folder in removed)
        kept = any(Path(path).is_relative_to(folder) for folder in session.folders) or path in session.documents
        if gone and not kept:
            paths |= session.forget(path)
    session.publisher.publish(paths)
    load_folders(session)


def places(session: Session) -> set[str]:
    """Return the folders whose files count: of configurations, sources, references, headers and open documents."""
    files = {*session.files(), *session.documents}
    for project in session.projects.known():
        files |= {project.config} if project.config is not None else set()
        files |= {spec.reference for spec in project.kernels if spec.reference is not None}
    closures = {(spec.source, spec.include_dirs) for project in session.projects.known() for spec in project.kernels}
    for source, folders in closures:
        files |= set(include_closure(source, folders))
    return {str(Path(file).parent) for file in files} | set(session.folders)
