"""Barriers between the loads and the later stores of a Triton program."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpuemu_lsp.engine.ptx.triton_stores import with_ordered_stores

LOAD = "\t// begin inline asm\n\tmov.u32 %r1, 0x0;\n\t@%p1 ld.global.b32 { %r1 }, [ %rd1 + 0 ];\n\t// end inline asm\n"
STORE = "\t// begin inline asm\n\t@%p1 st.global.b32 [ %rd1 + 0 ], { %r1 };\n\t// end inline asm\n"
BARRIER = "\tbar.sync \t0;\n"
LABEL = "$L__BB0_2:\n"
DEBUG_LABEL = "$L__tmp3:\n"


def kernel(body: str, threads: int = 128) -> str:
    return f".visible .entry k(\n\t.param .u64 k_param_0\n)\n.reqntid {threads}\n{{\n{body}\tret;\n}}\n"


def barriers_before(ptx: str) -> list[bool]:
    """Return for each store whether a barrier stands on the first line of its statement."""
    statements = ptx.split("begin inline asm\n")
    return [
        before.endswith("bar.sync \t0;\t// ")
        for before, statement in pairwise(statements)
        if "st.global" in statement.split("// end")[0]
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (LOAD + STORE, [True]),
        (STORE + LOAD, [False]),
        (LOAD + STORE + STORE, [True, False]),
        (LOAD + BARRIER + STORE, [False]),
        (LOAD + STORE + LOAD + STORE, [True, True]),
        # A loop: what follows the store in the text precedes it in the next iteration.
        (LABEL + STORE + LOAD, [True]),
        (DEBUG_LABEL + STORE + LOAD, [False]),
        ("\tcp.async.cg.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x10;\n" + STORE, [True]),
        ("\tld.relaxed.gpu.global.b32 \t%r1, [%rd1];\n" + STORE, [True]),
        ("\tld.shared.b32 \t%r1, [%r2];\n" + LOAD.replace("global", "shared") + STORE, [False]),
        # Warps that do different work.
        (LOAD + "\tbar.sync \t1, 64;\n" + STORE, [False]),
    ],
)
def test_a_barrier_precedes_a_store_after_a_load(body: str, expected: list[bool]) -> None:
    changed = with_ordered_stores(kernel(body))
    assert barriers_before(changed) == expected
    assert changed.count("\n") == kernel(body).count("\n")


def test_one_warp_needs_no_barrier() -> None:
    assert with_ordered_stores(kernel(LOAD + STORE, threads=32)) == kernel(LOAD + STORE, threads=32)


def test_a_function_may_be_called_after_a_load() -> None:
    function = f".func f(\n\t.param .b64 f_param_0\n)\n{{\n{STORE}\tret;\n}}\n"
    assert barriers_before(with_ordered_stores(kernel(LOAD) + function)) == [True]
