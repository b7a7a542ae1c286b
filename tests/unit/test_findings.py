"""Findings of a check as they are collected: which of them are one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuemu_lsp.engine.findings import Finding, Place, Range, Severity, collect

_RACE = Finding(
    "memory/global-race", "a race", Place("k.cu", Range.of(3, 2, 3, 8)), Severity.ERROR, "k", None, "float32", "1"
)


@pytest.mark.parametrize(
    ("changed", "messages"),
    [
        ({"dtype": "float64"}, [["also as float64"]]),
        ({"dtype": "float64", "severity": Severity.INFORMATION}, [["also as float64"]]),
        ({"dtype": "float64", "place": Place("k.cu", Range.of(3, 0, 3, 4))}, [["also as float64"]]),
        ({"dtype": "float64", "place": Place("k.cu", Range.of(4, 2, 4, 8))}, [[], []]),
        ({"dtype": "float64", "kernel": "other"}, [[], []]),
        ({"dtype": None}, [[], []]),
        ({"case": "2"}, [[]]),
    ],
)
def test_a_mistake_in_another_instance_is_a_remark(changed: dict[str, object], messages: list[list[str]]) -> None:
    """It has the rule and the line of the first; the remark is made once, and stays when a simpler case is found."""
    found: list[Finding] = []
    again = replace(_RACE, **changed)  # type: ignore[arg-type]
    kept = [collect(found, one) for one in (_RACE, again, again, replace(_RACE, message="simpler"))]
    assert [[one.message for one in each.related] for each in found] == messages
    assert kept[-1] == found[0] and found[0].message == "simpler" and found[0].dtype == "float32"


def test_wrong_numbers_are_compared_for_each_dtype() -> None:
    found: list[Finding] = []
    for dtype in ("float32", "float16"):
        collect(found, replace(_RACE, rule="numeric/tolerance-exceeded", dtype=dtype))
    assert [one.dtype for one in found] == ["float32", "float16"]


def test_an_error_in_the_second_instance_is_shown_after_an_information() -> None:
    found: list[Finding] = []
    collect(found, replace(_RACE, severity=Severity.INFORMATION))
    collect(found, replace(_RACE, dtype="float64"))
    assert [(one.severity, one.dtype) for one in found] == [
        (Severity.INFORMATION, "float32"),
        (Severity.ERROR, "float64"),
    ]
