"""``--format junit``: a test case for each kernel, in the JUnit XML that CI systems accept (Jenkins xUnit schema)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as Xml

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.report.model import Run, relative
from gpuemu_lsp.engine.report.text import TextStyle, render_finding

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot contain, not even escaped."""
_TAGS = {"failed": "failure", "error": "error", "not-executed": "error"}


def render_junit(run: Run) -> str:
    """Render a suite with a test case for each kernel, and one for errors that belong to no kernel.

    A registered kernel that did not run is an error, an unregistered one is skipped; neither passes.
    """
    names = {kernel.name for kernel in run.kernels}
    common = [item for item in run.findings if item.kernel not in names and item.severity is Severity.ERROR]
    suite = Xml.Element("testsuite", name="gpuemu")
    for kernel in run.kernels:
        findings = [finding for finding in run.findings if finding.kernel == kernel.name]
        suite.append(_kernel(kernel, findings, run.root))
    if common:
        case = Xml.SubElement(suite, "testcase", classname="gpuemu.toml", name="configuration", time="0.000")
        _problem(case, "error", common, run.root)
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(len(suite.findall(f"testcase/{tag}"))))
    suite.set("tests", str(len(suite)))
    suite.set("time", f"{run.seconds:.3f}")
    root = Xml.Element("testsuites")
    root.append(suite)
    Xml.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _kernel(kernel: KernelReport, findings: Sequence[Finding], root: str) -> Xml.Element:
    seconds = kernel.timing_ms.get("total", 0.0) / 1e3
    source = _clean(relative(kernel.source, root))
    case = Xml.Element("testcase", classname=source, name=_clean(kernel.name), time=f"{seconds:.3f}")
    shown = [finding for finding in findings if finding.severity is not Severity.HINT]
    if kernel.status == "not-executed" and not kernel.registered:
        Xml.SubElement(case, "skipped", message=_clean(_summary(findings)))
    elif kernel.status in _TAGS:
        _problem(case, _TAGS[kernel.status], shown or findings, root)
    elif shown:
        Xml.SubElement(case, "system-out").text = _text(shown, root)
    return case


def _problem(case: Xml.Element, tag: str, findings: Sequence[Finding], root: str) -> None:
    kind = findings[0].rule if findings else "engine/not-executed"
    Xml.SubElement(case, tag, type=kind, message=_clean(_summary(findings))).text = _text(findings, root)


def _summary(findings: Sequence[Finding]) -> str:
    return findings[0].message.partition("\n")[0] if findings else "not executed"


def _text(findings: Sequence[Finding], root: str) -> str:
    return _clean("\n".join(render_finding(finding, root, TextStyle()) for finding in findings))


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)
