"""Facts: for which sizes they hold, and what their assumptions say."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.plan.facts import (
    READ,
    BranchValues,
    BufferFact,
    Claim,
    Facts,
    Need,
    Path,
    PlanOrigin,
    SizeFact,
    Source,
    assumed,
    with_extents,
)
from gpuemu_lsp.engine.project.expressions import parse


@pytest.mark.parametrize(
    ("size", "value", "need", "source"),
    [
        (SizeFact(Source.READ, frozenset({4096})), 4096, Need.OCCURS, Source.READ),
        (SizeFact(Source.READ, frozenset({4096})), 5, Need.OCCURS, Source.ASSUMED),
        (SizeFact(Source.READ, every=True), 5, Need.OCCURS, Source.READ),
        (SizeFact(Source.READ, multiple=128), 256, Need.OCCURS, Source.READ),
        (SizeFact(Source.READ, multiple=128), 257, Need.OCCURS, Source.ASSUMED),
        (SizeFact(Source.READ, guarded=True), 257, Need.OCCURS, Source.READ),
        # The kernel compares the index of each element, and not of four at once.
        (SizeFact(Source.READ, guarded=True), 257, Need.OCCURS | Need.SEVERAL, Source.ASSUMED),
        # Every value occurs, but nothing says that a trap at this one is not what the kernel demands of its caller.
        (SizeFact(Source.READ, every=True), 5, Need.GIVEN, Source.ASSUMED),
        (SizeFact(Source.READ, every=True), 5, Need.HANDLED, Source.READ),
        (SizeFact(Source.READ, guarded=True, multiple=5), 5, Need.HANDLED, Source.ASSUMED),
        (SizeFact(Source.READ, frozenset({5})), 5, Need.GIVEN, Source.READ),
        (SizeFact(Source.READ, frozenset({256, 257}), own=768), 256, Need.GIVEN, Source.READ),
        (SizeFact(Source.READ, frozenset({256, 257}), own=768), 257, Need.GIVEN, Source.ASSUMED),
        # Sizes of the signature: an author may call the kernel with multiples only, or with sizes that an array holds.
        (SizeFact(Source.FITTED, every=True), 257, Need.OCCURS, Source.FITTED),
        (SizeFact(Source.FITTED, every=True), 257, Need.OCCURS | Need.SEVERAL, Source.ASSUMED),
        (SizeFact(Source.FITTED, every=True), 257, Need.OCCURS | Need.BEYOND_ARRAY, Source.ASSUMED),
        # A smaller size stands for a constant of the program, with the remainder that a warp leaves.
        (SizeFact(Source.READ, every=True, own=4096), 64, Need.OCCURS | Need.SEVERAL, Source.READ),
        (SizeFact(Source.READ, every=True, own=4096), 65, Need.OCCURS | Need.SEVERAL, Source.ASSUMED),
        (SizeFact(Source.READ, every=True, separate=True), 65, Need.OCCURS | Need.SEPARATE, Source.ASSUMED),
        (SizeFact(Source.READ, every=True), 65, Need.OCCURS | Need.SEPARATE, Source.READ),
        (SizeFact(Source.ASSUMED, every=True), 65, Need.OCCURS | Need.DETERMINED, Source.ASSUMED),
        (SizeFact(Source.RECORDED, frozenset({64, 256}), between=True), 65, Need.OCCURS, Source.RECORDED),
        (SizeFact(Source.RECORDED, frozenset({64, 256}), between=True), 257, Need.OCCURS, Source.ASSUMED),
    ],
)
def test_a_size_occurs_as_far_as_its_fact_says(size: SizeFact, value: int, need: Need, source: Source) -> None:
    fact = size.fact("n", value, need)
    assert fact.source is source
    assert bool(fact.reason) is (source is Source.ASSUMED)


def test_an_assumed_size_names_those_of_the_program() -> None:
    fact = SizeFact(Source.READ, frozenset({4096, 8192})).fact("n", 5, Need.OCCURS)
    assert (fact.reason, fact.claim) == ("assumes n = 5 (the program has n = 4096 or 8192)", Claim.INFORMATION)
    fact = SizeFact(Source.READ, frozenset({32, 64}), own=4096).fact("n", 5, Need.OCCURS)
    assert fact.reason == "assumes n = 5 (the program has n = 4096)"


def test_conditions_on_the_way_to_a_launch_exclude_sizes() -> None:
    path = Path(conditions=(("<=", parse("n"), parse(32)),))
    assert path.allows({"n": 32}) and not path.allows({"n": 33})


def test_the_constants_of_one_side_of_a_branch_belong_together() -> None:
    branch = BranchValues({"a": 1, "b": 2}, {"a": 3, "b": 4})
    facts = Facts(PlanOrigin.HOST_CODE, path=Path(branches=(branch,)))
    assert list(facts.constants_not_met({"a": 1, "b": 2}, {"a", "b"})) == []
    (mixed,) = facts.constants_not_met({"a": 1, "b": 4}, {"a", "b"})
    assert mixed.reason == "the program launches it with a = 1, b = 2 or a = 3, b = 4 only for these sizes"


@pytest.mark.parametrize(("heads", "dim", "met"), [(32, 64, True), (32, 96, True), (64, 96, False), (128, 64, False)])
def test_smaller_sizes_are_ordered_and_divided_as_the_constants_of_the_program(heads: int, dim: int, met: bool) -> None:
    sizes = {"heads": SizeFact(Source.READ, own=96), "dim": SizeFact(Source.READ, own=3072)}
    facts = Facts(PlanOrigin.HOST_CODE, sizes=sizes)
    assert (list(facts.constants_not_met({"heads": heads, "dim": dim}, sizes)) == []) is met


def test_extents_are_replaced_and_the_rest_stays() -> None:
    arbitrary = assumed("assumes the extent of 'x'", Claim.NOTHING)
    facts = Facts(PlanOrigin.HOST_CODE, buffers={"x": BufferFact(begin=READ), "y": BufferFact()})
    facts = with_extents(facts, ["x"], arbitrary)
    assert facts.assumed_extents == {"x"} and facts.buffer("x").begin is READ and facts.open
