"""The tests of JAX and TensorFlow need these, which have an environment of their own: `make test-frameworks`."""

from __future__ import annotations

import importlib.util
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

_MODULES = {"test_jax": "jax", "test_tensorflow": "tensorflow"}


def pytest_ignore_collect(collection_path):
    needed = next((module for name, module in _MODULES.items() if collection_path.name.startswith(name)), None)
    if needed is None or importlib.util.find_spec(needed) is not None:
        return None
    if needed in os.environ.get("GPUEMU_REQUIRE_FRAMEWORKS", "").split(","):
        raise ModuleNotFoundError(needed)
    return True
