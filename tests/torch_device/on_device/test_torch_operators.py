"""Operators and modules on the device have the results of the CPU."""

from __future__ import annotations

import copy
import io

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional


def both(function, *shapes, dtype=torch.float32):
    """Compare a function of random tensors on both devices."""
    torch.manual_seed(0)
    inputs = [torch.randn(*shape, dtype=dtype) for shape in shapes]
    wanted, result = function(*inputs), function(*(x.cuda() for x in inputs))
    assert result.is_cuda
    torch.testing.assert_close(result.cpu(), wanted)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + y * 2,
        lambda x, y: torch.matmul(x, y.t()),
        lambda x, y: torch.cat([x, y], 1).softmax(1),
        lambda x, y: F.layer_norm(x + y, x.shape[1:]),
        lambda x, y: torch.where(x > y, x, y).cumsum(0),
        lambda x, y: x.topk(3, 1).values + y.sort(1).values[:, :3],
        lambda x, y: x[y[:, 0] > 0],
        lambda x, y: torch.einsum("ij,kj->ik", x, y),
        lambda x, y: x.scatter_add(0, (y > 0).long(), y),
        lambda x, y: F.gelu(x).var(1) + y.norm(dim=1),
        lambda x, y: x.clone().index_put_((torch.tensor([0, 1]),), y[:2]),
        lambda x, y: torch.stack([x, y]).permute(2, 0, 1).reshape(-1),
    ],
)
def test_an_operator_has_the_result_of_the_cpu(function):
    both(function, (6, 8), (6, 8))


@pytest.mark.parametrize(
    "module",
    [
        lambda: torch.nn.Conv2d(4, 6, 3, padding=1, groups=2),
        lambda: torch.nn.ConvTranspose2d(4, 2, 3, stride=2),
        lambda: torch.nn.Sequential(torch.nn.BatchNorm2d(4), torch.nn.MaxPool2d(2), torch.nn.ReLU()),
        lambda: torch.nn.GroupNorm(2, 4),
        lambda: torch.nn.Upsample(scale_factor=2, mode="bilinear"),
    ],
)
def test_a_module_and_its_gradients_have_the_results_of_the_cpu(module):
    torch.manual_seed(0)
    of_host = module()
    on_device = copy.deepcopy(of_host).cuda()
    x = torch.randn(2, 4, 8, 8)
    inputs = x.clone().requires_grad_(), x.cuda().requires_grad_()
    results = of_host(inputs[0]), on_device(inputs[1])
    for result in results:
        result.square().sum().backward()
    torch.testing.assert_close(results[1].cpu(), results[0])
    torch.testing.assert_close(inputs[1].grad.cpu(), inputs[0].grad)
    for one, other in zip(of_host.parameters(), on_device.parameters(), strict=True):
        torch.testing.assert_close(other.grad.cpu(), one.grad)


@pytest.mark.filterwarnings("ignore:PyTorch was compiled without cuDNN")
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_a_recurrent_network_and_its_gradients_have_the_results_of_the_cpu(kind):
    torch.manual_seed(0)
    of_host = kind(5, 7, num_layers=2)
    on_device = copy.deepcopy(of_host).cuda()
    x = torch.randn(3, 2, 5)
    results = of_host(x)[0], on_device(x.cuda())[0]
    for result in results:
        result.sum().backward()
    torch.testing.assert_close(results[1].cpu(), results[0])
    torch.testing.assert_close(on_device.weight_hh_l0.grad.cpu(), of_host.weight_hh_l0.grad)


def test_training_changes_the_weights_as_on_the_cpu():
    torch.manual_seed(0)
    x, target = torch.randn(16, 5), torch.randint(0, 3, (16,))
    losses = []
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    for device in ("cpu", "cuda"):
        trained = copy.deepcopy(model).to(device)
        optimizer = torch.optim.AdamW(trained.parameters(), lr=0.05)
        for _ in range(5):
            optimizer.zero_grad()
            loss = F.cross_entropy(trained(x.to(device)), target.to(device))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
            optimizer.step()
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=1e-5)


def test_autocast_and_attention_and_a_scaler():
    torch.manual_seed(0)
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).cuda()
    x = torch.randn(2, 4, 8, device="cuda")
    with torch.autocast("cuda", dtype=torch.float16):
        result, _ = attention(x, x, x)
    assert result.dtype is torch.float16
    q = torch.randn(2, 2, 4, 8, device="cuda")
    expected = F.scaled_dot_product_attention(*[q.cpu()] * 3, is_causal=True)
    torch.testing.assert_close(F.scaled_dot_product_attention(q, q, q, is_causal=True).cpu(), expected)
    scaler = torch.amp.GradScaler("cuda")
    optimizer = torch.optim.SGD(attention.parameters(), lr=0.1)
    scaler.scale(result.float().sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def test_views_share_memory_and_operators_follow_them():
    x = torch.zeros(4, 6, device="cuda")
    x[1:3, ::2] = 1
    x.t()[5] += 2
    x.view(-1)[0] = 7
    assert x.sum().item() == 6 + 8 + 7
    out = torch.empty(0, device="cuda")
    torch.add(x, 1, out=out)
    assert out.shape == (4, 6)
    assert out[0, 0].item() == 8
    x.resize_(2, 2)
    assert x.tolist() == [[7, 0], [0, 0]]


def test_an_operand_that_is_not_used_may_be_empty():
    x = torch.randn(3, 4, device="cuda")
    y = torch.randn(4, device="cuda")
    torch.testing.assert_close((x @ y).cpu(), x.cpu() @ y.cpu())
    batch = torch.randn(2, 3, 4, device="cuda")
    product = torch.baddbmm(torch.empty(2, 3, 3, device="cuda"), batch, batch.transpose(1, 2), beta=0)
    torch.testing.assert_close(product.cpu(), batch.cpu() @ batch.cpu().transpose(1, 2))


def test_tensors_on_both_devices_are_an_error():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(3, device="cuda") + torch.ones(3)
    assert (torch.ones(3, device="cuda") + torch.tensor(1.0)).tolist() == [2, 2, 2]


def test_tensors_are_saved_and_loaded_on_the_device():
    x = torch.arange(5, device="cuda")
    file = io.BytesIO()
    torch.save({"x": x, "model": torch.nn.Linear(2, 2).cuda().state_dict()}, file)
    for where in (None, "cpu", "cuda:0"):
        file.seek(0)
        loaded = torch.load(file, map_location=where)
        assert loaded["x"].tolist() == [0, 1, 2, 3, 4]
        assert loaded["x"].is_cuda == (where != "cpu")
    assert copy.deepcopy(x).is_cuda


def test_random_numbers_are_those_of_the_seed():
    torch.manual_seed(3)
    state = torch.cuda.get_rng_state()
    first = torch.rand(4, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(torch.rand(4, device="cuda"), first)
    generator = torch.Generator("cuda").manual_seed(5)
    drawn = torch.randn(4, device="cuda", generator=generator)
    assert torch.equal(torch.randn(4, device="cuda", generator=generator.manual_seed(5)), drawn)
    assert not torch.equal(torch.rand(4, device="cuda"), first)
