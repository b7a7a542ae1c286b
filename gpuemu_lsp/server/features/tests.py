"""``gpuemu/discoverTests``, ``runTests`` and ``abortTests``, modelled on rust-analyzer's test explorer messages."""

from __future__ import annotations

from typing import Any

from pygls.exceptions import JsonRpcInvalidParams

from gpuemu_lsp.server.client.params import params_object
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.locations import path_from_uri
from gpuemu_lsp.server.handlers import background_request, request
from gpuemu_lsp.server.services import Services
from gpuemu_lsp.server.test_explorer.items import item_to_client

DISCOVER, RUN, ABORT = "gpuemu/discoverTests", "gpuemu/runTests", "gpuemu/abortTests"


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handlers."""
    session, failures, explorer, runs = services.session, services.failures, services.explorer, services.runs

    @background_request(server, DISCOVER)
    async def discover(_: Any) -> dict[str, Any]:
        await session.parsed_files.run_in_thread(session.projects.read_all, tuple(session.folders))
        for project in session.projects.known():
            if project.config is not None:
                await failures.refresh(project.root)
        items = await explorer.discover()
        return {"tests": [item_to_client(item, item.id.partition("#")[0]) for item in items]}

    @background_request(server, RUN)
    async def run(params: Any) -> dict[str, Any]:
        given = params_object(params)
        run_id, include, exclude = given.get("runId"), given.get("include"), given.get("exclude") or []
        if not isinstance(run_id, str) or not (include is None or _are_ids(include)) or not _are_ids(exclude):
            raise JsonRpcInvalidParams("gpuemu/runTests takes runId, include (ids or null), exclude and deep")
        if include is None:
            include = [item.id for item in await explorer.discover() if item.kind == "kernel"]
        for path in {path_from_uri(item.partition("#")[0]) for item in include}:
            if path is not None:
                await session.parse(path)
        chosen = [item for item in include if item not in exclude and item.partition("#")[0] not in exclude]
        return {"queued": runs.start(run_id, chosen, bool(given.get("deep")))}

    @request(server, ABORT)
    def abort(params: Any) -> None:
        runs.abort(str(params_object(params).get("runId")))


def _are_ids(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
