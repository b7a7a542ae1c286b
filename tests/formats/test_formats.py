"""Every format, from real checks and from text that needs escaping, against independent validators."""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import re
import shutil
import subprocess
from pathlib import Path

import html5lib
import jsonschema
import pytest
import xmlschema

from gpuemu_lsp.cli.main import main as gpuemu_lsp
from gpuemu_lsp.engine.baseline.model import Comparison, Delta, KernelChange
from gpuemu_lsp.engine.check.model import CaseCount, DtypeMeasurements, KernelReport
from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Place, Range, Related
from gpuemu_lsp.engine.report.github import render_github
from gpuemu_lsp.engine.report.html import render_html
from gpuemu_lsp.engine.report.junit import render_junit
from gpuemu_lsp.engine.report.markdown import render_markdown
from gpuemu_lsp.engine.report.model import HistoryEntry, ReportContext, Run
from gpuemu_lsp.engine.report.sarif import render_sarif
from gpuemu_lsp.engine.rules import RULES, make

NASTY = "</script><b x=\"'>&amp;]]> | `a` \x01 🙂\nsecond % :: , line"


def nasty(root: Path) -> Run:
    """Every rule once, with text that breaks any format that does not escape it."""
    source = root / "a b,c%.cu"
    source.write_text('float x = "</style>|`";\nfloat y;\n')
    place = Place(source.as_posix(), Range.of(0, 0, 0, 5))
    data = {
        "expected": math.nan,
        "elements": [
            {"index": [0, 1], "expected": math.inf, "actual": 1.5},
            {"index": [1], "expected": 1, "actual": None},
        ],
        "where": [" .+#", "####"],
        "output": "<y>",
    }
    findings = tuple(
        make(
            rule,
            NASTY,
            place,
            kernel="k<T>",
            case="18446744073709551615",
            dims={"n": 3},
            data=data,
            related=(Related(Place(source.as_posix(), Range.of(1, 0, 1, 5)), NASTY),),
        ).with_fingerprint("k", "text")
        for rule in RULES
    )
    usage = {"sm_80": ResourceUsage(28, 4, 4, 8, 128, 352, 1)}
    kernels = (
        KernelReport(
            "k<T>",
            source.as_posix(),
            "failed",
            True,
            cases=CaseCount(8, 5),
            resources=usage,
            timing_ms={"total": 12.5},
            measured=(DtypeMeasurements("float32", CaseCount(8, 5), 1.0, 0.5, (0.0, 1e-7, 0.5, 2e-300)),),
        ),
        KernelReport("p|q", "/elsewhere/out.cu", "passed", True, cases=CaseCount(2, 2), resources=usage),
        KernelReport("n", "/elsewhere/out.cu", "not-executed", False),
        KernelReport("u", "/elsewhere/out.cu", "not-executed", False, registered=False),
    )
    past = tuple(
        HistoryEntry(1.7e9 + day * 86400, status, 20 + day, 0)
        for day, status in enumerate(("passed", "failed", "error"))
    )
    change = KernelChange("k<T>", "float32", "sm_80", numbers=(Delta("status", "passed", "failed", "regression"),))
    context = ReportContext(
        "<project>", 1.7e9, "0123456789abcdef", True, {("k<T>", "float32"): past}, Comparison("v<1>", (change,))
    )
    return Run(root.as_posix(), kernels, findings, "NVRTC <12.9>", 1.0, frozenset({"k<T>"}), context)


def empty(root: Path) -> Run:
    return Run(root.as_posix(), (), ())


RUNS = {"nasty": nasty, "empty": empty}


@pytest.fixture(params=RUNS)
def run(request, tmp_path):
    return RUNS[request.param](tmp_path)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A function that checks a failing project and returns the output in a format."""
    root = tmp_path_factory.mktemp("real")
    (root / "k.cu").write_text(
        "__global__ void k(const float* x, float* y, int n) {\n    int i = threadIdx.x;\n    if (i < n) y[i] = x[i] * 3.0f;\n}\n"
    )
    (root / "ref.py").write_text("def reference(inputs, **kwargs):\n    return inputs['x'] * 2.0\n")
    (root / "gpuemu.toml").write_text(
        '[[kernels]]\nname = "k"\nsource = "k.cu"\nreference = "ref.py"\n[kernels.dims]\nn = { min = 1, max = 64 }\n'
        '[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\nn = "n"\n[kernels.launch]\ngrid = 1\nblock = 64\n'
    )

    def text(form: str) -> str:
        file = root / f"out.{form}"
        assert gpuemu_lsp(["--check", str(root), "--format", form, "--output", str(file)]) == 1
        return file.read_text()

    text.root = root
    return text


def test_sarif_follows_the_oasis_schema(run, sarif_schema):
    jsonschema.validate(json.loads(render_sarif(run)), json.loads(sarif_schema))


def test_sarif_of_a_real_check(real, sarif_schema):
    document = json.loads(real("sarif"))
    jsonschema.validate(document, json.loads(sarif_schema))
    assert [result["ruleId"] for result in document["runs"][0]["results"]] == ["numeric/tolerance-exceeded"]
    document["runs"][0]["results"][0]["level"] = "fatal"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, json.loads(sarif_schema))


def fingerprints(text: str) -> list[str]:
    return [item["partialFingerprints"]["gpuemu/v1"] for item in json.loads(text)["runs"][0]["results"]]


def test_sarif_fingerprints_are_unique(tmp_path):
    run = nasty(tmp_path)
    assert len(set(fingerprints(render_sarif(run)))) == len(fingerprints(render_sarif(run)))
    assert len(set(fingerprints(render_sarif(Run(run.root, (), run.findings[:1] * 3))))) == 3


def test_sarif_fingerprints_survive_shifted_lines(real):
    before = fingerprints(real("sarif"))
    source = real.root / "k.cu"
    text = source.read_text()
    source.write_text("// one more line\n\n" + text)
    assert fingerprints(real("sarif")) == before
    source.write_text(text.replace("3.0f", "3.5f"))
    assert fingerprints(real("sarif")) != before
    source.write_text(text)


def test_junit_follows_the_schema_of_jenkins(run, junit_schema):
    xmlschema.XMLSchema10(io.BytesIO(junit_schema)).validate(render_junit(run))


def test_junit_of_a_real_check(real, junit_schema):
    schema = xmlschema.XMLSchema10(io.BytesIO(junit_schema))
    text = real("junit")
    schema.validate(text)
    assert "<failure" in text
    assert not schema.is_valid(text.replace("<testcase ", "<testcase unknown='1' "))


# GitHub: ``::command key=value,key=value::message``; data and properties are percent-escaped
# (workflow commands, toolkit's @actions/core).
COMMAND = re.compile(
    r"::(?:error|warning|notice) (?P<properties>[a-zA-Z]+=[^,:\r\n]*(?:,[a-zA-Z]+=[^,:\r\n]*)*)::(?P<data>[^\r\n]*)"
)
ESCAPE = re.compile(r"%(?!25|0D|0A|3A|2C)")


def test_github_annotations_follow_the_grammar_of_workflow_commands(run):
    for line in render_github(run).split("\n")[:-1]:
        match = COMMAND.fullmatch(line)
        assert match is not None, line
        assert not ESCAPE.search(match["properties"])
        assert not re.search(r"%(?!25|0D|0A)", match["data"])
        keys = [item.partition("=")[0] for item in match["properties"].split(",")]
        assert keys == ["file", "line", "endLine", "col", "endColumn", "title"]


def test_html_is_html5(run):
    html5lib.HTMLParser(strict=True).parse(render_html(run))


def test_html_has_no_scripts_or_external_resources(tmp_path):
    tree = html5lib.parse(render_html(nasty(tmp_path)), namespaceHTMLElements=False)
    assert not [item.tag for item in tree.iter() if item.tag in ("script", "link", "img", "iframe", "object", "b")]
    attributes = {name for item in tree.iter() for name in item.attrib}
    assert not {name for name in attributes if name.startswith("on") or name in ("src", "href", "style")}
    text = "".join(tree.itertext())
    assert "</script><b x=" in text
    assert "url(" not in text and "@import" not in text


def test_html_sections_and_charts(tmp_path):
    tree = html5lib.parse(render_html(nasty(tmp_path)), namespaceHTMLElements=False)
    heads = [item.text for item in tree.iter("h2")]
    assert heads == ["Kernels", "Baseline", "Findings", "Errors", "Registers over time"]
    pictures = [item.attrib["aria-label"] for item in tree.iter() if item.tag.endswith("svg")]
    assert {"errors per case", "registers over time", "Where <y> is wrong"} <= set(pictures)
    assert sum(item.tag.endswith("rect") and item.attrib["class"] == "wrong" for item in tree.iter()) >= 7


def test_html_of_a_real_check(real):
    text = real("html")
    html5lib.HTMLParser(strict=True).parse(text)
    assert "x[i] * 3.0f" in text


def test_html_passes_html_validate(real, tmp_path):
    """Validate with html-validate, if npm can fetch it."""
    if shutil.which("npx") is None:
        pytest.skip("npx is not installed")
    (tmp_path / "page.html").write_text(real("html"))
    (tmp_path / ".htmlvalidate.json").write_text('{"root": true, "extends": ["html-validate:standard"]}')
    try:
        done = subprocess.run(
            ["npx", "--yes", "html-validate@10", "page.html"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("html-validate cannot be fetched")
    if "npm ERR" in done.stderr or "npm error" in done.stderr:
        pytest.skip(f"html-validate cannot be fetched: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_html_renders_in_a_browser(real, tmp_path, short_folder):
    browser = next((name for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    (tmp_path / "page.html").write_text(real("html"))
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={short_folder}",
        "--window-size=1200,1400",
    ]
    command += [f"--screenshot={tmp_path / 'page.png'}", (tmp_path / "page.html").as_uri()]
    environment = {**os.environ, "TMPDIR": str(short_folder)}  # for its sockets
    subprocess.run(command, capture_output=True, timeout=120, check=True, env=environment)
    picture = (tmp_path / "page.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 20_000


def test_markdown_tables_have_equal_columns(tmp_path):
    lines = render_markdown(nasty(tmp_path)).split("\n")
    assert lines[0] == "<!-- gpuemu -->"
    for first, line in itertools.pairwise(lines):
        if line.startswith("|") and first.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) == len(re.findall(r"(?<!\\)\|", first)), line
    assert not re.search(r"(?<!\\)<b ", "\n".join(lines))


def test_markdown_of_a_real_check(real):
    text = real("markdown")
    assert "## gpuemu: 1 failed" in text
    assert "`k.cu:3`" in text and "gpuemu reproduce" in text
    assert len(text) < 65_536
