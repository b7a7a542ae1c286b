"""PyTorch's device `cuda` in a session: tensors, modules, autograd, autocast, registered kernels, `torch.cuda`."""

from __future__ import annotations

import copy
import io

import pytest
import torch
import triton
import triton.language as tl

from gpuemu.triton import emulated


@pytest.fixture
def session():
    with emulated() as current:
        yield current


@triton.jit
def double(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(x + offsets, mask=offsets < n) * 2, mask=offsets < n)


def doubled(x):
    out = torch.empty_like(x)
    double[(triton.cdiv(x.numel(), 128),)](x, out, x.numel(), BLOCK=128)
    return out


def test_the_device_exists_only_inside():
    with emulated():
        assert torch.cuda.is_available()
        x = torch.zeros(2, device="cuda")
        assert x.is_cuda and not x.is_cpu and x.device == torch.device("cuda", 0) and x.get_device() == 0
        assert not torch.zeros(2).is_cuda and torch.zeros(2).device.type == "cpu"
    assert not torch.cuda.is_available() and torch.equal(x + 1, torch.ones(2, device="cpu")) is True
    with pytest.raises((AssertionError, RuntimeError)):
        torch.zeros(2, device="cuda")


MAKE = {
    "factory": lambda: torch.full((3,), 2.0, device="cuda"),
    "index": lambda: torch.full((3,), 2.0, device="cuda:0"),
    "device": lambda: torch.full((3,), 2.0, device=torch.device("cuda")),
    "tensor": lambda: torch.tensor([2.0, 2.0, 2.0], device="cuda"),
    "as_tensor": lambda: torch.as_tensor([2.0, 2.0, 2.0], device="cuda"),
    "cuda": lambda: torch.full((3,), 2.0).cuda(),
    "to": lambda: torch.full((3,), 2.0).to("cuda"),
    "to device and dtype": lambda: torch.full((3,), 2).to("cuda", torch.float32),
    "to other": lambda: torch.full((3,), 2).to(torch.zeros(1, device="cuda")),
    "like": lambda: torch.full_like(torch.zeros(3, device="cuda"), 2.0),
    "new": lambda: torch.zeros(1, device="cuda").new_full((3,), 2.0),
    "pinned": lambda: torch.full((3,), 2.0).pin_memory().cuda(non_blocking=True),
    "view": lambda: torch.full((3, 3), 2.0, device="cuda")[1],
    "expanded": lambda: torch.full((1,), 2.0, device="cuda").expand(3).contiguous(),
    "arithmetic": lambda: torch.full((3,), 1.0, device="cuda") * 2,
    "default device": lambda: _in_context(torch.device("cuda")),
}


def _in_context(device):
    with device:
        return torch.full((3,), 2.0)


@pytest.mark.parametrize("make", MAKE.values(), ids=MAKE)
def test_tensors_of_the_device(session, make):
    x = make()
    assert x.device.type == "cuda" and x.dtype == torch.float32
    assert x.tolist() == [2.0] * 3 and doubled(x).cpu().tolist() == [4.0] * 3


def test_moves_copy_as_on_a_gpu(session):
    host = torch.zeros(4)
    x = host.cuda()
    before = x.cpu()
    x += 1
    assert host.sum() == 0 and before.sum() == 0 and x.sum() == 4
    assert x.cuda() is x and x.to("cuda") is x and host.cpu() is host and x.to("cuda", torch.float32) is x
    assert x.half().is_cuda and x.to(torch.float16).is_cuda and x.to("cpu", torch.float16).device.type == "cpu"
    assert torch.zeros_like(x, device="cpu").device.type == "cpu"


def test_memory_of_the_device_is_not_numpys(session):
    x = torch.ones(2, device="cuda")
    with pytest.raises(TypeError, match=r"can't convert cuda:0 device type tensor to numpy"):
        x.numpy()
    assert x.cpu().numpy().sum() == 2


def test_operators_in_place_change_shapes(session):
    x = torch.zeros(2, 3, device="cuda")
    x.t_()
    assert x.shape == (3, 2)
    x.resize_(12)
    assert x.shape == (12,) and x.fill_(1).sum() == 12
    x.data = torch.ones(5, device="cuda")
    assert x.shape == (5,) and doubled(x).sum() == 10
    view = torch.arange(6.0, device="cuda").view(2, 3)
    view[0, 1:] = 7
    assert view.tolist() == [[0.0, 7.0, 7.0], [3.0, 4.0, 5.0]] and view[view > 6].tolist() == [7.0, 7.0]


def test_printing_copying_and_saving(session):
    x = torch.tensor([1.5, 2.5], device="cuda")
    assert repr(x) == "tensor([1.5000, 2.5000], device='cuda:0')" and f"{x[0]:.2f}" == "1.50"
    assert copy.deepcopy(x).device == x.device and x.type() == "torch.cuda.FloatTensor"
    file = io.BytesIO()
    torch.save(x.cpu(), file)
    file.seek(0)
    assert torch.equal(torch.load(file).cuda(), x)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        assert x.is_cuda
        return doubled(x)

    @staticmethod
    def backward(ctx, gradient):
        assert gradient.is_cuda and torch.ones(1).cuda().is_cuda
        return doubled(gradient.contiguous())


def test_modules_and_gradients(session):
    for model in (torch.nn.Linear(4, 4).cuda(), torch.nn.Linear(4, 4).to("cuda"), torch.nn.Linear(4, 4, device="cuda")):
        assert all(parameter.is_cuda and parameter.is_leaf for parameter in model.parameters())
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        x = torch.ones(3, 4, device="cuda", requires_grad=True)
        Doubled.apply(model(x)).square().mean().backward()
        before = model.weight.detach().clone()
        optimizer.step()
        assert x.grad.is_cuda and model.weight.grad.is_cuda and not torch.equal(before, model.weight)
    host = torch.ones(3, requires_grad=True)
    Doubled.apply(host.cuda()).cpu().sum().backward()
    assert host.grad.tolist() == [2.0] * 3 and not host.grad.is_cuda


def test_autocast(session):
    x, weight = torch.randn(4, 4, device="cuda"), torch.randn(4, 4, device="cuda", requires_grad=True)
    with torch.autocast("cuda"):
        product = x @ weight
        assert product.dtype == torch.float16 and torch.softmax(product, 0).dtype == torch.float32
        assert (x + x).dtype == torch.float32 and torch.nn.functional.linear(x, weight).dtype == torch.float16
        with torch.autocast("cuda", enabled=False):
            assert (x @ x).dtype == torch.float32
    product.sum().backward()
    assert weight.grad.dtype == torch.float32 and weight.grad.is_cuda
    with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
        assert torch.mm(x, x).dtype == torch.bfloat16


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return torch.zeros(x.shape[0], weight.shape[1], dtype=torch.float16, device=x.device)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        with torch.autocast("cuda", dtype=torch.float16):
            return (gradient @ weight.T).float(), (x.T @ gradient).float()


def test_autocast_inside_a_backward_pass(session):
    x, weight = (torch.ones(4, 4, device="cuda", requires_grad=True) for _ in range(2))
    Product.apply(x, weight).sum().backward()
    assert x.grad.tolist() == weight.grad.tolist() == [[4.0] * 4] * 4
    assert x.names == (None, None)


def test_kernels_that_a_library_registers_for_cuda_run(session):
    library = torch.library.Library("aten", "IMPL")
    try:
        library.impl("abs", lambda x: doubled(x), "CUDA")
        library.impl("zeros", lambda size, **options: torch.full(size, 7.0, device=options["device"]), "CUDA")
        assert torch.abs(-torch.ones(3, device="cuda")).tolist() == [-2.0] * 3
        assert torch.abs(-torch.ones(3)).tolist() == [1.0] * 3
        assert torch.zeros(2, device="cuda").tolist() == [7.0] * 2 and torch.zeros(2).tolist() == [0.0] * 2
    finally:
        library._destroy()
    assert len(session.launches) == 1


def test_custom_operators_for_cuda(session):
    @torch.library.custom_op("gpuemu_test::doubled", mutates_args=(), device_types="cuda")
    def operator(x: torch.Tensor) -> torch.Tensor:
        return doubled(x)

    assert operator(torch.ones(3, device="cuda")).tolist() == [2.0] * 3


def test_runtime(session):
    cuda = torch.cuda
    assert cuda.device_count() == 1 and cuda.current_device() == 0 and cuda.get_device_capability() == (8, 0)
    properties = cuda.get_device_properties("cuda")
    assert (properties.major, properties.multi_processor_count) == (8, 108) and "NVIDIA" in properties.name
    with cuda.device(0), cuda.stream(cuda.Stream()), cuda.nvtx.range("x"):
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        start.record()
        end.record()
        cuda.synchronize()
        assert start.elapsed_time(end) > 0 and cuda.current_stream().cuda_stream == 0
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == 0 and cuda.mem_get_info()[0] > 0
    assert triton.runtime.driver.active.get_active_torch_device() == torch.device("cuda", 0)
    assert torch.compile(doubled)(torch.ones(2, device="cuda")).sum() == 4


def test_random_numbers_repeat(session):
    generator = torch.Generator(device="cuda").manual_seed(3)
    first = torch.rand(4, device="cuda", generator=generator)
    assert torch.equal(first, torch.rand(4, device="cuda", generator=generator.manual_seed(3)))
    torch.cuda.manual_seed(5)
    first = torch.randn(4, device="cuda")
    torch.cuda.manual_seed_all(5)
    assert torch.equal(first, torch.randn(4, device="cuda"))
    assert isinstance(generator, torch.Generator) and generator.get_state().numel() == 16
    assert torch.cuda.default_generators[0].initial_seed() == 5
