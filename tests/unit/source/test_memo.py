"""Results of pure functions that are remembered."""

from __future__ import annotations

from gpuemu_lsp.engine.source.memo import Memo


def test_the_least_recently_used_result_is_forgotten() -> None:
    computed: list[str] = []

    def get(key: str) -> str:
        return known.get(key, lambda: computed.append(key) or key.upper())  # type: ignore[func-returns-value]

    known: Memo[str] = Memo(2)
    assert [get(key) for key in ("a", "b", "a", "c", "a", "b")] == ["A", "B", "A", "C", "A", "B"]
    # c takes the place of b, which was used before a.
    assert computed == ["a", "b", "c", "b"]
    assert len(known) == 2
