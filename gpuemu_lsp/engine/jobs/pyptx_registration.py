"""Generated registration of a pyptx kernel, from the sizes that its file uses it with."""

from __future__ import annotations

from collections.abc import Callable

from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.project.message_text import toml
from gpuemu_lsp.engine.subjects.request import CheckRequest


def pyptx_registration(
    request: CheckRequest, source: str, reference: str, skeleton: Callable[[Plan], str]
) -> dict[str, str]:
    """Return ``{entry, reference}``, TOML to append and a Python source; or ``{trouble}`` with the reason.

    ``source`` and ``reference`` are the paths for the entry; ``skeleton`` writes the reference of a plan.
    """
    prepared = prepare(request)
    if not prepared.plans:
        return {"trouble": prepared.findings[0].message if prepared.findings else "its tensors are not known"}
    spec, plan = request.spec, prepared.plans[0]
    lines = ["[[kernels]]", f"name = {toml(spec.name)}", f"source = {toml(source)}"]
    lines += [f"reference = {toml(reference)}", f"entry = {toml(spec.entry or spec.name)}", 'language = "pyptx"']
    if plan.dims:
        lines += ["", "[kernels.dims]", *(f"{dim.name} = [{dim.minimum}]" for dim in plan.dims)]
    return {"entry": "\n".join(lines) + "\n", "reference": skeleton(plan)}
