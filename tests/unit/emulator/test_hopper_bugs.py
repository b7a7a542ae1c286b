"""Kernels of warp groups and tensor maps: correct ones are silent, and each planted bug is found: cause, line, parties.

The counterpart of a bug is the kernel without its change, run with the same launch, or a variant in ``CORRECT`` that
differs from it by as little and is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from support.hopper_kernels import Variant, lines_of

from gpuemu_lsp.engine.execution import Checks

BLOCKS = {"pipelined": 128, "specialised": 160, "stored": 128}
STRICT = Checks(strict_fences=True)


def check_silence(variant: Variant, checks: Checks = STRICT) -> None:
    """Check that a kernel is right and has no finding, in both orders of its warps."""
    for descending in (False, True):
        outcome, found, wanted = variant.run(descending=descending, max_seconds=60.0, checks=checks)
        assert outcome.status == "completed" and not outcome.events, (outcome.status, outcome.events)
        assert np.array_equal(found, wanted)


check_counterpart = cache(check_silence)


@dataclass(frozen=True)
class Bug:
    """A planted bug: what is changed, the rule and a part of the message, and a text on the line of the finding.

    ``other`` is a text on the line of the other party; empty if there is one party only.
    """

    kernel: str
    changes: tuple[tuple[str, str], ...]
    rule: str
    message: str
    line: str
    other: str = ""
    swizzles: tuple[tuple[str, int], ...] = ()


PRODUCT = "multiply(d, descriptor("
INIT = "init(&full[0], 1); init(&full[1], 1);"
STORES = "sy[row_of(t, i) * 64 + column_of(t, i)] = d[i];"
BUGS = {
    "step of B along the wrong major": Bug(
        "pipelined", (("+ k * 16 * 128", "+ k * 32"),), "memory/tile-layout", "k of A is 16..31 and k of B is 0..16", PRODUCT, "load(sb[step]",
    ),
    "step of A too long": Bug(
        "pipelined", (("sa[stage] + k * 32", "sa[stage] + k % 2 * 64"),), "memory/tile-layout",
        "do not step along k together", PRODUCT, "load(sb[step]",
    ),
    "stride of the descriptor": Bug(
        "pipelined", (("+ k * 32, 1024, 1)", "+ k * 32, 512, 1)"),), "memory/tile-layout",
        "the descriptor of A does not follow its tile", PRODUCT, "load(sa[step]",
    ),
    "swizzle of the descriptor": Bug(
        "pipelined", (("+ k * 32, 1024, 1)", "+ k * 32, 1024, 2)"),), "memory/tile-layout",
        "operand A is read with the swizzle of 64 bytes", PRODUCT, "load(sa[step]",
    ),
    "swizzle of the map": Bug(
        "pipelined", (), "memory/tile-layout", "wrote its tile with no swizzle", PRODUCT, "load(sb[step]", swizzles=(("b", 0),)
    ),
    "descriptor of the wrong tile": Bug(
        "pipelined", (("descriptor(sa[stage] + k * 32", "descriptor(spare + k * 32"),), "memory/uninitialized-read",
        "bytes of operand A in shared memory, from byte 0 of `spare` on: nothing has written them", PRODUCT,
    ),
    "descriptor differs between warps": Bug(
        "pipelined", (("descriptor(sb[stage]", "descriptor(sb[stage ^ (t / 32 == 2)]"),), "memory/tile-layout",
        "the descriptor of B differs in the warp group: warp 2", PRODUCT,
    ),
    "no wait for the tile": Bug(
        "pipelined", (("    wait(&full[stage], phase % 2);\n", ""),), "memory/uninitialized-read",
        "which this warp has not waited for", PRODUCT, "load(sa[step]",
    ),
    "parity does not change": Bug(
        "pipelined", (("phase % 2);", "0);"),), "memory/uninitialized-read",
        "has waited 2 times for phase 0: its parity did not change", PRODUCT, "load(sa[stage]",
    ),
    "wait for the other stage": Bug(
        "pipelined", (("wait(&full[stage]", "wait(&full[0]"),), "memory/uninitialized-read",
        "from byte 8192 of `sa` on: the bulk copy that writes them is in flight", PRODUCT, "load(sa[step]",
    ),
    "too many bytes expected": Bug(
        "pipelined", (("expect(&full[step], 16384)", "expect(&full[step], 20480)"),), "sync/hang",
        "4096 of the 20480 bytes of `expect_tx` did not arrive", "wait(&full[stage]", INIT,
    ),
    "too few bytes expected": Bug(
        "pipelined", (("expect(&full[step], 16384)", "expect(&full[step], 8192)"),), "sync/mbarrier",
        "completes after 8192 of the 16384 bytes that copies bring", "load(sb[step]",
    ),
    "too many arrivals expected": Bug(
        "pipelined", (("init(&full[0], 1);", "init(&full[0], 2);"),), "sync/hang",
        "1 of 2 arrivals came (of thread 0)", "wait(&full[stage]", "init(&full[0], 2);",
    ),
    "accumulators before wait_group": Bug(
        "pipelined", (("    wait_group<0>();\n", "    wait_group<1>();\n"),), "sync/async-order",
        "accesses an accumulator of a wgmma in flight: no `wgmma.wait_group`", "sy[row_of(t, i)", PRODUCT,
    ),
    "no commit_group": Bug(
        "pipelined", (("    commit();\n", ""),), "sync/async-order", "`wgmma.commit_group` is missing", "sy[row_of(t, i)", PRODUCT,
    ),
    "no wgmma.fence": Bug(
        "pipelined", (("    keep(d);\n    fence();\n", ""),), "sync/async-order", "no `wgmma.fence` precedes this first wgmma", PRODUCT
    ),
    "refill before wait_group": Bug(
        "pipelined",
        (("    wait_group<0>();\n", ""), ("(step + 2) * 64, &full[stage]);\n    }", "(step + 2) * 64, &full[stage]);\n    }\n    wait_group<0>();")),
        "sync/async-order", "overwrites a tile that a wgmma in flight still reads: its group", "load(sa[stage]", PRODUCT,
    ),
    "initialised again": Bug(
        "pipelined", (("  for (int i = 0; i < 32; ++i) sy", "  if (t == 0) init(&full[0], 1);\n  for (int i = 0; i < 32; ++i) sy"),),
        "sync/mbarrier", "initialises an mbarrier that is in use", "if (t == 0) init(&full[0], 1);", INIT,
    ),
    "used after inval": Bug(
        "pipelined", (("  for (int i = 0; i < 32; ++i) sy", "  if (t == 0) { inval(&full[0]); arrive(&full[0]); }\n  for (int i = 0; i < 32; ++i) sy"),),
        "sync/mbarrier", "after its `mbarrier.inval`", "inval(&full[0]); arrive", "inval(&full[0]);",
    ),
    "never initialised": Bug(
        "pipelined", (("init(&full[0], 1); init(&full[1], 1);", "init(&full[0], 1);"),), "memory/uninitialized-read",
        "on an mbarrier that was never initialised", "expect(&full[step]",
    ),
    "no fence before the bulk store": Bug(
        "pipelined", (("d[i];\n  fence_proxy();", "d[i];"),), "sync/proxy-fence",
        "no `fence.proxy.async` is between them", "store(&y, 0, 0, sy);", STORES,
    ),
    "source of a store written again": Bug(
        "pipelined", (("    store_wait();\n  }\n  __syncthreads();\n  sy[t] = 0;", "  }\n  __syncthreads();\n  sy[t] = 0;\n  store_wait();"),),
        "sync/async-order", "is written again before `cp.async.bulk.wait_group.read`", "store(&y, 0, 0, sy);", "sy[t] = 0;",
    ),
    "source of the last store written again": Bug(
        "pipelined", (("    store_wait();\n  }\n", "  }\n"),), "sync/async-order",
        "is written again before `cp.async.bulk.wait_group.read`", "store(&y, 0, 0, sy);", "sy[t] = 0;",
    ),
    "initialised again before any use": Bug(
        "pipelined", (("    init(&full[0], 1); init(&full[1], 1);", "    init(&full[0], 1); init(&full[1], 1);\n    init(&full[0], 1);"),),
        "sync/mbarrier", "initialises an mbarrier again, which is undefined", "    init(&full[0], 1);", INIT,
    ),
    "coordinates of another dimension": Bug(
        "pipelined", (("load(sa[stage], &a, (step + 2) * 64, 0,", "load(sa[stage], &a, 0, (step + 2) * 64,"),),
        "memory/box-outside", "the whole box of this copy is outside of the tensor", "load(sa[stage]",
    ),
    "stage released before wait_group": Bug(
        "specialised",
        (("    wait_group<0>();\n    keep(d);\n    if (t == 0) arrive(&empty[stage]);\n", "    if (t == 0) arrive(&empty[stage]);\n    wait_group<0>();\n    keep(d);\n"),),
        "sync/async-order", "the arrival at the mbarrier that released the tile came before `wgmma.wait_group`",
        "load(sa[stage]", PRODUCT,
    ),
    "every warp was to release the stage": Bug(
        "specialised", (("init(&empty[i], 1);", "init(&empty[i], 4);"),), "sync/hang",
        "1 of 4 arrivals came (of thread 0)", "wait(&empty[stage]", "init(&empty[i], 4);",
    ),
    "first phase of an empty stage": Bug(
        "specialised", (("(step / 2 + 1) % 2", "step / 2 % 2"),), "sync/hang", "0 of 1 arrivals came", "wait(&empty[stage]", "init(&empty[i], 1);",
    ),
    "no fence between stores and the product": Bug(
        "stored", (("    }\n    fence_proxy();\n    __syncthreads();\n    for", "    }\n    __syncthreads();\n    for"),),
        "sync/proxy-fence", "operand A has", PRODUCT, "? v + 0x80",
    ),
    "waited for by one warp of the group": Bug(
        "pipelined", (("    wait(&full[stage], phase % 2);\n", "    if (t < 32) wait(&full[stage], phase % 2);\n"),),
        "memory/shared-race", "only a wait for the mbarrier that the copy completes on orders it", PRODUCT, "load(s",
    ),
    "tile written while the product reads it": Bug(
        "pipelined", (("    commit();\n", "    commit();\n    ((volatile char*)sa[stage])[t] = 0;\n"),),
        "memory/shared-race", "only `wgmma.wait_group` orders it", PRODUCT, "((volatile char*)sa",
    ),
    "tile written behind a barrier while the product reads it": Bug(
        "pipelined", (("    commit();\n", "    commit();\n    __syncthreads();\n    ((volatile char*)sa[stage])[t] = 0;\n"),),
        "sync/async-order", "threads write to operand A before `wgmma.wait_group`", PRODUCT, "((volatile char*)sa",
    ),
    "tile that nothing has written, overwritten while the product reads it": Bug(
        "pipelined",
        (("descriptor(sa[stage] + k * 32", "descriptor(spare + k * 32"), ("    commit();\n", "    commit();\n    ((volatile char*)spare)[t] = 0;\n")),
        "memory/shared-race", "only `wgmma.wait_group` orders it", PRODUCT, "((volatile char*)spare",
    ),
    "no barrier between stores and the product": Bug(
        "stored", (("    fence_proxy();\n    __syncthreads();\n    for", "    fence_proxy();\n    for"),), "memory/shared-race",
        "nothing orders this access before the product is issued", PRODUCT, "? v + 0x80",
    ),
    "accumulators changed after the fence": Bug(
        "stored", (("    keep(d);\n    fence();\n", "    keep(d);\n"), ("  __syncthreads();\n#pragma", "  __syncthreads();\n  fence();\n#pragma")),
        "sync/async-order", "have been written since the last `wgmma.fence`", PRODUCT,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(BUGS))
def test_a_planted_bug_is_found_and_its_counterpart_is_silent(name: str) -> None:
    bug = BUGS[name]
    check_counterpart(Variant(bug.kernel, block=BLOCKS[bug.kernel]))
    variant = Variant(bug.kernel, bug.changes, bug.swizzles, BLOCKS[bug.kernel])
    outcome, _, _ = variant.run(max_seconds=4.0, checks=STRICT)
    found = [event for event in outcome.events if event.rule == bug.rule and bug.message in event.message]
    assert found, [(event.rule, event.message, lines_of(event)) for event in outcome.events] or outcome.status
    found = [event for event in found if lines_of(event) & variant.lines(bug.line)]
    assert found, outcome.events
    others = [lines_of(event.other) & variant.lines(bug.other) for event in found if event.other is not None]
    assert any(others) if bug.other else not others, [event.other for event in found]
    # A fence that is missing is not an error of the order.
    assert bug.rule != "sync/proxy-fence" or {event.rule for event in outcome.events} == {bug.rule}


# Variants that are right, each closer to a bug than the kernel itself.
CORRECT = {
    "two groups in flight, waited for before the accumulators are read": Variant(
        "pipelined",
        (
            ("    commit();\n    wait_group<0>();\n    keep(d);\n    if (t == 0 && step < 2)", "    commit();\n    if (step < 2) wait_group<0>();\n    keep(d);\n    if (t == 0 && step < 2)"),
            ("  }\n  __syncthreads();\n  for (int i", "  }\n  wait_group<0>();\n  keep(d);\n  __syncthreads();\n  for (int i"),
        ),
    ),
    "two arrivals and half of the bytes with each": Variant(
        "pipelined",
        (
            ("init(&full[0], 1); init(&full[1], 1);", "init(&full[0], 2); init(&full[1], 2);"),
            ("expect(&full[step], 16384);", "expect(&full[step], 8192); expect(&full[step], 8192);"),
            ("expect(&full[stage], 16384);", "expect(&full[stage], 8192); expect(&full[stage], 8192);"),
        ),
    ),
    "initialised again after inval, and used": Variant(
        "pipelined",
        (("  for (int i = 0; i < 32; ++i) sy", "  if (t == 0) { inval(&full[0]); init(&full[0], 1); arrive(&full[0]); wait(&full[0], 0); }\n  for (int i = 0; i < 32; ++i) sy"),),
    ),
    "one thread has the fence behind the barrier": Variant(
        "pipelined", (("d[i];\n  fence_proxy();", "d[i];"), ("    store(&y, 0, 0, sy);", "    fence_proxy();\n    store(&y, 0, 0, sy);"))
    ),
    "every warp releases the stage": Variant(
        "specialised",
        (("init(&empty[i], 1);", "init(&empty[i], 4);"), ("if (t == 0) arrive(&empty[stage]);", "if (t % 32 == 0) arrive(&empty[stage]);")),
        block=160,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CORRECT))
def test_a_variant_that_is_right_is_silent(name: str) -> None:
    check_silence(CORRECT[name])


@pytest.mark.parametrize(
    ("name", "reported"),
    [("no fence before the bulk store", False), ("no fence between stores and the product", True)],
)
def test_a_kernel_may_rely_on_barriers_throughout(name: str, reported: bool) -> None:
    bug = BUGS[name]
    outcome, _, _ = Variant(bug.kernel, bug.changes, block=BLOCKS[bug.kernel]).run(max_seconds=60.0)
    # Only the second has a fence between other stores and what reads them.
    assert {event.rule for event in outcome.events} == ({bug.rule} if reported else set())
