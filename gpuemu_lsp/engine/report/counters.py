"""Performance counters of a kernel as JSON and as a line of text."""

from __future__ import annotations

from gpuemu_lsp.engine.check.model import KernelCounters, LineCounters, LineTraffic
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.report.model import relative

_UNITS = {"global": "sectors", "shared": "passes"}
_STEPS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def counters_record(counters: KernelCounters, root: str) -> Json:
    """Return the counters of one case as JSON."""
    intensity = counters.intensity
    return {
        "case": counters.case,
        "dims": dict(counters.dims),
        "instructions": counters.instructions,
        "lanes": counters.lanes,
        "operations": counters.operations,
        "bytes": counters.bytes,
        "touched_bytes": counters.touched,
        "intensity": None if intensity is None else round(intensity, 6),
        "lines": [_line(line, root) for line in counters.lines],
    }


def counters_text(counters: KernelCounters) -> str:
    """Return the counters of one case as a line of text."""
    parts = [f"{_short(counters.operations)}flop", f"{_short(counters.bytes)}B moved"]
    if counters.intensity is not None:
        parts.append(f"{counters.intensity:.2f} flop/B")
    if counters.instructions:
        parts.append(f"{counters.lanes / counters.instructions:.1f} of 32 lanes active")
    sizes = [f"{name} = {size}" for name, size in counters.dims.items()]
    return ", ".join(parts) + (f" ({', '.join(sizes)})" if sizes else "")


def traffic_text(traffic: LineTraffic) -> str:
    """Return the cost of the memory requests of a line as text."""
    units, least = traffic.units / traffic.requests, traffic.least / traffic.requests
    name = "sectors" if traffic.space == "global" else "bank passes"
    return f"{traffic.space} {traffic.kind}: {units:.1f} {name} per request, at least {least:.1f}"


def _line(line: LineCounters, root: str) -> dict[str, Json]:
    traffic: list[Json] = [
        {
            "space": one.space,
            "kind": one.kind,
            "requests": one.requests,
            "bytes": one.bytes,
            _UNITS[one.space]: one.units,
            "least": one.least,
        }
        for one in line.traffic
    ]
    return {
        "path": relative(line.path, root),
        "line": line.line,
        "instructions": line.instructions,
        "lanes": line.lanes,
        "traffic": traffic,
    }


def _short(number: float) -> str:
    """Return a number with an SI prefix."""
    for step, prefix in _STEPS:
        if number >= step:
            return f"{number / step:.3g} {prefix}"
    return f"{number:.0f} "
