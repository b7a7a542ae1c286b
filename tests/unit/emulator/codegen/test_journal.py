"""What is known goes back to what it was, however often."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.codegen.core.journal import Journal


def test_going_back_undoes_all_since_the_mark() -> None:
    known: Journal[str, int] = Journal()
    known.put("a", 1)
    known.put("b", 2)
    outer = known.mark
    known.put("a", 10)
    inner = known.mark
    known.drop("b")
    known.drop("never there")
    known.put("c", 3)
    known.back(inner)
    assert [known.get(key) for key in "abc"] == [10, 2, None]
    known.put("c", 4)
    known.back(inner)  # a mark can be gone back to again
    assert [known.get(key) for key in "abc"] == [10, 2, None]
    known.back(outer)
    assert [known.get(key) for key in "abc"] == [1, 2, None]


def test_clearing_forgets_marks_too() -> None:
    known: Journal[str, int] = Journal()
    known.put("a", 1)
    known.clear()
    assert known.mark == 0 and known.get("a") is None
    known.back(0)
    assert known.get("a") is None
