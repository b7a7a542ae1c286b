"""Claims: what becomes of a finding, by the facts that it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from support.oracle_cases import case_of, plan, scalar, tensor

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.check.claims import claim, in_part, is_refusal
from gpuemu_lsp.engine.check.dependences import Dependences
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.execution import Event, Request
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.plan.facts import (
    READ,
    BufferFact,
    Claim,
    Facts,
    Path,
    PlanOrigin,
    SizeFact,
    Source,
    ValueFact,
    assumed,
)
from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.ptx.model import Location
from gpuemu_lsp.engine.rules import make

PTX = """
.version 7.8
.target sm_80
.address_size 64
.file 1 "k.cu"
.visible .entry k(.param .u64 x, .param .u64 i, .param .u32 n)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [i];
  ld.param.u32 %r1, [n];
  .loc 1 2 3
  ld.global.u32 %r2, [%rd2];
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  .loc 1 3 3
  st.global.u32 [%rd4], %r1;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd5, %rd1, %rd3;
  .loc 1 4 3
  st.global.u32 [%rd5], %r1;
  ret;
}
"""
"""Line 3 stores to ``x[n]``, line 4 to ``x[i[0]]``."""

PLAN = plan([tensor("x", "out", ["n"], "int32"), tensor("i", "in", ["1"], "int32"), scalar("n", "n")], ["n"])
CASE = case_of(PLAN, "uniform", {"n": 5})
LAUNCH = Request(Artifact("k.cu", "sm_80", PTX, b"", {"k": "k"}, {}, ""), "k", (1, 1, 1), (32, 1, 1), 0, ())
ANY_SIZE = {"n": SizeFact(Source.READ, every=True)}
SIZE_OF_THE_PROGRAM = {"n": SizeFact(Source.READ, frozenset({4096}))}
KNOWN = {"x": BufferFact(READ, READ, READ, READ), "i": BufferFact(READ, READ, READ, READ)}


def facts(
    sizes: Mapping[str, SizeFact] = ANY_SIZE, buffers: Mapping[str, BufferFact] = KNOWN, **fields: object
) -> Facts:
    return Facts(PlanOrigin.HOST_CODE, sizes=sizes, buffers=buffers, **fields)


def claimed(known: Facts, rule: str = "memory/out-of-bounds", line: int = 3, **fields: object) -> Finding | None:
    instruction = "st.global.u32" if rule.startswith("memory/") else ""
    values = {"buffer": "x", "offset": 20, "size": 4} if rule.startswith("memory/") else {}
    event = Event(rule, "message", Location(1, line, 3), instruction, **(values | fields))
    finding = make(rule, "message", PLAN.place, kernel="k", dims={"n": 5})
    return claim(finding, event, CASE, Dependences(replace(PLAN, facts=known), LAUNCH, ("x", "i", "n")))


def test_an_error_rests_on_no_assumption() -> None:
    found = claimed(facts())
    assert found is not None and (found.severity, found.message) == (Severity.ERROR, "message")


@pytest.mark.parametrize("rule", ["memory/out-of-bounds", "memory/global-race"])
@pytest.mark.parametrize(("extent", "shown"), [(READ, True), (assumed("assumes a length", Claim.NOTHING), False)])
def test_an_access_that_reaches_another_buffer_depends_on_the_length_of_its_own(rule, extent, shown) -> None:
    known = facts(buffers={**KNOWN, "x": BufferFact(extent, READ, READ, READ)})
    second = {"other": Location(1, 4, 3), "data": {"other_instruction": "st.global.u32"}}
    assert (claimed(known, rule, buffer="i", **second) is not None) is shown


def test_a_registered_kernel_is_judged_by_what_its_entry_states() -> None:
    found = claimed(Facts(PlanOrigin.CONFIGURATION, sizes=SIZE_OF_THE_PROGRAM))
    assert found is not None and found.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("known", "line", "reason"),
    [
        (facts(SIZE_OF_THE_PROGRAM), 3, "assumes n = 5 (the program has n = 4096)"),
        (facts(values={"i": ValueFact(Source.ASSUMED)}), 4, "assumes values of 'i' that the host code does not set"),
        (facts(instance=assumed("the program launches 'other'")), 3, "the program launches 'other'"),
        (facts(path=Path(reached=assumed("an assertion fails"))), 3, "an assertion fails"),
    ],
)
def test_a_finding_that_rests_on_an_assumption_is_an_information_that_ends_with_it(
    known: Facts, line: int, reason: str
) -> None:
    found = claimed(known, line=line)
    assert found is not None and (found.severity, found.message) == (Severity.INFORMATION, f"message; {reason}")


def test_values_that_do_not_reach_an_access_do_not_matter() -> None:
    found = claimed(facts(values={"i": ValueFact(Source.ASSUMED)}), line=3)
    assert found is not None and found.severity is Severity.ERROR


def test_an_arbitrary_extent_shows_nothing() -> None:
    buffers = {"x": BufferFact(extent=assumed("assumes the extent of 'x'", Claim.NOTHING), begin=READ)}
    assert claimed(facts(buffers=buffers)) is None
    # What lies in front of the first element does so whatever the length is, and so does a race.
    for found in (claimed(facts(buffers=buffers), offset=-4), claimed(facts(buffers=buffers), "memory/global-race")):
        assert found is not None and found.severity is Severity.ERROR


def test_sizes_that_the_program_excludes_show_nothing() -> None:
    assert claimed(facts(path=Path(conditions=((">=", parse("n"), parse(32)),)))) is None


@pytest.mark.parametrize("rule", ["sync/trap", "sync/hang"])
def test_what_does_not_run_to_completion_needs_sizes_that_the_program_has(rule: str) -> None:
    """Any value of the size occurs, but the kernel may demand another one of its caller."""
    found = claimed(facts(ANY_SIZE), rule, buffer=None)
    assert found is not None and (found.rule, found.severity) == ("engine/not-executed", Severity.HINT)
    assert found.message == "'k' was not checked: message; assumes n = 5. Set dims, args and launch in gpuemu.toml."
    assert is_refusal(found) is (rule == "sync/trap")
    known = claimed(facts({"n": SizeFact(Source.READ, frozenset({5}))}), rule, buffer=None)
    assert known is not None and (known.rule, known.severity) == (rule, Severity.ERROR)


LOOP = """
.version 7.8
.target sm_80
.address_size 64
.file 1 "k.cu"
.visible .entry k(.param .u64 x, .param .u64 i, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .b32 %r<4>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [i];
  ld.param.u32 %r1, [n];
AGAIN:
  .loc 1 3 3
  ld.volatile.global.u32 %r2, [%rd1];
  setp.ne.u32 %p1, %r2, BOUND;
  @%p1 bra AGAIN;
  ret;
}
"""


@pytest.mark.parametrize(("bound", "rule"), [("7", "sync/hang"), ("%r1", "engine/not-executed")])
def test_a_loop_whose_end_a_size_does_not_decide_demands_nothing_of_it(bound: str, rule: str) -> None:
    launch = replace(LAUNCH, artifact=replace(LAUNCH.artifact, ptx=LOOP.replace("BOUND", bound)))
    event = Event("sync/hang", "message", Location(1, 3, 3), "")
    finding = make("sync/hang", "message", PLAN.place, kernel="k", dims={"n": 5})
    found = claim(finding, event, CASE, Dependences(replace(PLAN, facts=facts(ANY_SIZE)), launch, ("x", "i", "n")))
    assert found is not None and found.rule == rule
    # Of a size that only a tile may divide the kernel can demand it all the same.
    tiles = facts({"n": SizeFact(Source.READ, multiple=5, guarded=True)})
    found = claim(finding, event, CASE, Dependences(replace(PLAN, facts=tiles), launch, ("x", "i", "n")))
    assert found is not None and found.rule == "engine/not-executed"


def test_a_time_limit_does_not_show_that_a_loop_is_endless() -> None:
    known = facts({"n": SizeFact(Source.READ, frozenset({5}))})
    found = claimed(known, "sync/hang", buffer=None, cause=Cause.TIME_LIMIT)
    assert found is not None and found.rule == "engine/not-executed" and is_refusal(found)
    part = in_part(found, 3, 4)
    assert (part.rule, part.message.partition(":")[0]) == (
        "config/launch-inferred",
        "'k' was checked on 3 of 4 cases only",
    )


@pytest.mark.parametrize("origin", [one for one in PlanOrigin if one is not PlanOrigin.CONFIGURATION])
def test_every_origin_of_a_launch_is_judged_by_the_same_rule(origin: PlanOrigin) -> None:
    for sizes, severity in ((ANY_SIZE, Severity.ERROR), (SIZE_OF_THE_PROGRAM, Severity.INFORMATION)):
        found = claimed(replace(facts(sizes), origin=origin))
        assert found is not None and found.severity is severity
