"""A launch that ``gpuemu run --record`` has recorded, as a case of its kernel, to be run as a stored one is."""

from __future__ import annotations

from dataclasses import replace

from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.fuzz.model import CaseKey
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.recordings.cases import SAME, strategy
from gpuemu_lsp.engine.store import Failure
from gpuemu_lsp.engine.subjects.request import CheckRequest

_ANY_SEED = 1
"""The values are those recorded: none is drawn."""


class NoLaunchError(ValueError):
    """A launch that is not recorded, or of which there is no case; the message is for the user."""


def launched_case(request: CheckRequest, digest: str) -> tuple[CheckRequest, Failure]:
    """Return a recorded launch as a failure of no rule, and the request that it is a case of.

    Launches of a registered kernel are cases of the kernel as it is without its entry.

    Raises
    ------
    NoLaunchError
        If no recording has the launch, or it no longer fits the kernel.
    """
    if request.registered:
        request = replace(request, spec=_unregistered(request.spec), registered=False)
    name, prepared = request.spec.name, prepare(request)
    for plan in prepared.plans:
        launch = plan.recorded.case(digest) if plan.recorded is not None else None
        if launch is not None:
            dims = dict(launch.dims)
            return request, Failure(name, plan.dtype, "", "", CaseKey(_ANY_SEED, strategy(digest, SAME), dims), dims)
    problem = next((one.message for one in prepared.findings if prepared.artifact is None), "")
    raise NoLaunchError(problem or f"no recording has a launch '{digest}' of '{name}' that fits the kernel")


def _unregistered(spec: KernelSpec) -> KernelSpec:
    """Return what an entry says about how a kernel is found and compiled."""
    return KernelSpec(
        spec.name,
        spec.source,
        None,
        entry=spec.entry,
        arch=spec.arch,
        compile_options=spec.compile_options,
        include_dirs=spec.include_dirs,
        places=spec.places,
        language=spec.language,
        string=spec.string,
        variable=spec.variable,
    )
