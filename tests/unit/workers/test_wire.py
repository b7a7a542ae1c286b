"""Serialisation of records: round trip through JSON text, and rejection of malformed JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from gpuemu_lsp.engine.compile.model import Artifact, ResourceUsage
from gpuemu_lsp.engine.findings import Finding, Json, Place, Range, Related, Severity
from gpuemu_lsp.engine.fuzz.model import CaseKey
from gpuemu_lsp.engine.plan.facts import Source, Tried, ValueFact
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.project.model import (
    ArtifactChecks,
    DimSpec,
    KernelSpec,
    LaunchSpec,
    PointerSpec,
    Project,
    ScalarSpec,
    Tolerance,
)
from gpuemu_lsp.engine.workers.wire import WireError, from_json, to_json

PLACE = Place("/a/b.cu", Range.of(3, 4, 3, 9))
FINDING = Finding(
    "numeric/nan",
    "NaN at [0, 1] – ünïcode \udcff",
    PLACE,
    Severity.ERROR,
    kernel="k",
    case=str(2**64 - 1),
    dims={"n": 3},
    data={"expected": 1.5, "actual": [math.inf, -math.inf, None, True, "x"], "nested": {"$odd": {"a": [1]}}},
    related=(Related(PLACE, "called here"),),
)
SPEC = KernelSpec(
    "k",
    "/a/b.cu",
    None,
    dtypes=("float32",),
    dims={"n": DimSpec("n", 1, None, include=(7, 9))},
    args={
        "x": PointerSpec("in", (parse("n"), parse("4 * n + 1")), range=(parse("0"), parse("n"))),
        "y": PointerSpec("out", (), range=(-1.0, math.inf)),
        "n": ScalarSpec(parse("ceil_div(n, 2)")),
        "eps": ScalarSpec(1e-5),
        "flag": ScalarSpec(True),
    },
    launch=LaunchSpec(grid=(parse("n"),), shared=parse("4 * 256")),
    tolerances={"float32": Tolerance(1e-5, 0.0)},
    artifact_checks=ArtifactChecks(required_patterns=("fma",)),
    places={"": PLACE, "dims.n": PLACE},
)
PLAN = Plan(
    "k",
    "k<float>",
    "float32",
    (TensorArg("x", "x", "in", "float32", (parse("n"),)), ScalarArg("n", "n", "int32", parse("n"))),
    (DimSpec("n"),),
    (parse("n"),),
    (parse("256"),),
    parse("0"),
    PLACE,
)


@dataclass(frozen=True)
class Odd:
    number: float | None
    union: int | str | bytes
    by_line: Mapping[int, str]
    free: Json = None
    pair: tuple[int, float] = (1, 2.0)
    names: frozenset[str] = field(default_factory=frozenset)


@pytest.mark.parametrize(
    "value",
    [
        FINDING,
        SPEC,
        PLAN,
        Project("/a", None, kernels=(SPEC,), findings=(FINDING,)),
        CaseKey(2**64 - 1, "boundary", {"n": 1}),
        CaseKey(0, "boundary"),
        Artifact(
            "p", "sm_80", "ptx", b"\x7fELF\0\xff", {"k": "_Z1k"}, {"_Z1k": ResourceUsage(1, 2, 3, 4, 5, 6, 7)}, "t"
        ),
        Odd(None, 3, {3: "c", 1: "a"}, names=frozenset({"b", "a"})),
        Odd(-math.inf, "three", {}, free=[{"$float": 1, "x": -math.inf}, True]),
        Odd(0.5, b"\0", {}, free={"$type": "Odd"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_round_trip(value):
    again = from_json(type(value), json.loads(json.dumps(to_json(value))))
    assert again == value
    assert repr(again) == repr(value) or isinstance(value, Odd)  # repr distinguishes True from 1; a set has no order


def test_nan_survives():
    assert math.isnan(from_json(float, json.loads(json.dumps(to_json(math.nan), allow_nan=False))))
    back = from_json(Odd, to_json(Odd(1.0, 1, {}, free={"worst": math.nan})))
    assert isinstance(back.free, dict) and math.isnan(back.free["worst"])


@pytest.mark.parametrize(
    ("scalar", "plain"),
    [
        (np.float32(0.1), float(np.float32(0.1))),
        (np.int64(-5), -5),
        (np.bool_(True), True),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float64(2.5), 2.5),
    ],
)
def test_numpy_scalars_become_plain_numbers(scalar, plain):
    assert to_json({"v": scalar}) == {"v": plain}
    assert type(to_json(scalar)) is type(plain)


@pytest.mark.parametrize(
    "value", [object(), {1j: 2}, np.zeros(3), Finding], ids=["object", "complex", "array", "class"]
)
def test_values_without_a_json_form_are_rejected(value):
    with pytest.raises(WireError):
        to_json(value)


def _damaged(**changes):
    record = to_json(CaseKey(1, "s", {"n": 1}))
    record.update(changes)
    return {key: value for key, value in record.items() if value != "DROP"}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (_damaged(seed="1"), r"\$\.seed: expected int, found '1'"),
        (_damaged(seed=True), r"\$\.seed: expected int"),
        (_damaged(seed=1.0), r"\$\.seed: expected int"),
        (_damaged(strategy=None), r"\$\.strategy: expected str"),
        (_damaged(dims={"n": "x"}), r"\$\.dims"),
        (_damaged(colour="red"), "no field colour"),
        (_damaged(strategy="DROP"), "lacks strategy"),
        ({"$type": "Case"}, "expected CaseKey, found Case"),
        ([], "expected CaseKey"),
        (None, "expected CaseKey"),
    ],
)
def test_malformed_fields_are_named(data, says):
    with pytest.raises(WireError, match=says):
        from_json(CaseKey, data)


def test_malformed_field_inside_a_union_is_named():
    data = to_json(SPEC)
    data["args"]["x"]["direction"] = 7
    with pytest.raises(WireError, match=r"\$\.args\.x\.direction: expected str, found 7"):
        from_json(KernelSpec, data)


@pytest.mark.parametrize("tried", list(Tried))
def test_facts_about_assumed_values_round_trip(tried):
    fact = ValueFact(Source.ASSUMED, tried, (3,))
    assert from_json(ValueFact, json.loads(json.dumps(to_json(fact)))) == fact
