"""Tables with marks: rolling back restores the values at the mark, any number of times."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.codegen.core.registers import ScopedTable


def test_rolling_back_undoes_all_changes_since_the_mark() -> None:
    table: ScopedTable[str, int] = ScopedTable()
    table.put("a", 1)
    table.put("b", 2)
    outer = table.mark
    table.put("a", 10)
    inner = table.mark
    table.drop("b")
    table.drop("absent")
    table.put("c", 3)
    table.roll_back(inner)
    assert [table.get(key) for key in "abc"] == [10, 2, None]
    table.put("c", 4)
    table.roll_back(inner)  # a mark stays valid
    assert [table.get(key) for key in "abc"] == [10, 2, None]
    table.roll_back(outer)
    assert [table.get(key) for key in "abc"] == [1, 2, None]


def test_clearing_invalidates_marks() -> None:
    table: ScopedTable[str, int] = ScopedTable()
    table.put("a", 1)
    table.clear()
    assert table.mark == 0 and table.get("a") is None
    table.roll_back(0)
    assert table.get("a") is None
