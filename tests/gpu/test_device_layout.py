"""What the device room computes without a GPU: where buffers lie, what the guards say, how parameters are passed."""

from __future__ import annotations

import numpy as np
import pytest

from gpuemu_lsp.engine.device import available
from gpuemu_lsp.engine.device.device import runs_on
from gpuemu_lsp.engine.device.errors import LAUNCH_REFUSED, fault
from gpuemu_lsp.engine.device.layout import ALIGNMENT, CANARY, GUARD_BYTES, breaches, image, parameters, regions
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
def test_every_buffer_is_aligned_as_asked_between_guards(size, offset):
    buffer = _buffer("x", size % 251, offset=offset)
    (region,) = regions((buffer,))
    ((_, start),) = region.members
    content = image(region)
    assert start % ALIGNMENT == offset % ALIGNMENT
    assert region.size - start - buffer.data.size >= GUARD_BYTES
    assert bytes(content[start : start + buffer.data.size]) == buffer.data.tobytes()
    assert set(content[:start]) == {CANARY}
    assert breaches(region, content) == ()


def test_an_alias_shares_the_memory_of_the_buffer_it_names():
    arguments = (
        _buffer("x", 64),
        _buffer("y", 64, alias_of="x", offset=16),
        _buffer("z", 64, alias_of="y"),
        _buffer("w", 4),
    )
    found = regions(arguments)
    assert [[item.name for item, _ in region.members] for region in found] == [["x", "y", "z"], ["w"]]
    starts = {item.name: start for region in found for item, start in region.members}
    assert (starts["y"] - starts["x"], starts["z"] - starts["x"]) == (16, 0)


def test_an_alias_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no earlier buffer"):
        regions((_buffer("y", 4, alias_of="x"),))


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
def test_writes_outside_are_seen_on_both_sides(changed, expected):
    (region,) = regions((_buffer("x", 100),))
    after = image(region)
    start = region.members[0][1]
    after[[start + at for at in changed]] = 0
    assert [(item.offset, item.count) for item in breaches(region, after)] == expected


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
def test_a_cubin_runs_on_its_own_generation(arch, capability, expected):
    assert runs_on(arch, capability) is expected


@pytest.mark.parametrize("status", [700, 702, 710, 714, 715, 716, 717, 718, 719])
def test_faults_have_rules_and_refusals_are_none(status):
    known = fault(status)
    assert known is not None
    assert known.rule in RULES
    assert status not in LAUNCH_REFUSED


def test_without_a_gpu_there_is_a_reason():
    present, reason = available()
    assert reason
    assert present in (True, False)
