"""Discovery and loading of gpuemu.toml. Errors in the file are findings of the Project, never exceptions."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tomli

from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.project import files
from gpuemu_lsp.engine.project.check import check_table
from gpuemu_lsp.engine.project.entries import read_kernels, read_ops, tolerances
from gpuemu_lsp.engine.project.keys import ROOT
from gpuemu_lsp.engine.project.model import BuildTable, KernelSpec, Policies, Project, Validation
from gpuemu_lsp.engine.project.reporter import Reporter
from gpuemu_lsp.engine.project.tree import read_tree
from gpuemu_lsp.engine.project.values import ConfigContext
from gpuemu_lsp.engine.regular_file import open_regular
from gpuemu_lsp.engine.rules import make

CONFIG_NAME = "gpuemu.toml"
CONFIG_VARIABLE = "GPUEMU_CONFIG"
MAX_BYTES = 1 << 20
"""Largest file that is parsed; a larger one is not a configuration."""

_TOKEN = re.compile(r"\S*\w\S*")
_LINE = re.compile(r"\S(?:.*\S)?")


def discover(start: Path) -> Path | None:
    """Return the configuration of a file or folder.

    ``GPUEMU_CONFIG`` takes precedence, even if no such file exists (:func:`load` then reports it). Otherwise it is the
    nearest gpuemu.toml in the folder or above it, or None.
    """
    chosen = os.environ.get(CONFIG_VARIABLE)
    if chosen:
        return Path(chosen).absolute()
    folder = start.absolute()
    if not folder.is_dir():
        folder = folder.parent
    for candidate in (folder, *folder.parents):
        config = candidate / CONFIG_NAME
        if os.path.lexists(config):
            return config
    return None


def load(config: Path | None, text: str | None = None, root: Path | None = None) -> Project:
    """Load a configuration. Never raises for its content.

    Parameters
    ----------
    config
        The file, or None for a folder without one.
    text
        Unsaved text of an editor, used instead of the file.
    root
        Folder of the project; default: the configuration's, else the current one. Paths in the file are relative to the
        configuration's folder in any case.
    """
    if config is None:
        return Project((root or Path.cwd()).absolute().as_posix(), None)
    config = Path(files.absolute(Path.cwd(), str(config)))
    empty = Project((root.absolute() if root else config.parent).as_posix(), config.as_posix())
    start = Place(config.as_posix(), Range.of(0, 0, 0, 1))
    if text is None:
        text, failure = _read(config, start)
        if failure is not None:
            return replace(empty, findings=(failure,))
    elif len(text) > MAX_BYTES:
        return replace(empty, findings=(_too_large(start),))
    # Editors do not count a byte order mark as a column; a lone surrogate cannot be encoded.
    text = text.removeprefix("\ufeff").encode(errors="replace").decode()
    try:
        values = tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        return replace(empty, findings=(_syntax(error, text, start.path),))
    except (RecursionError, ValueError) as error:  # too deeply nested; an integer of thousands of digits
        return replace(empty, findings=(make("config/syntax", f"The file cannot be read: {error}.", start),))
    return _build(values, text, config, empty)


def op_not_executed(spec: KernelSpec) -> Finding | None:
    """Return the finding of an op of which gpuemu.toml does not say what to call, None for any other entry."""
    op = spec.op
    if op is None or op.runnable:
        return None
    if op.execution_mode == "script_based":
        why = 'it is script_based and has no `op_script`. Add op_script = "op.py"'
    else:
        example = f"{op.module or 'package.module'}:function"
        why = f'it is {op.execution_mode}, and no client has sent a result. To run it here, add op = "{example}"'
    message = f"'{spec.name}' was not run: {why}."
    return make("engine/not-executed", message, spec.places["name"], kernel=spec.name, data={"reason": why})


def _read(config: Path, start: Place) -> tuple[str, Finding | None]:
    why = files.problem(str(config), want_folder=False)
    if why is not None:
        origin = f" It is the value of {CONFIG_VARIABLE}." if os.environ.get(CONFIG_VARIABLE) else ""
        return "", make("config/missing-file", f"`{config}` {why}.{origin}", start)
    try:
        with open_regular(config) as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        return "", make("config/missing-file", f"`{config}` cannot be read ({error.strerror or error}).", start)
    if len(data) > MAX_BYTES:
        return "", _too_large(start)
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n")
        column = len(before) - (before.rfind(b"\n") + 1)
        place = Place(start.path, Range.of(line, column, line, column + 1))
        message = f"The file is not UTF-8 (byte 0x{data[error.start]:02x}); save it as UTF-8."
        return "", make("config/syntax", message, place)


def _too_large(start: Place) -> Finding:
    return make("config/bad-value", f"The file is larger than {MAX_BYTES >> 20} MiB and was not read.", start)


def _syntax(error: tomli.TOMLDecodeError, text: str, path: str) -> Finding:
    lines = text.split("\n")
    line = min(error.lineno, len(lines)) - 1
    column = min(error.colno - 1, len(lines[line]))
    token = _TOKEN.match(lines[line], column)
    if token is None:
        # The parser stopped after the error: underline the line, or the last one that is not blank.
        while line > 0 and not lines[line].strip():
            line -= 1
        token = _LINE.search(lines[line])
    start, end = token.span() if token else (0, 0)
    before, through = (len(lines[line][:index].encode()) for index in (start, end))
    place = Place(path, Range.of(line, before, line, through))
    return make("config/syntax", f"Invalid TOML: {error.msg[0].lower()}{error.msg[1:]}.", place)


def _build(values: Mapping[str, Any], text: str, config: Path, empty: Project) -> Project:
    reporter = Reporter(config.as_posix(), read_tree(text))
    context = ConfigContext(reporter, config.parent)
    checked = check_table(ROOT, values, (), context)
    validation = _validation(checked.get("validation", {}))
    kernels, broken = read_kernels(checked.get("kernels", []), validation, context)
    ops, broken_ops = read_ops(checked.get("ops", []), kernels, validation, context)
    about = checked.get("project", {})
    return replace(
        empty,
        name=about.get("name", empty.name),
        kernels=(*kernels, *ops),
        validation=validation,
        build=_build_table(checked.get("build", {})),
        policies=Policies(**checked.get("policies", {}), **checked.get("ci", {})),
        executor=checked.get("validation", {}).get("executor", empty.executor),
        findings=reporter.findings(),
        broken=(*broken, *broken_ops),
        version=about.get("version"),
        framework=about.get("framework"),
    )


def _build_table(checked: Mapping[str, Any]) -> BuildTable:
    return BuildTable(
        include_dirs=tuple(folder.path for folder in checked.get("include_dirs", ())),
        compile_options=checked.get("compile_options", ()),
        arch=tuple(dict.fromkeys(checked.get("arch", ()))),
        compile_commands=checked["compile_commands"].path if "compile_commands" in checked else None,
        python=checked["python"].path if "python" in checked else None,
        detect=checked.get("detect", True),
    )


def _validation(checked: Mapping[str, Any]) -> Validation:
    default = Validation()
    return Validation(
        seed=checked.get("seed"),
        check_nan=checked.get("check_nan", default.check_nan),
        check_inf=checked.get("check_inf", default.check_inf),
        strict_fences=checked.get("strict_fences", default.strict_fences),
        dtypes=tuple(dict.fromkeys(checked.get("dtypes", ()))),
        tolerances=tolerances(checked.get("tolerances", {})),
    )
