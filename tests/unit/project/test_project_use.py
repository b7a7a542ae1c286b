"""Every key of gpuemu.toml changes the loaded project, and every field of the project is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import fields, replace
from pathlib import Path

import pytest

import gpuemu_lsp
from gpuemu_lsp.engine.project import load, model
from gpuemu_lsp.engine.project.keys import ROOT
from gpuemu_lsp.engine.project.message_text import toml
from gpuemu_lsp.engine.project.schema import inner_table
from gpuemu_lsp.engine.project.value_kinds import ConfigKey, Table, Tables

PACKAGE = Path(gpuemu_lsp.__file__).parent
RECORDS = (
    *(model.KernelSpec, model.DimSpec, model.PointerSpec, model.ScalarSpec, model.LaunchSpec, model.Tolerance),
    *(model.Invariants, model.ArtifactChecks, model.Validation, model.Policies, model.Project),
)
NEEDED = {
    "kernels": {
        "name": "k",
        "source": "k.cu",
        "args": {"x": {"in": ["n"]}},
        "dims": {"n": {"max": 7}, "rows": {"max": 7}, "cols": {"max": 7}},
    },
    "ops": {"name": "o", "reference": "r.py", "dims": {"n": {"max": 7}, "rows": {"max": 7}, "cols": {"max": 7}}},
}
OTHER = {"executor": "emulator", "execution_mode": "script_based", "check_nan": False, "check_inf": False,
         "fail_on_regression": False, "warn_threshold": 0.25, "parallel_jobs": 9, "thorough_timeout": 77, "arch": ["sm_90"],
         "max_registers": 33, "max_spills": 8, "max_local_memory": 16, "reference": "other.py", "name": "another",
         "source": "other.cu", "min": 2, "max": 6, "multiple_of": 2, "include": [5], "dtype": "float32", "value": 3,
         "may_alias": "y", "entry": "k<{T}>", "op_script": "other.py", "run": "other.py:main", "op_schema": "other.py", "include_dirs": ["scripts"], "like": "base",
         "compile_commands": "other.py", "python": "other.py", "detect": False}  # fmt: skip
"""Values that are not the default."""


def leaves(table: Table, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], ConfigKey]]:
    free = (table.free,) if table.free is not None else ()
    for key in (*table.keys, *free):
        inner = key.kind.table if isinstance(key.kind, Tables) else key.kind if isinstance(key.kind, Table) else None
        if inner is None:
            inner = inner_table(key.kind)
            yield (*path, key.name), key
        if inner is not None:
            yield from leaves(inner, (*path, key.name))


PATHS = {".".join(path): key for path, key in leaves(ROOT)}


def attributes_read() -> set[str]:
    """Return the attributes that modules outside of the project package read."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        if "engine/project" not in path.as_posix():
            tree = ast.parse(path.read_text())
            found |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return found


def test_what_is_loaded_is_used():
    used = attributes_read()
    unused = {f"{record.__name__}.{one.name}" for record in RECORDS for one in fields(record) if one.name not in used}
    assert not unused


def written(path: list[str], value: object) -> str:
    """Return a small gpuemu.toml that sets one key."""
    config = {path[0]: deepcopy(NEEDED.get(path[0], {}))}
    if path[1:2] == ["args"]:
        args = config[path[0]].setdefault("args", {"x": {"in": ["n"]}})
        if len(path) == 4 and path[3] in ("in", "out", "inout", "value"):
            args["x"] = {}
        if path[-1] == "compare":
            args["x"] = {"out": ["n"]}
        if path[-1] == "may_alias":
            args["y"] = {"out": ["n"]}
    table = config
    for name in path[:-1]:
        table = table.setdefault(name, {})
    table[path[-1]] = value
    base = document("kernels", {"name": "base", "source": "k.cu"}) if path[-1] == "like" else ""
    return base + document(path[0], config[path[0]])


def document(name: str, table: object) -> str:
    if not isinstance(table, dict):
        return f"{name} = {toml(table)}\n"
    lines = [
        f"[[{name}]]" if name in NEEDED else f"[{name}]",
        *(f"{key} = {toml(item)}" for key, item in table.items()),
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("name", sorted(PATHS))
def test_every_key_changes_what_is_loaded(name, tmp_path):
    for file in ("k.cu", "r.py", "other.cu", "other.py", "scripts/op.cu"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("")
    key, path = PATHS[name], name.split(".")
    config = tmp_path / "gpuemu.toml"
    config.write_text(written(path, OTHER.get(key.name, key.example)))
    loaded = load(config)
    assert not loaded.findings, (config.read_text(), loaded.findings)
    config.write_text(document(path[0], NEEDED.get(path[0], {})) if path[0] in NEEDED else "")
    assert plain(loaded) != plain(load(config)), name


def plain(project: model.Project) -> str:
    """Return a project as text without places, which depend on the position of a key."""
    kernels = tuple(replace(spec, places={}) for spec in project.kernels)
    return repr(replace(project, kernels=kernels))
