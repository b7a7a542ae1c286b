"""``more``: what a result has left out."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.mcp.call import Tool, ToolCall, ToolError
from gpuemu_lsp.mcp.schemas import array, record, text


def _more(call: ToolCall) -> dict[str, Json]:
    cursor = call.arguments["cursor"]
    items = call.session.rest(str(cursor))
    if items is None:
        raise ToolError(f"There is no rest {cursor!r}, or it is too old: repeat the call that returned it.")
    return {"items": items}


MORE = Tool(
    name="more",
    title="Rest of a result",
    description="Return what a result has left out: the items behind the cursor of one of its rest.",
    arguments=record({"cursor": text("of an item of rest in a result")}),
    result=record({"items": array({}, "in the form of the list that was cut")}),
    run=_more,
)
