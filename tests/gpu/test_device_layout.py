"""Memory layout, guards, kernel parameters and error codes of the device executor; needs no GPU."""

from __future__ import annotations

import numpy as np
import pytest

from gpuemu_lsp.engine.device import available
from gpuemu_lsp.engine.device.device import runs_on
from gpuemu_lsp.engine.device.errors import LAUNCH_REJECTED, fault
from gpuemu_lsp.engine.device.layout import (
    ALIGNMENT,
    CANARY,
    GUARD_BYTES,
    allocations,
    initial_content,
    overwrites,
    parameters,
)
from gpuemu_lsp.engine.execution import Buffer, Scalar
from gpuemu_lsp.engine.rules import RULES


def _buffer(name: str, size: int, **fields: object) -> Buffer:
    return Buffer(name, np.arange(size, dtype=np.uint8), **fields)  # type: ignore[arg-type]


def test_parameters_are_addresses_and_raw_bytes():
    struct = np.array([(1, 2.5)], dtype=[("n", "<i4"), ("x", "<f8")]).tobytes()
    arguments = (_buffer("x", 8), Scalar("n", (7).to_bytes(4, "little")), _buffer("y", 8), Scalar("s", struct))
    packed = parameters(arguments, {"x": 0x7F00_0000_4000, "y": 0x100})
    assert packed == (bytes.fromhex("00400000007f0000"), b"\x07\0\0\0", b"\0\x01" + b"\0" * 6, struct)


@pytest.mark.parametrize(("size", "offset"), [(1, 0), (256, 0), (1000, 4), (0, 0), (12, 2)])
def test_buffers_are_aligned_and_guarded(size, offset):
    buffer = _buffer("x", size % 251, offset=offset)
    (allocation,) = allocations((buffer,))
    ((_, start),) = allocation.members
    content = initial_content(allocation)
    assert start % ALIGNMENT == offset % ALIGNMENT
    assert allocation.size - start - buffer.data.size >= GUARD_BYTES
    assert bytes(content[start : start + buffer.data.size]) == buffer.data.tobytes()
    assert set(content[:start]) == {CANARY}
    assert overwrites(allocation, content) == ()


def test_an_alias_shares_an_allocation():
    arguments = (
        _buffer("x", 64),
        _buffer("y", 64, alias_of="x", offset=16),
        _buffer("z", 64, alias_of="y"),
        _buffer("w", 4),
    )
    found = allocations(arguments)
    assert [[item.name for item, _ in allocation.members] for allocation in found] == [["x", "y", "z"], ["w"]]
    starts = {item.name: start for allocation in found for item, start in allocation.members}
    assert (starts["y"] - starts["x"], starts["z"] - starts["x"]) == (16, 0)


def test_an_alias_of_an_unknown_buffer_is_rejected():
    with pytest.raises(ValueError, match="not an earlier buffer"):
        allocations((_buffer("y", 4, alias_of="x"),))


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ((), []),
        ((100,), [(100, 1)]),
        ((100, 101, 103), [(100, 3)]),
        ((-4, -3), [(-4, 2)]),
        ((-1, 120), [(-1, 1), (120, 1)]),
    ],
)
def test_guards_detect_writes_on_both_sides(changed, expected):
    (allocation,) = allocations((_buffer("x", 100),))
    after = initial_content(allocation)
    start = allocation.members[0][1]
    after[[start + at for at in changed]] = 0
    assert [(item.offset, item.count) for item in overwrites(allocation, after)] == expected


@pytest.mark.parametrize(
    ("arch", "capability", "expected"),
    [
        ("sm_80", (8, 0), True),
        ("sm_80", (8, 6), True),
        ("sm_86", (8, 0), False),
        ("sm_80", (9, 0), False),
        ("sm_90a", (9, 0), True),
        ("sm_90a", (10, 0), False),
        ("sm_120", (12, 0), True),
    ],
)
def test_binary_compatibility_of_cubins(arch, capability, expected):
    assert runs_on(arch, capability) is expected


@pytest.mark.parametrize("status", [700, 702, 710, 714, 715, 716, 717, 718, 719])
def test_faults_have_rules_and_are_not_rejected_launches(status):
    known = fault(status)
    assert known is not None
    assert known.rule in RULES
    assert status not in LAUNCH_REJECTED


def test_availability_has_a_reason():
    present, reason = available()
    assert reason
    assert present in (True, False)
