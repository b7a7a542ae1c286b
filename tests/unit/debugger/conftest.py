"""Sessions about failing cases of the corpus, in this process."""

from __future__ import annotations

from functools import cache

import pytest
from support.corpus import copy_kernels
from support.debug_sessions import SessionClient, recorded

from gpuemu_lsp.engine.check.why import AskedCase


@pytest.fixture(scope="session")
def explained(tmp_path_factory):
    @cache
    def explain(kernel: str) -> tuple[AskedCase, str]:
        root = tmp_path_factory.mktemp(kernel)
        copy_kernels([kernel], root)
        return recorded(root)

    return explain


@pytest.fixture
def client(explained):
    return lambda kernel: SessionClient(*explained(kernel))


@pytest.fixture
def project_client():
    return lambda root: SessionClient(*recorded(root))
