"""Stored failing cases, as far as the configuration of today still allows them.

A case that the user has ruled out since (narrower dims, another range of values) must not be run again: what it shows
would be a false alarm.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from gpuemu_lsp.engine.fuzz import rebuild
from gpuemu_lsp.engine.fuzz.model import Case, LaunchHints, PlanError
from gpuemu_lsp.engine.fuzz.size_classes import allows
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.store import Failure, restored


def reopened(plan: Plan, failure: Failure, hints: LaunchHints) -> Case | None:
    """Return the case a failure was found with, or None when it is none of this plan's cases any more."""
    if not _allowed(plan.dims, failure.dims):
        return None
    if failure.tensors and failure.source_hash != plan_digest(plan):
        return None  # the values it keeps may be outside of what the arguments say now
    try:
        return restored(failure, rebuild(plan, failure.key, hints))
    except PlanError:
        return None


def plan_digest(plan: Plan) -> str:
    """Return an identity of what decides the values of a case: arguments and sizes, not the code."""
    return hashlib.blake2b(repr((plan.args, plan.dims)).encode(), digest_size=8).hexdigest()


def _allowed(specs: tuple[DimSpec, ...], dims: Mapping[str, int]) -> bool:
    return {spec.name for spec in specs} == dims.keys() and all(allows(spec, dims[spec.name]) for spec in specs)
