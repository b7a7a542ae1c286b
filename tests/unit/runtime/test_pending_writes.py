"""Writes on streams for which the host has not waited."""

from __future__ import annotations

from gpuemu_lsp.engine.runtime.memory.allocations import PendingAccess
from gpuemu_lsp.engine.runtime.memory.byte_sets import ByteSet
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.stream_order import StreamOrder


def test_a_write_hides_earlier_ones_of_its_stream_only():
    order = StreamOrder()
    memory = DeviceMemory(order)
    order.create(1, 0)
    order.create(2, 0)
    allocation = memory.allocate(8, None, 1 << 20)

    def write(stream, low, high):
        written = ByteSet.of(slice(low, high))
        allocation.add(PendingAccess(order.begin(stream), written, f"{stream}: {low} to {high}", None), order)
        return [one.text for one in allocation.pending]

    assert write(1, 0, 4) == ["1: 0 to 4"]
    assert write(1, 0, 4) == ["1: 0 to 4"]
    assert write(2, 0, 8) == ["1: 0 to 4", "2: 0 to 8"]
    assert write(1, 2, 6) == ["1: 0 to 4", "2: 0 to 8", "1: 2 to 6"]
    assert write(1, 0, 8) == ["2: 0 to 8", "1: 0 to 8"]
    memory.close()
