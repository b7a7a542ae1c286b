"""Launches that depend on conditions, on properties of the device, on dictionaries, and on compiled kernels."""

from __future__ import annotations

import ast

import pytest

from gpuemu_lsp.engine.plan.wrappers.inference import inferred_kernel
from gpuemu_lsp.engine.plan.wrappers.inferred_kernel import InferredKernel, MissingLaunch
from gpuemu_lsp.engine.project.model import KernelSpec, PointerSpec
from gpuemu_lsp.engine.source.python import read_python
from gpuemu_lsp.engine.subjects.module_slice import slice_of

HEAD = """\
import math

import torch
import triton
import triton.language as tl
from triton.runtime import driver

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.jit
def k(x, y, n, BLOCK: tl.constexpr, STAGE: tl.constexpr = 1):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def described(x, y, n, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [n], [1], [BLOCK])
    target = tl.make_tensor_descriptor(y, [n], [1], [BLOCK])
    target.store([tl.program_id(0) * BLOCK], source.load([tl.program_id(0) * BLOCK]))


@triton.jit
def locked(lock, x, total, n, BLOCK: tl.constexpr):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    i = tl.arange(0, BLOCK)
    tl.store(total, tl.load(total) + tl.sum(tl.load(x + i, mask=i < n), axis=0))
    tl.atomic_xchg(lock, 0)


"""


def infer(body, kernel="k"):
    return inferred_kernel(KernelSpec(kernel, "/p/m.py", None, entry=kernel), HEAD + body, ["k", "described", "locked"])


def entry(body, kernel="k"):
    found = infer(body, kernel)
    assert isinstance(found, InferredKernel), found.reason
    return found


def grid_of(found):
    return " ".join(map(str, found.spec.launch.grid))


def constexprs_of(found):
    return {name: str(values[0]) for name, values in found.spec.constexprs.items()}


CALLED = "def f(x{parameters}):\n    y, n = torch.empty_like(x), x.numel()\n{body}    return y\n"


def called(body, parameters=""):
    return entry(CALLED.format(parameters=parameters, body="".join(f"    {line}\n" for line in body)))


def test_properties_of_the_device():
    found = called(
        ["sms = torch.cuda.get_device_properties(x.device).multi_processor_count", "k[(sms,)](x, y, n, BLOCK=128)"]
    )
    assert grid_of(found) == "108"
    found = called(
        [
            "props = driver.active.utils.get_device_properties(DEVICE.index)",
            'k[(min(props["multiprocessor_count"], n),)](x, y, n, BLOCK=128)',
        ]
    )
    assert grid_of(found) == "min(n, 108)"
    found = called(
        [
            'big = triton.runtime.driver.active.get_current_target().backend == "cuda"',
            "major, minor = torch.cuda.get_device_capability()",
            "k[(1,)](x, y, n, BLOCK=128 if big else 64, STAGE=2 if major >= 9 else 3)",
        ]
    )
    assert constexprs_of(found) == {"BLOCK": "128", "STAGE": "3"}


def test_launch_of_a_compiled_kernel():
    found = called(
        [
            "compiled = k.warmup(x, y, n, BLOCK=64, grid=(1,))",
            "compiled._init_handles()",
            "programs = 108 * (65536 // (compiled.n_regs * 32 * 4))",
            "compiled[(min(programs, n),)](x, y, n, 64)",
        ]
    )
    assert grid_of(found) == "min(n, 864)" and constexprs_of(found) == {"BLOCK": "64"}
    text = HEAD + "def f(x, y):\n    k.warmup(x, y, 1, BLOCK=64, grid=(1,))\n"
    assert [one.name for one in read_python("/p/m.py", text).triton if one.launched] == ["k"]


def test_bound_kernels_and_other_names_of_kernels():
    assert grid_of(called(["run = k[(triton.cdiv(n, 64),)]", "run(x, y, n, BLOCK=64)"])) == "ceil_div(n, 64)"
    assert grid_of(called(["one = k", "one[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)"])) == "ceil_div(n, 64)"
    assert grid_of(called(["k.run(x, y, n, BLOCK=64, grid=(n,), warmup=False)"])) == "n"


def test_arguments_in_dictionaries():
    launch = "k[(1,)](x, y, n, **more)"
    assert constexprs_of(called(['more = {"BLOCK": 64}', launch])) == {"BLOCK": "64"}
    assert constexprs_of(called(["more = dict(STAGE=2)", 'more["BLOCK"] = 32', launch]))["BLOCK"] == "32"
    assert constexprs_of(called(["more = {}", "k[(1,)](x, y, n, BLOCK=16, **more)"])) == {"BLOCK": "16"}
    found = infer(
        CALLED.format(
            parameters=", flags",
            body='    more = {"BLOCK": 64}\n    if flags.speed > 2:\n        more["STAGE"] = 2\n    k[(1,)](x, y, n, **more)\n',
        )
    )
    assert isinstance(found, MissingLaunch) and "STAGE" in found.reason


def test_a_boolean_parameter_decides_everywhere():
    found = called(["k[(1,)](x, y, n, BLOCK=64 if causal else 32, STAGE=3 if causal else 1)"], ", causal")
    assert constexprs_of(found) in ({"BLOCK": "64", "STAGE": "3"}, {"BLOCK": "32", "STAGE": "1"})


def test_a_condition_on_a_size_restricts_it():
    found = called(["tile = 256", "if n <= 1024:", "    tile = 128", "k[(triton.cdiv(n, tile),)](x, y, n, BLOCK=tile)"])
    assert constexprs_of(found) == {"BLOCK": "128"} and found.spec.dims["n"].maximum <= 1024
    found = called(["tile = 256", "if n > 65536:", "    tile = 128", "k[(1,)](x, y, n, BLOCK=tile)"])
    assert constexprs_of(found) == {"BLOCK": "256"}


def test_a_text_decides_everywhere():
    found = called(
        [
            'rows = n if mode == "rows" else 1',
            'tile = 64 if mode != "rows" else 32',
            "k[(rows,)](x, y, n, BLOCK=tile)",
        ],
        ", mode",
    )
    assert (grid_of(found), constexprs_of(found)["BLOCK"]) in (("n", "32"), ("1", "64"))


@pytest.mark.parametrize("grid", ["math.ceil(n / 64)", "-(-n // 64)"])
def test_quotients_that_round_up(grid):
    found = called([f"k[({grid},)](x, y, n, BLOCK=64)"])
    assert grid_of(found) == "ceil_div(n, 64)" and "n" in found.ragged


def test_a_quotient_that_is_cut_off():
    found = called(["k[(int(n / 64),)](x, y, n, BLOCK=64)"])
    assert grid_of(found) == "n // 64" and found.spec.dims["n"].multiple_of == 1


HEURISTICS = """\
def rows_of(args):
    return max(1, 1024 // triton.next_power_of_2(args["cols"])) if args["cols"] < 64 else 1


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["cols"]), "ROWS": rows_of})
@triton.jit
def tiled(x, y, rows, cols, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    at = row[:, None] * cols + tl.arange(0, BLOCK)[None, :]
    mask = (row[:, None] < rows) & (tl.arange(0, BLOCK)[None, :] < cols)
    tl.store(y + at, tl.load(x + at, mask=mask), mask=mask)


def f(x):
    y = torch.empty_like(x)
    rows, cols = x.shape
    tiled[lambda meta: (triton.cdiv(rows, meta["ROWS"]),)](x, y, rows, cols)
    return y
"""


def test_heuristics_are_evaluated_with_the_arguments_of_the_launch():
    spec = KernelSpec("tiled", "/p/m.py", None, entry="tiled")
    found = inferred_kernel(spec, HEAD + HEURISTICS, ["k", "tiled"])
    assert isinstance(found, InferredKernel), found.reason
    assert constexprs_of(found)["BLOCK"] == "next_pow2(cols)"
    # A condition on a size restricts it.
    if found.spec.dims["cols"].maximum < 64:
        assert grid_of(found) == "ceil_div(rows, max(1024 // next_pow2(cols), 1))"
    else:
        assert grid_of(found) == "rows" and found.spec.dims["cols"].minimum == 64


def test_a_caller_gives_the_arguments_of_an_autograd_function():
    found = entry(
        "class F(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(ctx, x, options):\n"
        "        y = torch.empty_like(x)\n"
        '        k[(triton.cdiv(x.numel(), options["tile"]),)](x, y, x.numel(), BLOCK=options["tile"])\n'
        "        return y\n\n\n"
        "def f(x):\n"
        '    return F.apply(x, {"tile": 128})\n'
    )
    assert constexprs_of(found)["BLOCK"] == "128" and found.function == "f"


def test_the_output_of_a_layer_is_a_tensor_of_its_own_shape():
    found = entry(
        "class Model(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.conv = torch.nn.Conv2d(3, 8, 3)\n\n"
        "    def forward(self, x):\n"
        "        x = self.conv(x).contiguous()\n"
        "        N, C, H, W = x.shape\n"
        "        y = torch.empty_like(x)\n"
        "        k[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)\n"
        "        return y\n"
    )
    assert len(found.spec.args["x"].shape) == len(found.spec.args["y"].shape) == 4 and not found.uncertain


def test_a_size_that_another_one_divides_is_their_product():
    found = entry(
        "def f(x, groups):\n"
        "    N, C = x.shape\n"
        "    assert C % groups == 0\n"
        "    y = torch.empty_like(x)\n"
        "    k[(N, groups)](x, y, C // groups, BLOCK=64)\n"
    )
    per_group = str(found.spec.args["n"].value)
    assert [str(one) for one in found.spec.args["x"].shape] == ["N", f"groups * {per_group}"]


def test_compile_time_sizes_that_are_not_extents_are_small():
    text = (
        "@triton.jit\n"
        "def pool(x, y, width, K: tl.constexpr, BLOCK: tl.constexpr):\n"
        "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    total = tl.zeros((BLOCK,), dtype=tl.float32)\n"
        "    for at in range(K):\n"
        "        total += tl.load(x + i + at, mask=i + at < width + K - 1, other=0.0)\n"
        "    tl.store(y + i, total, mask=i < width)\n\n\n"
        "def f(x, window: int, block: int):\n"
        "    width = x.numel() - window + 1\n"
        "    y = torch.empty(width)\n"
        "    pool[(triton.cdiv(width, block),)](x, y, width, K=window, BLOCK=block)\n"
    )
    found = inferred_kernel(KernelSpec("pool", "/p/m.py", None, entry="pool"), HEAD + text, ["k", "pool"])
    assert isinstance(found, InferredKernel), found.reason
    assert found.spec.dims["window"].choices == (1, 2, 3) and found.spec.dims["block"].choices == (16, 32, 64, 128)


def test_equal_strides_are_equal_extents():
    found = entry(
        "def f(a, b, c):\n"
        "    A, B, C, D = a.shape\n"
        "    E, F, G, H = b.shape\n"
        "    assert a.stride() == b.stride()\n"
        "    k[(A * B * C * D,)](a, b, E * F * G * H, BLOCK=64)\n"
    )
    assert found.spec.args["x"].shape[1:] == found.spec.args["y"].shape[1:]


def test_a_fourth_axis_by_a_negative_index():
    found = entry(
        "def f(q):\n"
        "    y = torch.empty((q.shape[0], q.shape[1], q.shape[2], q.shape[-1]))\n"
        "    k[(q.shape[0] * q.shape[1],)](q, y, q.shape[2], BLOCK=64)\n"
    )
    assert len(found.spec.args["x"].shape) == 4 and "x" in found.uncertain


def test_zeros_of_integers_are_zero():
    found = entry(
        "def f(x):\n"
        "    lock, total = torch.zeros(1, dtype=torch.int32), torch.zeros(1)\n"
        "    locked[(4,)](lock, x, total, x.numel(), BLOCK=64)\n",
        "locked",
    )
    assert [str(one) for one in found.spec.args["lock"].range] == ["0", "1"]


def test_descriptors_are_of_their_pointers():
    found = entry(
        "def f(x):\n    y = torch.empty_like(x)\n    n = x.numel()\n"
        "    described[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)\n",
        "described",
    )
    pointers = {name: one.direction for name, one in found.spec.args.items() if isinstance(one, PointerSpec)}
    assert pointers == {"x": "in", "y": "out"}


@pytest.mark.parametrize("name", ["K", "args"])
def test_variables_of_functions_are_not_names_of_the_module(name):
    text = (
        "import broken\nimport triton\n\n\ndef configs():\n"
        f"    {name} = [2]\n    return [one for one in {name}]\n\n\n"
        f"if broken.wanted():\n    {name} = 1\n\n\n"
        "@triton.autotune(configs=configs(), key=[])\n@triton.jit\ndef k(x):\n    pass\n\n\n"
        f'if __name__ == "__main__":\n    {name} = broken.parse()\n    triton = None\n'
    )
    kept = ast.unparse(slice_of(ast.parse(text), "k"))
    assert "broken" not in kept and "def configs" in kept


def test_global_variables_of_functions_are_kept():
    text = (
        "import triton\nSIZE = 4\nOTHER = SIZE\n\n\ndef configs():\n    global OTHER\n    OTHER = 3\n"
        "    return [lambda size=SIZE: size + OTHER]\n\n\n@triton.jit\ndef k(x):\n    return configs()\n"
    )
    kept = ast.unparse(slice_of(ast.parse(text), "k"))
    assert "SIZE = 4" in kept and "OTHER = SIZE" in kept


def test_functions_that_a_kernel_calls_are_traversed_once_for_each_use():
    # Three traversals of each body, with four calls: more than a million without that.
    helpers = "".join(
        f"@triton.jit\ndef h{at}(v):\n"
        + "".join(f"    a{call} = {f'h{at + 1}(v)' if at < 5 else 'v * 2'}\n" for call in range(4))
        + "    return a0 + a1 + a2 + a3\n\n\n"
        for at in range(6)
    )
    kernel = (
        "@triton.jit\ndef deep(x, y, n, BLOCK: tl.constexpr):\n"
        "    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n"
        "    tl.store(y + i, h0(tl.load(x + i, mask=i < n)), mask=i < n)\n\n\n"
        "def f(x):\n    y = torch.empty_like(x)\n    deep[(triton.cdiv(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)\n"
    )
    spec = KernelSpec("deep", "/p/m.py", None, entry="deep")
    found = inferred_kernel(spec, HEAD + helpers + kernel, ["k", "deep", *(f"h{at}" for at in range(6))])
    assert isinstance(found, InferredKernel) and found.spec.args["y"].direction == "out"
