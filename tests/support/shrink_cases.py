"""Cases to shrink, and a predicate that records its arguments."""

from __future__ import annotations

import numpy as np

from gpuemu_lsp.engine.fuzz.model import Case, CaseKey
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.shrink import CaseSpace, ShrinkBudget

LARGE = ShrinkBudget(max_runs=5000, max_seconds=60.0)
N = DimSpec("n", 1, 4096)
MNK = (DimSpec("m", 1, 512), DimSpec("n", 1, 512), DimSpec("k", 1, 512))


def build(dims, *, shape=None, dtype=np.float32, exact=False, draw=None):
    """Make a case with one input ``x`` (all dims by default), an index input and an output."""
    rng = np.random.default_rng(5)
    shape = tuple(dims.values()) if shape is None else shape(dims)
    x = draw(rng, shape) if draw else rng.normal(0, 10, shape)
    if exact:
        x = rng.integers(-4, 5, shape)
    return Case(CaseKey(5, "boundary", dims), "float32", dict(dims), {"x": np.asarray(x, dtype)}, {}, {"y": shape},
                (1, 1, 1), (32, 1, 1), 0, exact=exact)  # fmt: skip


def space(*specs, **how):
    return CaseSpace(tuple(specs), lambda _, dims: build(dims, **how))


class Kernel:
    """A predicate that records its arguments and checks that no passing input is run twice."""

    def __init__(self, fails):
        self.fails, self.asked, self.seen = fails, [], set()

    def __call__(self, case):
        identity = (tuple(case.dims.items()), *((name, t.tobytes()) for name, t in case.tensors.items()))
        assert identity not in self.seen or self.fails(case)
        self.seen.add(identity)
        self.asked.append(case)
        return bool(self.fails(case))
