"""``gpuemu/failures`` and ``gpuemu/failure``: the stored failing cases, and the details of one for a failure panel."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from typing import Any

from pygls.exceptions import JsonRpcInvalidParams

from gpuemu_lsp.engine.project.model import KernelSpec, Project
from gpuemu_lsp.engine.recordings.project_files import store_folder
from gpuemu_lsp.server.checks.stored_failures import failure_to_client
from gpuemu_lsp.server.client.params import document_uri, params_object
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.locations import path_from_uri
from gpuemu_lsp.server.handlers import background_request
from gpuemu_lsp.server.services import Services

FAILURES, FAILURE = "gpuemu/failures", "gpuemu/failure"


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handlers."""
    session, failures = services.session, services.failures

    @background_request(server, FAILURES)
    async def all_failures(params: Any) -> dict[str, Any]:
        uri = document_uri(params_object(params))
        path = path_from_uri(uri) if uri is not None else None
        project = session.projects.of(path) if path is not None else None
        every = (*session.projects.known(), *session.projects.unconfigured())
        projects = [project] if path is not None else every
        # A folder without a gpuemu.toml has a store if it has recordings.
        chosen = [item for item in projects if item is not None and store_folder(item.root, item.config) is not None]
        await asyncio.gather(*(failures.refresh(item.root) for item in chosen))
        found = [
            failure_to_client(item, session.parsed_files.unregistered(item.root), failure, session.uri_of)
            for item in chosen
            for failure in failures.of(item.root)
        ]
        if path is not None and not path.endswith(".toml"):
            found = [failure for failure in found if path_from_uri(failure["uri"]) == path]
        return {"failures": found}

    @background_request(server, FAILURE)
    async def one_failure(params: Any) -> dict[str, Any]:
        given = params_object(params)
        uri, case = given.get("uri"), given.get("id")
        path = path_from_uri(uri) if isinstance(uri, str) else None
        project = session.projects.of(path) if path is not None else None
        if project is None or not isinstance(case, str):
            raise JsonRpcInvalidParams("gpuemu/failure takes the uri of a file in a project and the id of a case")
        stored = await failures.details(project.root, case)
        failing = [item for item in stored if "failure" in item]
        if not failing:
            problem = next((item["trouble"] for item in stored if "trouble" in item), None)
            raise JsonRpcInvalidParams(str(problem or f"there is no stored case {case}"))
        others = session.parsed_files.unregistered(project.root)
        kernels = {spec.name for spec in (*project.kernels, *others) if spec.source == path}
        chosen = min(failing, key=lambda item: _mismatch(item, given, kernels))
        return _details(project, others, chosen, session.uri_of)


def _mismatch(stored: dict[str, Any], given: dict[str, Any], kernels: set[str]) -> tuple[bool, ...]:
    """Return a sort key that is smallest for the best match among failures with one id.

    The kernel of the request counts most, then whether the kernel is of the request's file, then the dtype.
    """
    failure = stored["failure"]
    return (
        failure["kernel"] != given.get("kernel"),
        failure["kernel"] not in kernels,
        failure["dtype"] != given.get("dtype"),
    )


def _details(
    project: Project, unregistered: list[KernelSpec], stored: dict[str, Any], uri_of: Callable[[str], str]
) -> dict[str, Any]:
    """Return the answer to ``gpuemu/failure`` of docs/protocol.md."""
    failure, shown = stored["failure"], stored.get("shown") or {}
    reported = shown.get("details") or {}
    facts = {
        "Kernel": failure["kernel"],
        "Type": failure["dtype"],
        "Sizes": ", ".join(f"{name} = {size}" for name, size in failure["dims"].items()) or "none",
        "Values": failure["strategy"],
        "Seed": failure["seed"],
        "Architecture": reported.get("arch"),
        "Wrong elements": f"{reported['count']} of {reported['total']}" if "total" in reported else None,
        "Thread": _tuple(reported.get("thread")),
        "Block": _tuple(reported.get("block")),
        "Buffer": reported.get("buffer"),
        "Byte offset": reported.get("offset"),
        "Instruction": reported.get("instruction"),
        "Failed": f"{failure['timesSeen']} times",
    }
    smaller = stored.get("minimized")
    return {
        **failure_to_client(project, unregistered, failure, uri_of),
        "seed": failure["seed"],
        "arch": reported.get("arch"),
        "optimisation": "unoptimised" if reported.get("optimize") is False else "optimised",
        "strategy": failure["strategy"],
        "facts": [[label, str(text)] for label, text in facts.items() if text is not None],
        "elements": shown.get("elements") or [],
        "picture": shown.get("picture"),
        "minimized": failure_to_client(project, unregistered, smaller, uri_of) if smaller is not None else None,
        "commands": {
            "reproduce": f"gpuemu reproduce {failure['id']} --kernel {shlex.quote(failure['kernel'])}",
            "why": f"gpuemu why {failure['id']} --kernel {shlex.quote(failure['kernel'])}",
            "minimize": f"gpuemu minimize {failure['id']} --kernel {shlex.quote(failure['kernel'])}",
        },
    }


def _tuple(value: Any) -> str | None:
    return f"({', '.join(map(str, value))})" if isinstance(value, list) else None
