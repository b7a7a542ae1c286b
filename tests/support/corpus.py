"""The kernels of ``kernels/``: the five projects as one list, and copies of a few kernels as a project of their own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tomli

from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.project.inheritance import complete
from gpuemu_lsp.engine.project.message_text import toml
from gpuemu_lsp.engine.project.model import KernelSpec, Project
from gpuemu_lsp.engine.project.tree import read_tree

CORPUS = Path(__file__).resolve().parents[2] / "kernels"
FOLDERS = ("ops", "memory", "index", "sync", "correct")
TRITON_FOLDERS = ("triton/ops", "triton/bugs", "triton/correct")


def corpus_projects() -> tuple[Project, ...]:
    """Return the configurations of the corpus."""
    return tuple(load(CORPUS / folder / "gpuemu.toml") for folder in FOLDERS)


def triton_projects() -> tuple[Project, ...]:
    """Return the configurations of the Triton kernels, which need an environment with Triton to run."""
    return tuple(load(CORPUS / folder / "gpuemu.toml") for folder in TRITON_FOLDERS)


def corpus_kernels(names: Iterable[str] = ()) -> list[KernelSpec]:
    """Return the kernels of these names, all without names, in the order of the configurations."""
    chosen = set(names)
    return [spec for project in corpus_projects() for spec in project.kernels if not chosen or spec.name in chosen]


def corpus_entries() -> dict[str, dict[str, Any]]:
    """Return every ``[[kernels]]`` entry, complete and with paths relative to ``kernels/``, by its name."""
    entries = {}
    for folder in FOLDERS:
        text = (CORPUS / folder / "gpuemu.toml").read_text()
        for entry in complete(tomli.loads(text)["kernels"], read_tree(text)).entries:
            paths = {key: os.path.normpath(f"{folder}/{entry[key]}") for key in ("source", "reference") if key in entry}
            whole = {"name": entry["name"], **entry, **paths}
            entries[entry["name"]] = {key: value for key, value in whole.items() if key != "like"}
    return entries


def copy_kernels(names: Iterable[str], root: Path, head: str = "") -> None:
    """Make a project in ``root`` of these kernels, with their sources and references at the same paths as here."""
    entries = corpus_entries()
    chosen = [entries[name] for name in names]
    for entry in chosen:
        for path in (entry["source"], entry["reference"].partition(":")[0]):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CORPUS / path, root / path)
    (root / "gpuemu.toml").write_text(head + "\n".join(entry_text(entry) for entry in chosen))


def entry_text(entry: dict[str, Any]) -> str:
    """Return an entry as gpuemu.toml has it."""
    lines = ["[[kernels]]", *(f"{key} = {toml(value)}" for key, value in entry.items() if not isinstance(value, dict))]
    for name, table in entry.items():
        if isinstance(table, dict):
            lines += [f"[kernels.{name}]", *(f"{key} = {toml(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"
