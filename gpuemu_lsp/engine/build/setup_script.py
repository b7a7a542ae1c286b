"""CUDA extensions of ``setup.py`` and ``pyproject.toml``, read as text.

The script is not run. Its syntax tree is walked once, in order: assignments of strings, lists and dicts that are built
from constants, ``__file__`` and ``os.path`` are evaluated, and everything else is unknown. An unknown element of a list
is left out. Both branches of an ``if`` with an unknown condition are walked, since extensions are often defined under
conditions on the command line.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli

from gpuemu_lsp.engine.build.command_line import settings_of
from gpuemu_lsp.engine.build.constant_values import UNKNOWN, ConstantScope
from gpuemu_lsp.engine.build.files import file_text
from gpuemu_lsp.engine.build.model import Origin, Setting, SettingKind, include_dirs

SCRIPT = "setup.py"
PYPROJECT = "pyproject.toml"
_EXTENSION = "Extension"
_TORCH_MACROS = (
    # torch.utils.cpp_extension.COMMON_NVCC_FLAGS: the names of PyTorch's own half types are used instead.
    "-D__CUDA_NO_HALF_OPERATORS__",
    "-D__CUDA_NO_HALF_CONVERSIONS__",
    "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "-D__CUDA_NO_HALF2_OPERATORS__",
)


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension module: its name, sources (as far as known, absolute) and settings."""

    name: str
    sources: frozenset[str]
    settings: tuple[Setting, ...]


def extensions(folder: str) -> tuple[Extension, ...]:
    """Return the CUDA extensions of a folder's ``setup.py`` and ``pyproject.toml``."""
    return (*_of_script(f"{folder}/{SCRIPT}", folder), *_of_pyproject(f"{folder}/{PYPROJECT}", folder))


def _of_script(path: str, folder: str) -> Iterator[Extension]:
    text = file_text(path)
    if text is None or _EXTENSION not in text:
        return
    try:
        calls = ConstantScope(path).run(ast.parse(text).body)
    except (SyntaxError, ValueError, RecursionError):
        return
    for call, arguments in calls:
        yield _extension(call, arguments, path, folder, torch="CUDAExtension" in text)


def _extension(call: ast.Call, arguments: dict[str, Any], path: str, folder: str, torch: bool) -> Extension:
    name = arguments.get("name")
    name = name if isinstance(name, str) else ""
    what = f"{ast.unparse(call.func).rpartition('.')[2]} {name}".strip()
    origin = Origin(path, call.lineno - 1, what)
    options = arguments.get("extra_compile_args")
    if isinstance(options, dict):
        options = options.get("nvcc")
    macros = [_macro(item) for item in _items(arguments.get("define_macros"))]
    undefined = [f"-U{item}" for item in _strings(arguments.get("undef_macros"))]
    words = [
        *(_TORCH_MACROS if torch else ()),
        *(item for item in macros if item is not None),
        *undefined,
        *_strings(options),
    ]
    folders = (os.path.join(folder, item) for item in _strings(arguments.get("include_dirs")))  # noqa: PTH118
    settings = (
        *include_dirs((os.path.normpath(item) for item in folders), origin),
        *_net_macros(settings_of(words, folder, origin)),
    )
    sources = frozenset(
        Path(os.path.normpath(Path(folder) / item)).as_posix() for item in _strings(arguments.get("sources"))
    )
    return Extension(name, sources, settings)


def _net_macros(settings: Sequence[Setting]) -> Iterator[Setting]:
    """Yield settings without definitions that a later ``-U`` removes, since NVRTC applies ``-U`` first."""
    removed: set[str] = set()
    kept: list[Setting] = []
    for setting in reversed(settings):
        if setting.kind is SettingKind.DEFINE:
            name = setting.value[2:].partition("=")[0]
            if setting.value.startswith("-U"):
                removed.add(name)
                continue
            if name in removed:
                continue
        kept.append(setting)
    yield from reversed(kept)


def _macro(item: Any) -> str | None:
    match item:
        case [str(name), None] | [str(name)]:
            return f"-D{name}"
        case [str(name), str() | int() as value]:
            return f"-D{name}={value}"
        case _:
            return None


def _items(value: Any) -> list[Any]:
    return [item for item in value if item is not UNKNOWN] if isinstance(value, list) else []


def _strings(value: Any) -> list[str]:
    return [item for item in _items(value) if isinstance(item, str)]


def _of_pyproject(path: str, folder: str) -> Iterator[Extension]:
    """Yield the extensions of setuptools' table ``[[tool.setuptools.ext-modules]]``."""
    text = file_text(path)
    if text is None or "ext-modules" not in text:
        return
    try:
        modules = tomli.loads(text).get("tool", {}).get("setuptools", {}).get("ext-modules", [])
    except (tomli.TOMLDecodeError, AttributeError):
        return
    for module in modules if isinstance(modules, list) else ():
        if not isinstance(module, dict):
            continue
        origin = Origin(path, what=f"ext-modules {module.get('name', '')}".strip())
        macros = [item for item in (_macro(macro) for macro in _items(module.get("define-macros"))) if item]
        words = [*macros, *_strings(module.get("extra-compile-args"))]
        folders = [Path(folder) / item for item in _strings(module.get("include-dirs"))]
        sources = frozenset((Path(folder) / item).as_posix() for item in _strings(module.get("sources")))
        settings = (*include_dirs(folders, origin), *_net_macros(settings_of(words, folder, origin)))
        yield Extension(str(module.get("name", "")), sources, settings)
