"""Resources: rules, the schema of gpuemu.toml, and the findings of this server."""

from __future__ import annotations

import json
from collections.abc import Mapping

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.project import json_schema
from gpuemu_lsp.engine.report.catalogue import explanation
from gpuemu_lsp.engine.rules import RULES
from gpuemu_lsp.mcp.connection import INVALID_PARAMS, RequestError
from gpuemu_lsp.mcp.session import AgentSession

_SCHEME = "gpuemu://"
_RULES, _FINDINGS, _CONFIGURATION = f"{_SCHEME}rules/", f"{_SCHEME}findings/", f"{_SCHEME}configuration-schema"
_LISTED_FINDINGS = 50


class Resources:
    """What ``resources/list`` lists and ``resources/read`` reads."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session

    def listed(self) -> list[Json]:
        """Return all resources; of findings the latest."""
        rules = [_resource(f"{_RULES}{rule.name}", rule.name, rule.summary, "text/plain") for rule in RULES.values()]
        schema = _resource(_CONFIGURATION, "gpuemu.toml", "JSON Schema of gpuemu.toml", "application/schema+json")
        findings = [
            _resource(
                f"{_FINDINGS}{item.finding.fingerprint}", item.finding.rule, item.finding.message, "application/json"
            )
            for item in self._session.findings()[:_LISTED_FINDINGS]
        ]
        return [schema, *findings, *rules]

    def templates(self) -> list[Json]:
        """Return the forms of the addresses."""
        forms: list[Mapping[str, Json]] = [
            {"uriTemplate": f"{_RULES}{{+rule}}", "name": "rule", "mimeType": "text/plain"},
            {"uriTemplate": f"{_FINDINGS}{{id}}", "name": "finding", "mimeType": "application/json"},
        ]
        return [dict(form) for form in forms]

    def read(self, uri: str) -> Json:
        """Return the content of a resource.

        Raises
        ------
        RequestError
            If there is no such resource.
        """
        if uri == _CONFIGURATION:
            return {"uri": uri, "mimeType": "application/schema+json", "text": json.dumps(json_schema(), indent=1)}
        rule = RULES.get(uri.removeprefix(_RULES)) if uri.startswith(_RULES) else None
        if rule is not None:
            return {"uri": uri, "mimeType": "text/plain", "text": explanation(rule)}
        reported = self._session.finding(uri.removeprefix(_FINDINGS)) if uri.startswith(_FINDINGS) else None
        if reported is not None:
            facts = json.dumps(reported.facts, ensure_ascii=False, indent=1, allow_nan=False)
            return {"uri": uri, "mimeType": "application/json", "text": facts}
        raise RequestError(INVALID_PARAMS, f"there is no resource {uri}", {"uri": uri})


def _resource(uri: str, name: str, description: str, kind: str) -> Json:
    return {"uri": uri, "name": name, "description": description, "mimeType": kind}
