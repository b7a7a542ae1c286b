"""What the tests of structure leave to the review."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_MODULES_PER_FOLDER = 20


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    files = (path for package in ("gpuemu_lsp", "gpuemu") for path in (_ROOT / package).rglob("*.py"))
    for folder, count in sorted(Counter(path.parent for path in files).items()):
        if count > _MODULES_PER_FOLDER:
            name = folder.relative_to(_ROOT).as_posix()
            terminalreporter.write_line(f"For the review: {name} holds {count} modules. Are they one subject?")
