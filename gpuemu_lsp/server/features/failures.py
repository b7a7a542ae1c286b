"""``gpuemu/failures`` and ``gpuemu/failure``: the stored failing cases, and all that a panel shows of one."""

from __future__ import annotations

import asyncio
import shlex
from typing import Any

from pygls.exceptions import JsonRpcInvalidParams

from gpuemu_lsp.engine.project.model import Project
from gpuemu_lsp.server.checks.stored_failures import Failures, shown
from gpuemu_lsp.server.client.params import asked, document_uri
from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.documents.uris import path_of
from gpuemu_lsp.server.session import Session

FAILURES, FAILURE, CHANGED = "gpuemu/failures", "gpuemu/failure", "gpuemu/failuresChanged"


def register(server: Server, session: Session, failures: Failures) -> None:
    """Add the handlers."""

    @server.feature(FAILURES)
    async def all_failures(params: Any) -> dict[str, Any]:
        uri = document_uri(asked(params))
        path = path_of(uri) if uri is not None else None
        project = session.projects.of(path) if path is not None else None
        projects = [project] if path is not None else list(session.projects.known())
        chosen = [item for item in projects if item is not None and item.config is not None]
        await asyncio.gather(*(failures.refresh(item.root) for item in chosen))
        found = [shown(item, failure, session.uri_of) for item in chosen for failure in failures.of(item.root)]
        if path is not None and not path.endswith(".toml"):
            found = [failure for failure in found if path_of(failure["uri"]) == path]
        return {"failures": found}

    @server.feature(FAILURE)
    async def one_failure(params: Any) -> dict[str, Any]:
        given = asked(params)
        uri, case = given.get("uri"), given.get("id")
        path = path_of(uri) if isinstance(uri, str) else None
        project = session.projects.of(path) if path is not None else None
        if project is None or not isinstance(case, str):
            raise JsonRpcInvalidParams("gpuemu/failure takes the uri of a file in a project and the id of a case")
        stored = await failures.details(project.root, case)
        known = [item for item in stored if "failure" in item]
        if not known:
            trouble = next((item["trouble"] for item in stored if "trouble" in item), None)
            raise JsonRpcInvalidParams(str(trouble or f"there is no stored case {case}"))
        here = {spec.name for spec in project.kernels if spec.source == path}
        return _panel(project, min(known, key=lambda item: _distance(item, given, here)), session.uri_of)


def _distance(stored: dict[str, Any], given: dict[str, Any], here: set[str]) -> tuple[bool, ...]:
    """Order what has the same id by how well it is what was asked for: the kernel and dtype named, one of this file."""
    failure = stored["failure"]
    return (
        failure["kernel"] != given.get("kernel"),
        failure["kernel"] not in here,
        failure["dtype"] != given.get("dtype"),
    )


def _panel(project: Project, stored: dict[str, Any], uri_of: Any) -> dict[str, Any]:
    failure, seen = stored["failure"], stored.get("shown") or {}
    told = seen.get("told") or {}
    facts = {
        "Kernel": failure["kernel"],
        "Type": failure["dtype"],
        "Sizes": ", ".join(f"{name} = {size}" for name, size in failure["dims"].items()) or "none",
        "Values": failure["strategy"],
        "Seed": failure["seed"],
        "Architecture": told.get("arch"),
        "Wrong elements": f"{told['count']} of {told['total']}" if "total" in told else None,
        "Thread": _tuple(told.get("thread")),
        "Block": _tuple(told.get("block")),
        "Buffer": told.get("buffer"),
        "Byte offset": told.get("offset"),
        "Instruction": told.get("instruction"),
        "Failed": f"{failure['timesSeen']} times",
    }
    smaller = stored.get("minimized")
    return {
        **shown(project, failure, uri_of),
        "seed": failure["seed"],
        "arch": told.get("arch"),
        "optimisation": "unoptimised" if told.get("optimize") is False else "optimised",
        "strategy": failure["strategy"],
        "facts": [[label, str(text)] for label, text in facts.items() if text is not None],
        "elements": seen.get("elements") or [],
        "picture": seen.get("picture"),
        "minimized": shown(project, smaller, uri_of) if smaller is not None else None,
        "commands": {
            "reproduce": f"gpuemu reproduce {failure['id']} --kernel {shlex.quote(failure['kernel'])}",
            "minimize": f"gpuemu minimize {failure['id']} --kernel {shlex.quote(failure['kernel'])}",
        },
    }


def _tuple(value: Any) -> str | None:
    return f"({', '.join(map(str, value))})" if isinstance(value, list) else None


def notify_changed(server: Server) -> None:
    """Tell the client that the list is another."""
    server.protocol.notify(CHANGED, {})
