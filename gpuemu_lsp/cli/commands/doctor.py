"""``gpuemu doctor``: test of every component of a check, with remedies for missing ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from gpuemu_lsp.cli.output import OutputOptions, print_out
from gpuemu_lsp.engine.cache_folder import cache_root
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.pools import open_pool
from gpuemu_lsp.engine.jobs.run_one import run_job
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_USAGE
from gpuemu_lsp.engine.workers.model import Failed, Job, WorkerDied

_GREEN, _RED, _DIM = "\x1b[32m", "\x1b[31m", "\x1b[2m"
_EDITORS = {
    "Visual Studio Code": (("code", "codium"), "install the extension of editors/vscode"),
    "Neovim": (("nvim",), "0.11 or newer; see docs/editors.md"),
    "Emacs": (("emacs",), "29 or newer has eglot; see docs/editors.md"),
    "Helix": (("hx", "helix"), "see docs/editors.md"),
    "Kate": (("kate",), "see docs/editors.md"),
    "Zed": (("zed", "zeditor"), "see docs/editors.md"),
}
_SECONDS = 10.0
_SELF_CHECK_SECONDS = 300.0
_VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?")


def doctor(form: str) -> int:
    """Print the results; return 0 if kernels can be checked, else 2. Optional components do not count."""
    with open_pool(1) as pool:
        gathered = run_job(pool, Job("self_check", wall_seconds=_SELF_CHECK_SECONDS))
    parts = [dict(value) for value in gathered.values]
    if not gathered.done:
        ending = gathered.ending
        why = ending.message if isinstance(ending, Failed) else ending.reason if isinstance(ending, WorkerDied) else "?"
        parts.append(_part("worker process", False, str(why), "please report this"))
    parts += _environment()
    parts += _editors()
    usable = all(part["there"] for part in parts if part["needed"])
    if form == "json":
        print_out(json.dumps({"version": 1, "usable": usable, "parts": parts}, indent=2, ensure_ascii=False) + "\n")
    else:
        print_out("".join(_lines(parts)) + f"\nKernels can{'' if usable else 'not'} be checked.\n")
    return EXIT_CLEAN if usable else EXIT_USAGE


def _environment() -> Iterator[dict[str, Json]]:
    yield _part("Python", sys.version_info >= (3, 11), sys.version.split()[0], "3.11 or newer")
    cache = cache_root()
    there = next(folder for folder in (cache, *cache.parents) if folder.exists())
    remedy = "without it, compilations are repeated; set GPUEMU_CACHE_DIR to another folder"
    yield _part("cache", os.access(there, os.W_OK), str(cache), remedy, needed=False)
    server = shutil.which("gpuemu-lsp")
    remedy = f"editors start it by name: add {Path(sys.executable).parent} to PATH, or configure its path"
    yield _part("gpuemu-lsp", server is not None, server or "not on PATH", remedy, needed=False)
    yield _program("git", ("git",), "reports and baselines name the commit", needed=False)


def _editors() -> Iterator[dict[str, Json]]:
    for name, (commands, hint) in _EDITORS.items():
        yield _program(name, commands, hint, needed=False)


def _program(name: str, commands: tuple[str, ...], remedy: str, needed: bool) -> dict[str, Json]:
    for command in commands:
        path = shutil.which(command)
        if path is None:
            continue
        try:
            done = subprocess.run(
                [path, "--version"],
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return _part(name, False, f"{path}: {error}", remedy, needed)
        version = _VERSION.search(done.stdout)
        return _part(name, True, f"{version[0] if version else 'of unknown version'} ({path})", remedy, needed)
    return _part(name, False, "not found", remedy, needed)


def _part(name: str, there: bool, detail: str, remedy: str, needed: bool = True) -> dict[str, Json]:
    return {"name": name, "there": there, "needed": needed, "detail": detail, "remedy": "" if there else remedy}


def _lines(parts: list[dict[str, Json]]) -> Iterator[str]:
    style = OutputOptions().style()
    width = max(len(str(part["name"])) for part in parts)
    for part in parts:
        word, colour = ("ok", _GREEN) if part["there"] else ("MISSING", _RED) if part["needed"] else ("absent", _DIM)
        yield f"{style.paint(f'{word:<7}', colour)}  {part['name']!s:<{width}}  {part['detail']}\n"
        if part["remedy"]:
            yield f"{'':<7}  {'':<{width}}  -> {part['remedy']}\n"
