"""pytest plugin: launches of a suite's kernels in Python run in the emulator, under its checkers.

``pytest --gpuemu-triton`` is for Triton, ``pytest --gpuemu-numba`` for numba-cuda. An error that a checker finds in a
launch fails the test that made it. A framework is imported only with its option.
"""

from __future__ import annotations

from collections.abc import Generator
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
    group.addoption(
        "--gpuemu-triton-configs",
        choices=("once", "all", "first"),
        default="once",
        help="configurations that a Triton autotuner runs for each new key: those that have not run yet (the default), "
        "all, or only the first",
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
        more = {"configurations": options.gpuemu_triton_configs} if name == "triton" else {}
        sessions[name] = framework.activate(options.gpuemu_arch or framework.DEFAULT_ARCH, seconds=seconds, **more)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Fail a test that handles the exception of a launch with an error."""
    sessions = item.config.stash.get(_SESSIONS, {}).values()
    before = [len(session.launches) for session in sessions]
    result = yield
    if sessions:
        launches = import_module("gpuemu.launches")
        for session, first in zip(sessions, before, strict=True):
            launches.raise_errors(session.launches[first:])
    return result


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the sessions."""
    for name in config.stash.get(_SESSIONS, {}):
        _framework(name).deactivate()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report how many launches ran and what was found."""
    for name, session in config.stash.get(_SESSIONS, {}).items():
        terminalreporter.section(f"gpuemu: {_FRAMEWORKS[name]} launches")
        ran = sum(record.status == "completed" for record in session.launches)
        kernels = len({record.kernel for record in session.launches})
        variants = len({record.artifact.ptx for record in session.launches})
        seconds = sum(record.translate_ms + record.execute_ms for record in session.launches) / 1e3
        terminalreporter.write_line(
            f"{len(session.launches)} launches of {kernels} kernels in {variants} specialisations, {ran} completed, "
            f"{seconds:.1f} s in the emulator"
        )
        if not session.launches:
            terminalreporter.write_line(f"no test launched a {_FRAMEWORKS[name]} kernel: nothing was checked")
        for finding in session.findings:
            start = finding.place.range.start
            terminalreporter.write_line(f"{finding.place.path}:{start.line + 1}: {finding.message} [{finding.rule}]")


def _framework(name: str) -> Any:
    return import_module(f"gpuemu.{name}")
