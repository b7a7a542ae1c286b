"""``more``: what a result has left out."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.mcp.call import Tool, ToolCall, ToolError
from gpuemu_lsp.mcp.schemas import array, record, text
from gpuemu_lsp.mcp.tools.check import REST

_MOST_ITEMS = 20


def _more(call: ToolCall) -> dict[str, Json]:
    cursor = call.arguments["cursor"]
    items = call.session.rest(str(cursor))
    if items is None:
        raise ToolError(f"There is no rest {cursor!r}, or it is too old: repeat the call that returned it.")
    shown, rest = call.session.cut(items, _MOST_ITEMS)
    return {"items": shown, "rest": rest}


MORE = Tool(
    name="more",
    title="Rest of a result",
    description="Return what a result has left out: the items behind its rest.cursor.",
    arguments=record({"cursor": text("rest.cursor of a result")}),
    result=record({"items": array({}, "in the form of the result"), "rest": REST}),
    run=_more,
)
