"""The client's settings (docs/protocol.md): when and how much is checked, never what is correct."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

SECTION = "gpuemu"


@dataclass(frozen=True, slots=True)
class Settings:
    """Values of all settings. ``trusted`` False: no code of the workspace is executed.

    ``debugger``: the client starts sessions of the debug adapter with the configuration that ``gpuemu.debug`` returns.
    ``agent``: the client is a coding agent, which shows nothing but diagnostics; None is decided by its capabilities.
    ``answer_seconds``: longest time until an agent that asks for diagnostics gets an answer, with or without a verdict.
    """

    check_on: str = "save"
    compile_while_typing: bool = True
    cases: int | None = None
    deep_cases: int = 64
    counters: bool = False
    jobs: int | None = None
    inlay_hints: bool = False
    code_lens: bool = True
    symbols: bool = True
    executor: str = "auto"
    log_file: str | None = None
    log_level: str = "warning"
    trusted: bool = True
    debugger: bool = False
    agent: bool | None = None
    answer_seconds: float = 2.5


@dataclass(frozen=True, slots=True)
class _SettingType:
    """Predicate for the values of a setting, and their description for messages."""

    accepts: Callable[[Any], bool]
    description: str


def _one_of(*names: str) -> _SettingType:
    return _SettingType(lambda value: value in names, " or ".join(f'"{name}"' for name in names))


def _count(optional: bool, most: int) -> _SettingType:
    def accepts(value: Any) -> bool:
        if value is None:
            return optional
        return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most

    return _SettingType(accepts, f"a whole number from 1 to {most}" + (" or null" if optional else ""))


def _is_wait(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST_ANSWER_SECONDS


_MOST_ANSWER_SECONDS = 600
_FLAG = _SettingType(lambda value: isinstance(value, bool), "true or false")
_PATH = _SettingType(lambda value: value is None or (isinstance(value, str) and bool(value)), "a path or null")
_TYPES: Mapping[str, _SettingType] = {
    "check_on": _one_of("save", "manual"),
    "compile_while_typing": _FLAG,
    "cases": _count(True, 100_000),
    "deep_cases": _count(False, 100_000),
    "counters": _FLAG,
    "jobs": _count(True, 1024),
    "inlay_hints": _FLAG,
    "code_lens": _FLAG,
    "symbols": _FLAG,
    "executor": _one_of("auto", "emulator", "gpu"),
    "log_file": _PATH,
    "log_level": _one_of("error", "warning", "info", "debug"),
    "trusted": _FLAG,
    "debugger": _FLAG,
    "agent": _SettingType(lambda value: value is None or isinstance(value, bool), "true, false or null"),
    "answer_seconds": _SettingType(_is_wait, f"a number of seconds from 0 to {_MOST_ANSWER_SECONDS}"),
}
_INITIAL_ONLY = ("trusted", "debugger", "agent", "answer_seconds")
"""Read from ``initializationOptions`` only: a workspace's own settings must not be able to make it trusted."""
_KEPT = (*_INITIAL_ONLY, "log_file", "log_level")
"""Settings that a later configuration without them does not change."""


def default_workers() -> int:
    """Return the number of checks that may run at a time, at least 2: typing need not wait for a long check."""
    return max(2, os.cpu_count() or 2)


def camel(name: str) -> str:
    """Return a setting's name as clients write it."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


_NAMES = {camel(item.name): item.name for item in fields(Settings)}


def read(old: Settings, given: Any, initial: bool = False) -> tuple[Settings, list[str]]:
    """Return ``old`` updated with ``given``, and a message for each invalid value.

    Parameters
    ----------
    given
        Plain JSON: the section itself, or an object that has it under ``gpuemu`` or ``settings``.
    initial
        Whether ``given`` comes from ``initialize``. A setting it omits then keeps its value in ``old``; a later
        configuration is complete, and a setting it omits returns to its default.
    """
    section = _section(given)
    if section is None:
        return old, []
    base = old if initial else replace(Settings(), **{name: getattr(old, name) for name in _KEPT})
    values: dict[str, Any] = {}
    problems = []
    for key, value in section.items():
        name = _NAMES.get(key)
        if name is None or (name in _INITIAL_ONLY and not initial):
            continue  # a client's own settings share the section
        if value is None and not _TYPES[name].accepts(None):
            continue  # null requests the default
        if _TYPES[name].accepts(value):
            values[name] = value
        else:
            problems.append(f"{SECTION}.{key} must be {_TYPES[name].description}, not {value!r}.")
    return replace(base, **values), problems


def _section(given: Any) -> dict[str, Any] | None:
    value = given
    for name in (SECTION, "settings", SECTION):
        if isinstance(value, dict) and isinstance(value.get(name), dict):
            outer = {key: item for key, item in value.items() if key in _NAMES}
            value = {**value[name], **outer}
    return value if isinstance(value, dict) else None
