"""State of the interpretation of host code."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine import hostcode
from gpuemu_lsp.engine.hostcode.assumptions import HostAssumptions
from gpuemu_lsp.engine.hostcode.cpp.declarations import HostFile, program_of
from gpuemu_lsp.engine.hostcode.launches import interpret
from gpuemu_lsp.engine.hostcode.persistent import PersistentMap
from gpuemu_lsp.engine.hostcode.state import HostRun, State
from gpuemu_lsp.engine.hostcode.values import Allocation, Pointer
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import number, symbol


def run(code: str) -> HostRun:
    program = program_of([HostFile("k.cu", f"__global__ void k(float* x, int n) {{}} {code}")], MacroTable([]), {})
    return interpret(program, program.functions["f"][0], HostAssumptions())


def test_a_changed_copy_of_a_mapping_leaves_the_mapping():
    mapping: PersistentMap[int, int] = PersistentMap()
    copies = [mapping]
    for key in range(100):
        copies.append(copies[-1].set(key, -key))
    assert [len(copy) for copy in copies] == [*range(101)]
    assert dict(copies[50]) == {key: -key for key in range(50)}
    assert set(copies[50].differing(copies[60])) >= set(range(50, 60))


def test_a_state_is_not_changed_by_what_is_assumed_later():
    state = State().with_cell(1, number(4))
    condition = Condition(None, "<", symbol("n"), number(8))
    assumed = state.assume(condition)
    assert assumed is not None
    assert (state.conditions, assumed.conditions) == ((), (condition,))
    assert state.assume(Condition(False)) is None
    assert state.with_cell(1, number(5)).cells[1] == number(5)
    assert state.cells[1] == number(4)


def test_memory_that_one_path_allocates_is_in_the_other_where_it_may_be_returned():
    memory = Allocation("x", number(4), "device")
    other = State().with_memory(3, memory)
    assert State().with_allocations_of(other).heap[3] == memory


def test_each_side_of_a_branch_begins_with_the_state_before_it():
    launches = run("""
        void f(float* x, int n) {
            int size = n;
            if (n > 8) { size = 2 * n; k<<<1, 1>>>(x, size); } else { k<<<1, 1>>>(x, size); }
            k<<<1, 1>>>(x, size);
        }
    """).launches
    first, second, joined = (launch.arguments[1] for launch in launches)
    assert (str(first), str(second)) == ("2 * n", "n")
    assert joined not in (first, second)
    assert [len(launch.conditions) for launch in launches] == [1, 1, 0]


def test_what_a_branch_that_returns_does_is_not_seen_after_it():
    (launch,) = run("void f(float* x, int n) { int m = n; if (n == 0) { m = 1; return; } k<<<1, 1>>>(x, m); }").launches
    assert str(launch.arguments[1]) == "n"
    assert launch.conditions[0].operator == "!="


@pytest.mark.parametrize(
    "loop",
    [
        "for (int i = 0; i < 2; i++) { if (n > 8) { m = 4; continue; } m = 1; }",
        "for (int i = 0; i < 2; i++) { m = 1; if (n > 8) { m = 4; break; } }",
        "for (int i = 0; i < p; i++) { m = 1; if (n > 8) { m = 4; break; } }",
        "while (n > p) { if (n > 8) { m = 4; continue; } m = 1; }",
        "for (int v : {1, 2}) { if (n > 8) { m = 4; break; } m = 1; }",
        "switch (p) { default: m = 1; if (n > 8) { m = 4; break; } m = 1; }",
        "for (int i = 0; i < 1; i++) { switch (p) { default: if (n > 8) { m = 4; continue; } m = 1; } }",
    ],
)
def test_what_a_path_does_before_it_leaves_a_loop_is_seen_after_it(loop: str) -> None:
    (launch,) = run(f"void f(float* x, int n, int p) {{ int m = 1; {loop} k<<<1, 1>>>(x, m); }}").launches
    assert str(launch.arguments[1]) != "1" and launch.conditions == ()


def test_a_loop_that_surely_ends_early_has_the_state_in_which_it_ends() -> None:
    loop = "for (int i = 0; i < 3; i++) { m = m + 1; if (i == 1) break; }"
    (launch,) = run(f"void f(float* x, int n) {{ int m = n; {loop} k<<<1, 1>>>(x, m); }}").launches
    assert str(launch.arguments[1]) == "n + 2"


def test_memory_of_a_launch_is_that_of_its_time():
    launches = run("""
        void f(int n) {
            float* x; cudaMalloc(&x, n * sizeof(float));
            k<<<1, 1>>>(x, n);
            cudaMemset(x, 0, n * sizeof(float));
            k<<<1, 1>>>(x, n);
        }
    """).launches
    kinds = []
    for launch in launches:
        pointer = launch.arguments[0]
        assert isinstance(pointer, Pointer)
        assert pointer.allocation is not None
        kinds.append(launch.memory[pointer.allocation].contents.kind)
    assert kinds == ["none", "any"]


def test_nothing_is_restored():
    # State that is changed and restored is state that some path forgets to restore.
    folder = Path(hostcode.__file__).parent
    words = ("snapshot(", "restore(")
    assert not [path.name for path in folder.rglob("*.py") if any(word in path.read_text("utf-8") for word in words)]
