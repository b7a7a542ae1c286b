"""Garbage collections of a worker: what a large package creates takes no part in them."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest

from gpuemu_lsp.engine.subjects.user_module import large_packages_excluded


@pytest.mark.parametrize(("modules", "excluded"), [(1, False), (60, True)])
def test_objects_of_a_large_import_are_excluded(modules, excluded, monkeypatch):
    gc.unfreeze()
    try:
        with large_packages_excluded():
            assert not gc.isenabled()
            for number in range(modules):
                monkeypatch.setitem(sys.modules, f"large.package{number}", ModuleType(f"package{number}"))
        assert gc.isenabled()
        assert (gc.get_freeze_count() > 0) == excluded
    finally:
        gc.unfreeze()
