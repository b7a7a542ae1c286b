"""The entry of a Triton kernel, written from a launch in its file."""

from __future__ import annotations

from gpuemu_lsp.engine.jobs.registration import skeleton
from gpuemu_lsp.engine.jobs.triton_registration import triton_registration
from gpuemu_lsp.engine.plan.wrappers.inference import inferred_kernel
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.project.model import KernelSpec

TEXT = """\
import torch
import triton
import triton.language as tl


@triton.jit
def rows(x, y, w, stride, n, eps, BLOCK: tl.constexpr, KIND: tl.constexpr):
    i = tl.arange(0, BLOCK)
    row = tl.program_id(0) * stride
    value = tl.load(x + row + i, mask=i < n) * tl.load(w + i, mask=i < n)
    tl.store(y + row + i, value, mask=i < n)


def f(x, w):
    M, N = x.shape
    assert N % 4 == 0
    y = torch.empty_like(x, dtype=torch.float16)
    rows[(M,)](x, y, w, x.stride(0), N, 1e-5, BLOCK=triton.next_power_of_2(N), KIND="sum", num_warps=4)
    return y
"""


def test_the_entry_loads_and_is_the_launch(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(TEXT)
    (tmp_path / "ref.py").write_text("def reference(inputs): pass\n")
    spec = KernelSpec("rows", path.as_posix(), None, entry="rows", language="triton")
    found = triton_registration(spec, TEXT, "m.py", "ref.py", skeleton)
    (tmp_path / "gpuemu.toml").write_text(found["entry"])
    project = load(tmp_path / "gpuemu.toml")
    assert not project.findings
    (loaded,) = project.kernels
    inferred = inferred_kernel(spec, TEXT, ["rows"]).spec
    assert (loaded.args["x"], loaded.args["eps"]) == (inferred.args["x"], inferred.args["eps"])
    assert loaded.args["y"].dtype == "float16" and loaded.constexprs == inferred.constexprs
    assert loaded.launch == inferred.launch
    assert loaded.dims["N"].multiple_of == 4
    assert 'w = { in = ["M * N"] }  # the shape is assumed' in found["entry"]
    assert "np.zeros((M, N,))" in found["reference"]


def test_a_launch_that_is_not_known_is_the_trouble():
    text = TEXT.replace("torch.empty_like(x, dtype=torch.float16)", "allocate(x)")
    spec = KernelSpec("rows", "/p/m.py", None, entry="rows", language="triton")
    found = triton_registration(spec, text, "m.py", "ref.py", skeleton)
    assert "`allocate(x)`" in found["trouble"]
