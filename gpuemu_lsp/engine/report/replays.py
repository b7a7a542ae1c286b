"""Replayed and minimised cases, as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping

from gpuemu_lsp.engine.check.model import MinimisedFailure, Replay
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.report.charts import error_map_text
from gpuemu_lsp.engine.report.json_format import finding_record
from gpuemu_lsp.engine.report.text import TextStyle, render_finding


def render_replay(replay: Replay, root: str, style: TextStyle) -> str:
    """Render a replay: its verdict, the stored finding and the current findings."""
    head = f"{replay.kernel} ({replay.dtype}), case {replay.case}{_sizes(replay.dims, ': ')}"
    lines = [head, f"  {style.verdict(replay.verdict)}"]
    if replay.verdict != "still fails":
        lines.append(f"  Stored finding: {replay.rule}: {replay.message}")
    blocks = _blocks(replay, root, style)
    if replay.verdict == "still fails":
        blocks.append(f"  Why: gpuemu why {replay.case} -k {replay.kernel}\n")
    return "\n".join(["\n".join(lines) + "\n", *blocks])


def _blocks(replay: Replay, root: str, style: TextStyle) -> list[str]:
    """Render every finding with its map of wrong elements."""
    return [render_finding(finding, root, style) + error_map_text(finding) for finding in replay.findings]


def render_smaller(smaller: MinimisedFailure, root: str, style: TextStyle) -> str:
    """Render a minimised case: sizes before and after, its inputs and findings."""
    replay = smaller.replay
    if replay.verdict != "still fails":
        return render_replay(replay, root, style)
    effort = f"{smaller.runs} launches, {smaller.seconds:.1f} s" + ("" if smaller.complete else ", budget exhausted")
    if smaller.case is None:
        lines = [f"{replay.kernel} ({replay.dtype}): no case smaller than {smaller.original} fails ({effort})"]
    else:
        lines = [f"{replay.kernel} ({replay.dtype}): case {smaller.original} -> {smaller.case} ({effort})"]
    if replay.dims:
        lines.append(f"  sizes:  {_sizes(smaller.original_dims)} -> {_sizes(replay.dims)}")
    for item in replay.inputs:
        shape = ", ".join(map(str, item.shape))
        values = f"{item.nonzero} nonzero" if item.text else "all 0"
        lines.append(f"  {item.name}: {item.dtype} [{shape}], {values}")
        lines += (f"    {line}" for line in item.text.split("\n") if line)
    blocks = _blocks(replay, root, style)
    if smaller.case is not None:
        blocks.append(f"  Reproduce: gpuemu reproduce {smaller.case}\n")
    return "\n".join(["\n".join(lines) + "\n", *blocks])


def replay_record(replay: Replay, root: str) -> dict[str, Json]:
    """Return a replay as JSON."""
    return {
        "kernel": replay.kernel,
        "dtype": replay.dtype,
        "case": replay.case,
        "verdict": replay.verdict,
        "stored": {"rule": replay.rule, "message": replay.message},
        "dims": dict(replay.dims),
        "inputs_digest": replay.digest,
        "findings": [finding_record(finding, root) for finding in replay.findings],
        "inputs": [
            {"name": item.name, "dtype": item.dtype, "shape": list(item.shape), "nonzero": item.nonzero}
            for item in replay.inputs
        ],
    }


def smaller_record(smaller: MinimisedFailure, root: str) -> dict[str, Json]:
    """Return a minimised case as JSON; ``minimized`` is null if no smaller case fails."""
    return {
        "original": smaller.original,
        "original_dims": dict(smaller.original_dims),
        "minimized": smaller.case,
        "runs": smaller.runs,
        "seconds": round(smaller.seconds, 3),
        "complete": smaller.complete,
        **replay_record(smaller.replay, root),
    }


def _sizes(dims: Mapping[str, int], before: str = "") -> str:
    return before + ", ".join(f"{name} = {size}" for name, size in dims.items()) if dims else ""
