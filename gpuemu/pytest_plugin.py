"""pytest plugin: launches of a suite's kernels in Python run in the emulator, under its checkers.

``pytest --gpuemu-triton`` is for Triton, ``pytest --gpuemu-numba`` for numba-cuda. An error that a checker finds in a
launch fails the test that made it. A framework is imported only with its option.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gpuemu import numba, triton

_FRAMEWORKS = {"triton": "Triton", "numba": "numba-cuda"}
"""Names of frameworks by that of the subpackage, the extra and the option."""
_SESSIONS: pytest.StashKey[dict[str, triton.Session | numba.Session]] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("gpuemu")
    for name, title in _FRAMEWORKS.items():
        group.addoption(
            f"--gpuemu-{name}", action="store_true", help=f"run {title} launches in the emulator, without a GPU"
        )
        group.addoption(
            f"--gpuemu-{name}-seconds", type=float, metavar="SECONDS", help="limit of each launch; 60 unless given"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start the sessions before any file of the suite is imported: some ask for the device at import."""
    options = early_config.known_args_namespace
    sessions = early_config.stash.setdefault(_SESSIONS, {})
    for name, title in _FRAMEWORKS.items():
        if not getattr(options, f"gpuemu_{name}"):
            continue
        try:
            framework = _framework(name)
        except ImportError as error:
            raise pytest.UsageError(
                f"--gpuemu-{name} needs {title}: {error}; pip install 'gpuemu-lsp[{name}]'"
            ) from None
        seconds = getattr(options, f"gpuemu_{name}_seconds") or framework.DEFAULT_SECONDS
        sessions[name] = framework.activate(options.gpuemu_arch or framework.DEFAULT_ARCH, seconds=seconds)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the sessions."""
    for name in config.stash.get(_SESSIONS, {}):
        _framework(name).deactivate()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report how many launches ran and what was found."""
    for name, session in config.stash.get(_SESSIONS, {}).items():
        terminalreporter.section(f"gpuemu: {_FRAMEWORKS[name]} launches")
        ran = sum(record.status == "completed" for record in session.launches)
        terminalreporter.write_line(f"{len(session.launches)} launches, {ran} completed")
        for finding in session.findings:
            start = finding.place.range.start
            terminalreporter.write_line(f"{finding.place.path}:{start.line + 1}: {finding.message} [{finding.rule}]")


def _framework(name: str) -> Any:
    return import_module(f"gpuemu.{name}")
