"""``--format sarif``: SARIF 2.1.0 (OASIS), for GitHub code scanning and other CI systems."""

from __future__ import annotations

import json
from collections import Counter
from urllib.parse import quote

from gpuemu_lsp import __version__
from gpuemu_lsp.engine.findings import Finding, Json, Place, Severity
from gpuemu_lsp.engine.report.json_format import finding_record
from gpuemu_lsp.engine.report.model import Run, relative
from gpuemu_lsp.engine.report.source_lines import utf16
from gpuemu_lsp.engine.rules import RULES, Rule
from gpuemu_lsp.engine.rules.model import documentation_site

_LEVEL = {
    Severity.ERROR: "error",
    Severity.WARNING: "warning",
    Severity.INFORMATION: "note",
    Severity.HINT: "note",
}
_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render_sarif(run: Run) -> str:
    """Render one SARIF run, without hints."""
    seen: Counter[str] = Counter()
    shown = [finding for finding in run.findings if finding.severity is not Severity.HINT]
    used = [RULES[name] for name in dict.fromkeys(finding.rule for finding in shown)]
    indices = {rule.name: index for index, rule in enumerate(used)}
    root = f"file://{quote(run.root.rstrip('/'))}/"
    document: dict[str, Json] = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(used)},
                "columnKind": "utf16CodeUnits",
                "originalUriBaseIds": {"ROOT": {"uri": root}},
                "invocations": [{"executionSuccessful": run.exit_code < 2, "exitCode": run.exit_code}],
                "results": [_result(finding, indices[finding.rule], run.root, seen) for finding in shown],
            }
        ],
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _driver(rules: list[Rule]) -> Json:
    site = documentation_site()
    link = {} if site is None else {"informationUri": site}
    return {"name": "gpuemu-lsp", "version": __version__, **link, "rules": [_rule(rule) for rule in rules]}


def _rule(rule: Rule) -> Json:
    link = {} if rule.documentation is None else {"helpUri": rule.documentation}
    return {
        "id": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.doc},
        "help": {"text": rule.doc, "markdown": f"**{rule.summary}**\n\n{rule.doc}"},
        "defaultConfiguration": {"level": _LEVEL[rule.severity]},
        "properties": {"tags": [rule.name.partition("/")[0]]},
        **link,
    }


def _result(finding: Finding, index: int, root: str, seen: Counter[str]) -> Json:
    # Viewers merge results with equal fingerprints, so a second finding of the same kind on a line gets another.
    seen[finding.fingerprint] += 1
    fingerprint = f"{finding.fingerprint}:{seen[finding.fingerprint]}"
    record = finding_record(finding, root)
    location = _location(finding.place, root)
    if finding.kernel is not None:
        location["logicalLocations"] = [{"name": finding.kernel, "kind": "function"}]
    return {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVEL[finding.severity],
        "message": {"text": finding.message},
        "locations": [location],
        "relatedLocations": [
            {"id": number, "message": {"text": item.message}, **_location(item.place, root)}
            for number, item in enumerate(finding.locations)
        ],
        "partialFingerprints": {"gpuemu/v1": fingerprint},
        "properties": {name: record[name] for name in ("kernel", "arch", "dtype", "case", "dims", "data")},
    }


def _location(place: Place, root: str) -> dict[str, Json]:
    path = relative(place.path, root)
    inside = path != place.path
    artifact: dict[str, Json] = {"uri": quote(path) if inside else f"file://{quote(path)}"}
    if inside:
        artifact["uriBaseId"] = "ROOT"
    start, end = place.range.start, place.range.end
    region: dict[str, Json] = {
        "startLine": start.line + 1,
        "startColumn": utf16(place.path, start) + 1,
        "endLine": end.line + 1,
        "endColumn": utf16(place.path, end) + 1,
    }
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}
