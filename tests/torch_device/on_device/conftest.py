"""These tests run on the device: `gpuemu run -m pytest tests/torch_device/on_device`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "GPUEMU_RUNTIME" not in os.environ:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="runs under gpuemu run, by test_torch_device.py"))
