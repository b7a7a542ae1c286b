"""Sessions of the debugger about failing cases, in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.check.why import AskedCase, asked_case
from gpuemu_lsp.engine.debugger.requests import Requests
from gpuemu_lsp.engine.jobs.debug_job import session_of
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.store import Store
from gpuemu_lsp.engine.subjects.request import CheckOptions


class SessionClient:
    """Requests about one case; ``stop`` is the last stop."""

    def __init__(self, explained: AskedCase, path: str) -> None:
        self.path = path
        self.session = session_of(explained)
        self._requests = Requests(self.session)
        self.stop: dict[str, Any] = {}
        self.outputs: list[str] = []
        self.session.announce = self.outputs.append
        self.request("configurationDone")

    def request(self, command: str, **arguments: Any) -> dict[str, Any]:
        reply = self._requests.reply(command, arguments)
        for name, body in reply.events:
            if name == "stopped":
                self.stop = body
            else:
                self.outputs.append(body["output"].rstrip("\n"))
        return reply.body

    def move(self, command: str, **arguments: Any) -> int:
        """Step or go on; return the 1-based line."""
        self.request(command, threadId=self.stop["threadId"], **arguments)
        return self.line

    @property
    def frames(self) -> list[dict[str, Any]]:
        return self.request("stackTrace", threadId=self.stop["threadId"])["stackFrames"]

    @property
    def line(self) -> int:
        return self.frames[0]["line"]

    def rows(self, scope: str) -> list[dict[str, Any]]:
        scopes = self.request("scopes", frameId=self.frames[0]["id"])["scopes"]
        reference = next(one["variablesReference"] for one in scopes if one["name"] == scope)
        return self.request("variables", variablesReference=reference)["variables"]

    def values(self, scope: str = "Locals") -> dict[str, str]:
        return {row["name"]: row["value"] for row in self.rows(scope)}

    def evaluate(self, expression: str, context: str = "watch") -> str:
        return self.request("evaluate", expression=expression, context=context)["result"]

    def breakpoints(self, *breakpoints: dict[str, Any]) -> list[dict[str, Any]]:
        return self.request("setBreakpoints", source={"path": self.path}, breakpoints=list(breakpoints))["breakpoints"]


def recorded(root: Path) -> tuple[AskedCase, str]:
    """Check the kernel of a project; return its smallest failing case, which is recorded, and the path of the source."""
    (request,) = collect([], CheckOptions(cases=6), root).requests
    for _ in check_kernel(request, lambda *_: None):
        pass
    with Store(root) as store:
        failures = [item.failure for item in store.failures(100)]
    failure = min(failures, key=lambda one: (sum(one.dims.values()), one.case))
    events = asked_case(request, failure, failure.case)
    return next(one for one in events if isinstance(one, AskedCase)), request.spec.source
