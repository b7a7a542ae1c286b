"""Suppression comments that name a rule which does not exist or cannot be suppressed."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.check.policies.unknown_suppressions import unknown_suppressions


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("numeric/tolerance", "There is no rule `numeric/tolerance`. Did you mean `numeric/tolerance-exceeded`?"),
        ("nonsense", "There is no rule `nonsense`."),
        ("memory/out-of-bounds", "`memory/out-of-bounds` cannot be suppressed."),
    ],
)
def test_a_suppression_without_effect_is_reported_on_its_rule(rule: str, message: str) -> None:
    (found,) = unknown_suppressions("/k.cu", f"x;  // gpuemu: ignore[numeric/nan, {rule}]\n")
    assert (found.rule, found.message) == ("config/unknown-suppression", message)
    assert found.place.range.start.column == len("x;  // gpuemu: ignore[numeric/nan, ")


def test_a_suppression_of_a_known_rule_is_not_reported() -> None:
    assert not list(unknown_suppressions("/k.cu", "x;  // gpuemu: ignore[numeric/nan]\n// gpuemu: nothing\n"))
