"""`torch.cuda` on the device: streams, events, memory, and what is refused."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch")


def test_there_is_one_device_with_its_properties():
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability() == (8, 0)
    assert "gpuemu" in torch.cuda.get_device_name()
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.set_device(3)


def test_streams_are_ordered_by_events():
    first, second = torch.cuda.Stream(), torch.cuda.Stream(priority=-1)
    event = torch.cuda.Event()
    with torch.cuda.stream(first):
        x = torch.ones(1000, device="cuda")
        event.record()
    with torch.cuda.stream(second):
        event.wait()
        y = x * 2
    second.synchronize()
    assert second.query()
    assert y.sum().item() == 2000


def test_events_measure_time():
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    torch.ones(10, device="cuda")
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) >= 0


def test_a_rightly_recorded_stream_has_no_race():
    stream = torch.cuda.Stream()
    x = torch.ones(1000, device="cuda")
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = x + 1
    x.record_stream(stream)
    del x
    torch.cuda.current_stream().wait_stream(stream)
    assert y.sum().item() == 2000


def test_pinned_memory_is_copied_without_waiting():
    host = torch.arange(1000.0).pin_memory()
    assert host.is_pinned()
    x = host.to("cuda", non_blocking=True)
    back = torch.empty(1000, pin_memory=True)
    back.copy_(x, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(back, host)


def test_memory_is_counted():
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    x = torch.empty(1 << 20, device="cuda")
    assert torch.cuda.memory_allocated() == before + (4 << 20)
    del x
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() >= before + (4 << 20)
    assert torch.cuda.mem_get_info()[0] <= torch.cuda.mem_get_info()[1]
    torch.cuda.empty_cache()


def test_more_memory_than_there_is_fails_as_on_a_gpu():
    with pytest.raises(torch.OutOfMemoryError, match=r"CUDA out of memory. Tried to allocate 64.00 GiB"):
        torch.empty(1 << 34, device="cuda")


def test_a_forked_process_cannot_use_the_device():
    x = torch.ones(3, device="cuda")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        for call in (lambda: x + 1, lambda: x.cpu(), lambda: torch.ones(3, device="cuda")):
            try:
                call()
            except RuntimeError as error:
                os.write(writer, f"{error}\n".encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    operator, copy, factory = os.read(reader, 1000).decode().splitlines()
    assert operator == copy == "CUDA error: initialization error"
    assert "Cannot re-initialize CUDA in forked subprocess" in factory
    assert x.sum().item() == 3


def test_inductor_compiles_for_the_device():
    x = torch.rand(4, 300, device="cuda")
    torch.testing.assert_close(torch.compile(lambda x: (x.sin() + 1).sum(1))(x), (x.sin() + 1).sum(1))


def test_an_autograd_function_runs_on_the_device():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            assert gradient.is_cuda
            return gradient * 2

    x = torch.ones(3, device="cuda", requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    assert torch.autograd.gradcheck(Double.apply, torch.ones(2, device="cuda", dtype=torch.float64, requires_grad=True))
