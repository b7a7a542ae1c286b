"""Results that are cut: every list has a limit, and what is beyond it can be asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.report.json_format import without_nonfinite
from gpuemu_lsp.mcp.schemas import Schema, array, integer, record, text

REST: Schema = array(
    record(
        {
            "of": text("the list that was cut, as a path in the result"),
            "cursor": text("what the tool more takes"),
            "items": integer("how many were left out", minimum=1),
        }
    ),
    "what was left out of this result",
)
_MOST_ITEMS: Mapping[str, int] = {"findings": 10, "items": 10, "steps": 20, "lines": 100}
"""Items of a list, by its name."""
_MOST_OTHERS = 40


def cut(result: Mapping[str, Json], keep: Callable[[list[Json]], str]) -> dict[str, Json]:
    """Return a result whose lists have their limits, with ``rest``; ``keep`` returns the cursor of what is left out.

    NaN and infinities, which JSON lacks, become strings.
    """
    rest: list[Json] = []

    def shortened(value: Json, path: str) -> Json:
        if isinstance(value, dict):
            return {name: shortened(item, f"{path}.{name}" if path else name) for name, item in value.items()}
        if not isinstance(value, list):
            return without_nonfinite(value)
        most = _MOST_ITEMS.get(path.rpartition(".")[2], _MOST_OTHERS)
        if len(value) > most:
            rest.append({"of": path, "cursor": keep(value[most:]), "items": len(value) - most})
        return [shortened(item, f"{path}[{number}]") for number, item in enumerate(value[:most])]

    return {**{name: shortened(item, name) for name, item in result.items()}, "rest": rest}


def with_rest(schema: Schema) -> Schema:
    """Return the schema of a result with ``rest``."""
    properties, required = schema["properties"], schema["required"]
    assert isinstance(properties, dict) and isinstance(required, list)
    return {**schema, "properties": {**properties, "rest": REST}, "required": [*required, "rest"]}
