"""Machine-readable formats: schema, completeness, and the column units of each."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from gpuemu_lsp.engine.check.model import CaseCount, KernelReport
from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Place, Range, Related
from gpuemu_lsp.engine.report.github import render_github
from gpuemu_lsp.engine.report.gitlab import render_gitlab
from gpuemu_lsp.engine.report.html import render_html
from gpuemu_lsp.engine.report.json_format import render_json, render_jsonl
from gpuemu_lsp.engine.report.junit import render_junit
from gpuemu_lsp.engine.report.markdown import render_markdown
from gpuemu_lsp.engine.report.model import Run
from gpuemu_lsp.engine.report.sarif import render_sarif
from gpuemu_lsp.engine.report.text import render_text
from gpuemu_lsp.engine.rules import RULES, make

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "check-output.schema.json").read_text())


FOLLOWING = "y[17] = NaN, expected 4.1; n = 33"


@pytest.fixture
def run(tmp_path):
    source = tmp_path / "k.cu"
    source.write_text('/* 🙂é */ float x = "値";\r\nsecond\n')
    place = Place(source.as_posix(), Range.of(0, 13, 0, 19))  # the bytes of ``float``
    following = make("numeric/nan", FOLLOWING, place, kernel="k").with_fingerprint("k.cu", "text")
    findings = tuple(
        make(
            rule,
            "100 % wrong: a, b\nsecond line",
            place,
            kernel="k",
            case="18446744073709551615",
            dims={"n": 3},
            data={"expected": math.nan, "elements": [{"actual": -math.inf}], "count": 2**60},
            related=(Related(Place(source.as_posix(), Range.of(1, 0, 1, 3)), "here"),),
            consequences=(following,) if rule == "memory/shared-race" else (),
        ).with_fingerprint("k.cu", "text")
        for rule in RULES
    )
    usage = {"sm_90a": ResourceUsage(28, 0, 0, 8, 0, 352, 1)}
    kernels = (
        KernelReport("k", source.as_posix(), "failed", True, cases=CaseCount(8, 5), resources=usage, worst=math.inf),
        KernelReport("out", "/elsewhere/out.cu", "not-executed", False, timing_ms={"total": 1.23456}),
    )
    return Run(tmp_path.as_posix(), kernels, findings, "NVRTC 12.9", 1.0)


def test_json_follows_its_schema(run):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    document = json.loads(render_json(run), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    jsonschema.validate(document, SCHEMA, jsonschema.Draft202012Validator)
    assert document["findings"][0]["data"]["expected"] == "nan"
    assert document["findings"][0]["case"] == "18446744073709551615"
    assert document["kernels"][1]["source"] == "/elsewhere/out.cu"
    assert document["summary"]["failed"] == 1


def test_json_of_an_empty_run_follows_its_schema(tmp_path):
    jsonschema.validate(json.loads(render_json(Run(str(tmp_path), (), ()))), SCHEMA)


def test_schema_rejects_unknown_values(run):
    document = json.loads(render_json(run))
    document["kernels"][0]["status"] = "fine"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, SCHEMA)


def test_columns_are_utf16_code_units(run):
    document = json.loads(render_json(run))
    first = document["findings"][0]["range"]
    # ``/* 🙂é */ `` is 9 characters, 10 UTF-16 units and 13 bytes.
    assert first == {"start": {"line": 0, "character": 10}, "end": {"line": 0, "character": 16}}


def test_jsonl_has_a_record_on_each_line(run):
    records = [json.loads(line) for line in render_jsonl(run).splitlines()]
    assert [record["type"] for record in records] == ["finding"] * len(RULES) + ["kernel"] * 2 + ["summary"]


def test_github_annotations(run):
    lines = render_github(run).splitlines()
    hints = sum(rule.severity == "hint" for rule in RULES.values())
    assert len(lines) == len(RULES) - hints
    assert lines[0].startswith(
        "::error file=k.cu,line=1,endLine=1,col=10,endColumn=16,title=gpuemu config/syntax (k)::"
    )
    assert lines[0].endswith("100 %25 wrong: a, b%0Asecond line")


def test_sarif(run):
    document = json.loads(render_sarif(run))
    (only,) = document["runs"]
    rules = only["tool"]["driver"]["rules"]
    assert len(only["results"]) == sum(rule.severity != "hint" for rule in RULES.values())
    for result in only["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        (location,) = result["locations"]
        physical = location["physicalLocation"]
        assert physical["artifactLocation"] == {"uri": "k.cu", "uriBaseId": "ROOT"}
        assert physical["region"] == {"startLine": 1, "startColumn": 11, "endLine": 1, "endColumn": 17}
        assert result["partialFingerprints"]["gpuemu/v1"]
        assert result["level"] in ("error", "warning", "note")
    assert only["originalUriBaseIds"]["ROOT"]["uri"].endswith("/")
    assert only["invocations"] == [{"executionSuccessful": False, "exitCode": 3}]


def test_sarif_links_rules_to_the_site_that_is_named(run, monkeypatch):
    def links():
        (only,) = json.loads(render_sarif(run))["runs"]
        return {rule["id"]: rule.get("helpUri") for rule in only["tool"]["driver"]["rules"]}

    assert set(links().values()) == {None}
    monkeypatch.setenv("GPUEMU_DOCS_URL", "https://docs.example.org/gpuemu")
    assert (
        json.loads(render_sarif(run))["runs"][0]["tool"]["driver"]["informationUri"]
        == "https://docs.example.org/gpuemu"
    )
    assert links()["memory/shared-race"] == "https://docs.example.org/gpuemu/rules.html#memoryshared-race"


def test_sarif_of_a_file_outside_the_root(run):
    place = Place("/else where/é.cu", Range.of(0, 0, 0, 1))
    (only,) = json.loads(render_sarif(Run(run.root, (), (make("numeric/nan", "m", place),))))["runs"]
    artifact = only["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": "file:///else%20where/%C3%A9.cu"}


def test_gitlab(run):
    twice = Run(run.root, (), (run.findings[0], *run.findings))
    issues = json.loads(render_gitlab(twice))
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    assert {issue["severity"] for issue in issues} <= {"critical", "major", "info"}
    assert all(issue["location"] == {"path": "k.cu", "lines": {"begin": 1}} for issue in issues)
    assert issues[0]["check_name"] == issues[1]["check_name"]


def test_junit():
    place = Place("/r/k.cu", Range.of(0, 0, 0, 1))
    kernels = (
        KernelReport("good", "/r/k.cu", "passed", True, timing_ms={"total": 1500.0}),
        KernelReport("bad", "/r/k.cu", "failed", True),
        KernelReport("lost", "/r/k.cu", "not-executed", True),
        KernelReport("guess", "/r/k.cu", "not-executed", True, registered=False),
        KernelReport("broken", "/r/k.cu", "error", False),
    )
    findings = (
        make("numeric/nan", "a < b & c \x00\x1b", place, kernel="bad"),
        make("engine/not-executed", "why", place, kernel="lost"),
        make("config/unknown-key", "typo", place),
    )
    root = ElementTree.fromstring(render_junit(Run("/r", kernels, findings, seconds=2.0)))
    (suite,) = root
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "1",
        "errors": "3",
        "skipped": "1",
    }
    cases = {case.get("name"): case for case in suite}
    assert (len(cases["good"]), cases["good"].get("time"), cases["good"].get("classname")) == (0, "1.500", "k.cu")
    assert cases["bad"].find("failure").get("message") == "a < b & c ??"
    assert "k.cu:1:1" in cases["bad"].find("failure").text
    assert cases["lost"].find("error").get("message") == "why"
    assert cases["configuration"].find("error").get("type") == "config/unknown-key"


@pytest.mark.parametrize(
    ("rules", "statuses", "code"),
    [
        ((), ["passed"], 0),
        ((), ["passed", "unreferenced"], 0),
        ((), [], 2),
        ((), ["passed", "not-executed"], 2),
        ((), ["passed", "error"], 2),
        (("numeric/regression",), ["passed"], 0),
        (("config/unknown-key",), ["passed"], 2),
        (("config/unknown-key", "numeric/nan"), ["failed"], 1),
        (("numeric/nan", "engine/internal-error"), ["failed"], 3),
    ],
)
def test_exit_code(rules, statuses, code):
    place = Place("/k.cu", Range.of(0, 0, 0, 1))
    kernels = tuple(KernelReport("k", "/k.cu", status, True) for status in statuses)
    assert Run("/", kernels, tuple(make(rule, "m", place) for rule in rules)).exit_code == code


def test_an_unregistered_kernel_that_did_not_run_does_not_change_the_exit_code():
    kernels = (
        KernelReport("a", "/k.cu", "passed", True),
        KernelReport("b", "/k.cu", "not-executed", True, registered=False),
    )
    assert Run("/", kernels, ()).exit_code == 0
    assert Run("/", kernels[1:], ()).exit_code == 2


FORMATS = {
    "text": render_text,
    "json": render_json,
    "jsonl": render_jsonl,
    "github": render_github,
    "gitlab": render_gitlab,
    "junit": render_junit,
    "sarif": render_sarif,
    "markdown": render_markdown,
    "html": render_html,
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_lists_a_consequence_under_its_cause(run, name):
    errors = tuple(finding for finding in run.findings if finding.rule == "memory/shared-race")
    text = FORMATS[name](replace(run, findings=errors))
    assert FOLLOWING in text.replace("\\[", "[").replace("\\]", "]")
    assert run.summary.errors == sum(finding.severity == "error" for finding in run.findings)
