"""Planted bugs of tensor memory, each in a kernel that is right without it, in both orders of the warps."""

from __future__ import annotations

from typing import Any

import pytest
from support.emulator_launch import rules
from support.tensor_kernels import PARTS, Product, multiply

from gpuemu_lsp.engine.execution import Checks

ORDER, UNINITIALISED, TENSOR = "sync/async-order", "memory/uninitialized-read", "memory/tensor-memory"
BASE = Product(columns=32, steps=2)
_AGAIN = (
    "@%first tcgen05.mma.cta_group::1.kind::f16 [%r4], %d2, %d3, %r7, %p;\n    "
    "@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n"
    "again:\n    mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 1;\n    @!%p bra again;"
)
_STORE = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r0};"
_OVERWRITE = "st.shared.b32 [sa], %r0;"
_LOAD_ONE = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%r5];"
STRICT = Checks(strict_fences=True)


def _run(changed: dict[str, str] | None = None, *replaced: tuple[str, str], **more: Any):
    return multiply(BASE, changed, replaced, **more)[0]


_ONE_WARP_WAITS = f"@!%warp0 bra others;\nalone:\n    {PARTS['WAIT'].replace('bra wait', 'bra alone')}\nothers:"
_AFTER_LOAD = f"{PARTS['LOADED']}\n    tcgen05.fence::before_thread_sync;\n    bar.sync 0;\n    {_AGAIN}"
CORRECT: dict[str, dict[str, str]] = {
    "as it is": {},
    "a load is waited for before the next product": {"LOADED": _AFTER_LOAD},
    "one warp waits, and the others come to a barrier behind its wait": {"WAIT": f"{_ONE_WARP_WAITS}\n    bar.sync 0;"},
    "registers are read without a wait, and the cells stored to then": {
        "LOAD": "",
        "LOADED": f"{_LOAD_ONE}\n    add.u32 %v1, %v0, 1;\n    {_STORE}\n    tcgen05.wait::st.sync.aligned;",
    },
    "an operand is overwritten after the wait": {"AFTER": f"@%first {_OVERWRITE}"},
    "a store is waited for before it is loaded": {
        "LOAD": "",
        "LOADED": f"{_STORE}\n    tcgen05.wait::st.sync.aligned;\n    {_LOAD_ONE}",
    },
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", CORRECT)
def test_correct_kernels(name: str, descending: bool):
    outcome = _run(CORRECT[name], descending=descending)
    assert outcome.status == "completed" and not outcome.events, outcome.events


_BUGS: dict[str, tuple[dict[str, str], tuple[tuple[str, str], ...], str, str]] = {
    "no wait for the commit": ({"WAIT": ""}, (), ORDER, "nothing has waited for the mbarrier at byte 0 of `bar`"),
    "the wrong phase": (
        {"WAIT": PARTS["WAIT"].replace("[bar], 0", "[bar], 1")},
        (),
        ORDER,
        "nothing has waited for the mbarrier at byte 0 of `bar`",
    ),
    "one warp waits, and the others load": (
        {"WAIT": f"bar.sync 0;\n    {_ONE_WARP_WAITS}"},
        (),
        ORDER,
        "the product writes: it may still be executed, as nothing",
    ),
    "a product overwrites what other warps load": (
        {"LOADED": _AFTER_LOAD.replace("bar.sync 0;", "", 1)},
        (),
        ORDER,
        "nothing orders this behind `tcgen05.wait::ld` of its warp",
    ),
    "memory is freed while other warps load": (
        {},
        (("bar.sync 0;\n    @%warp0 tcgen05.dealloc", "@%warp0 tcgen05.dealloc"),),
        ORDER,
        "this frees cells of tensor memory that the load",
    ),
    "no commit": ({"COMMIT": ""}, (), "sync/hang", "0 of 1 arrivals came"),
    "no commit and no wait": ({"COMMIT": "", "WAIT": ""}, (), ORDER, "no `tcgen05.commit` follows it"),
    "a commit of nothing": (
        {},
        (("[bar], 1;", "[bar], 2;"),),
        "sync/hang",
        "1 of 2 arrivals came",
    ),
    "no initialisation of the barrier": (
        {},
        (("@%first mbarrier.init.shared.b64 [bar], 1;", ""),),
        UNINITIALISED,
        "mbarrier",
    ),
    "the first product adds": ({}, (("setp.ne.u32 %add, 0, 0;", "setp.eq.u32 %add, 0, 0;"),), UNINITIALISED, "adds to"),
    "an operand that nothing has written": ({"COPY_B": ""}, (), UNINITIALISED, "operand B in shared memory"),
    "no fence between the proxies": ({"FENCE": ""}, (), "sync/proxy-fence", "stores of threads have written"),
    "an operand is overwritten before the wait": (
        {"COMMIT": PARTS["COMMIT"] + f"\n    {_OVERWRITE}"},
        (),
        "memory/shared-race",
        "only a wait for an mbarrier that a later `tcgen05.commit` arrives at orders it",
    ),
    "a product overwrites what is being loaded": (
        {"LOADED": _AGAIN},
        (),
        ORDER,
        "has not executed `tcgen05.wait::ld`",
    ),
    "a store is loaded before it is complete": (
        {"LOAD": "", "LOADED": f"{_STORE}\n    {_LOAD_ONE}"},
        (),
        ORDER,
        "has not executed `tcgen05.wait::st`",
    ),
    "lanes of another warp": ({}, (("shl.b32 %r5, %r1, 21;", "shl.b32 %r5, %r1, 20;"),), TENSOR, "may access lanes"),
    "columns that are not a power of 2": ({}, ((", 256;", ", 96;"),), TENSOR, "96 columns of tensor memory are not"),
    "memory that is not freed": (
        {"FREE": "mov.u32 %r6, %r4;"},
        (),
        TENSOR,
        "256 columns of tensor memory are allocated",
    ),
    "memory that is freed twice": (
        {"FREE": f"{PARTS['FREE']}\n    @%warp0 {PARTS['FREE']}"},
        (),
        "memory/use-after-free",
        "column 0 of tensor memory, which has been freed",
    ),
    "a load of freed memory": (
        {"AFTER": f"bar.sync 0;\n    @%warp0 {PARTS['FREE']}\n    bar.sync 0;", "FREE": "mov.u32 %r6, %r4;"},
        (),
        "memory/use-after-free",
        "column 0 of tensor memory has been freed",
    ),
    "an allocation after the permit": (
        {
            "ALLOC": "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n    @%warp0 " + PARTS["ALLOC"],
        },
        (),
        TENSOR,
        "after `tcgen05.relinquish_alloc_permit`",
    ),
    "columns outside of the allocation": (
        {},
        (("[%r4], %d2", "[%r8], %d2"), ("mov.b32 %r7,", "add.u32 %r8, %r4, 240;\n    mov.b32 %r7,")),
        "memory/out-of-bounds",
        "column 256 of tensor memory is not allocated",
    ),
}


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("name", _BUGS)
def test_planted_bugs(name: str, descending: bool):
    changed, replaced, rule, message = _BUGS[name]
    checks = {"checks": STRICT} if rule == "sync/proxy-fence" else {}
    outcome = _run(changed, *replaced, descending=descending, max_seconds=20.0, **checks)
    assert rule in rules(outcome), outcome.events
    assert any(message in event.message for event in outcome.events if event.rule == rule), outcome.events


def test_another_warp_overwrites_an_operand():
    # The wait of warp 0 orders nothing for thread 40, which writes when the product is complete.
    store = f"{PARTS['LOADED']}\n    setp.eq.u32 %p, %r0, 40;\n    @%p {_OVERWRITE}"
    outcome = _run({"WAIT": _ONE_WARP_WAITS, "LOADED": store})
    (race,) = (event for event in outcome.events if event.rule == "memory/shared-race")
    assert "the product reads byte 0 of sa and thread 40 writes it" in race.message
    assert "only a wait for an mbarrier that a later `tcgen05.commit` arrives at orders it" in race.message
