"""pytest plugin: ``pytest --gpuemu-triton`` runs a suite's Triton launches in the emulator, under its checkers.

An error that a checker finds in a launch fails the test that made it. Triton and PyTorch are imported only with the
option.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gpuemu.triton import Session

_SESSION: pytest.StashKey[Session] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("gpuemu")
    group.addoption("--gpuemu-triton", action="store_true", help="run Triton launches in the emulator, without a GPU")
    group.addoption(
        "--gpuemu-triton-seconds", type=float, metavar="SECONDS", help="limit of each launch; 60 unless given"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Start the session before any file of the suite is imported: some ask for the device at import."""
    options = early_config.known_args_namespace
    if not options.gpuemu_triton:
        return
    try:
        from gpuemu import triton
    except ImportError as error:
        raise pytest.UsageError(f"--gpuemu-triton needs Triton: {error}; pip install 'gpuemu-lsp[triton]'") from None
    early_config.stash[_SESSION] = triton.activate(
        options.gpuemu_arch or triton.DEFAULT_ARCH, seconds=options.gpuemu_triton_seconds or triton.DEFAULT_SECONDS
    )


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the session."""
    if _SESSION in config.stash:
        from gpuemu import triton

        triton.deactivate()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report how many launches ran and what was found."""
    session = config.stash.get(_SESSION, None)
    if session is None:
        return
    terminalreporter.section("gpuemu: Triton launches")
    ran = sum(record.status == "completed" for record in session.launches)
    terminalreporter.write_line(f"{len(session.launches)} launches, {ran} completed")
    for finding in session.findings:
        start = finding.place.range.start
        terminalreporter.write_line(f"{finding.place.path}:{start.line + 1}: {finding.message} [{finding.rule}]")
