"""``gpuemu status``: installed versions, the current project, and its store."""

from __future__ import annotations

from pathlib import Path

from gpuemu_lsp.cli.output import print_out
from gpuemu_lsp.cli.report_context import project_title
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.jobs.run_one import run_job
from gpuemu_lsp.engine.project import discover, load
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_USAGE
from gpuemu_lsp.engine.store import Store, StoreError
from gpuemu_lsp.engine.workers.model import Failed, Job, WorkerDied

_MANY = 1000


def status() -> int:
    """Print the status; return 0 if kernels can be checked, else 2."""
    rows: dict[str, str] = {}
    with open_pool(1) as pool:
        gathered = run_job(pool, Job("describe"))
    for value in gathered.values:
        rows |= {name: str(version) for name, version in value.items()}
    ending = gathered.ending
    if isinstance(ending, Failed):
        rows["Workers"] = f"not usable: {ending.kind}: {ending.message}"
    elif isinstance(ending, WorkerDied):
        rows["Workers"] = f"not usable: {ending.reason}"
    rows["Executor"] = "emulator"
    rows |= _project()
    width = max(map(len, rows))
    print_out("".join(f"{name:<{width}}  {value}\n" for name, value in rows.items()))
    usable = gathered.done and not any(value.startswith("not usable") for value in rows.values())
    return EXIT_CLEAN if usable else EXIT_USAGE


def _project() -> dict[str, str]:
    config = discover(Path.cwd())
    if config is None:
        return {"Project": "none: no gpuemu.toml in this folder or above"}
    project = load(config)
    count = len(project.kernels)
    text = f"{project_title(project)}: {config}, {count} kernel{'' if count == 1 else 's'}"
    if project.broken:
        text += f", {len(project.broken)} with errors"
    return {"Project": text, "Store": _store(config.parent)}


def _store(root: Path) -> str:
    try:
        with Store(root) as store:
            count = len(store.failures(_MANY))
    except StoreError as error:
        return f"not usable: {error}"
    return f"{root / '.gpuemu' / 'store.db'}, {count} failing case{'' if count == 1 else 's'}"
