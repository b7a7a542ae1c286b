"""Launches of a kernel in files that import it."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.plan.wrappers.inference import inferred_kernel
from gpuemu_lsp.engine.plan.wrappers.inferred_kernel import InferredKernel, MissingLaunch
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.subjects.request import CheckOptions

KERNELS = """\
import triton
import triton.language as tl


@triton.jit
def _double(value):
    return value * 2


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, _double(tl.load(x + i, mask=i < n)), mask=i < n)


@triton.jit
def unused(x):
    tl.store(x, 1)
"""
LAYER = """\
import torch
from triton import cdiv

{imported}


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.empty_like(x)
        {name}[(cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
"""


def project(tmp_path, imported, name="double", package=True, folder="layers"):
    kernels = tmp_path / "lib" / "kernels.py"
    kernels.parent.mkdir()
    kernels.write_text(KERNELS)
    layer = tmp_path / "lib" / folder / "layer.py"
    layer.parent.mkdir(exist_ok=True)
    layer.write_text(LAYER.format(imported=imported, name=name))
    for one in {kernels.parent, layer.parent} if package else ():
        (one / "__init__.py").write_text("")
    return kernels, layer


def infer(kernels, name="double"):
    spec = KernelSpec(name, kernels.as_posix(), None, entry=name)
    return inferred_kernel(spec, KERNELS, ["_double", "double", "unused"])


def specs_of(path):
    targets = collect([str(path)], CheckOptions(), path.parent)
    return [(one.spec.name, one.spec.source) for one in targets.requests], [one.message for one in targets.findings]


@pytest.mark.parametrize(
    ("imported", "name"),
    [
        ("from ..kernels import double", "double"),
        ("from lib.kernels import double", "double"),
        ("from ..kernels import double as twice", "twice"),
    ],
)
def test_a_launch_in_a_module_that_imports_the_kernel(tmp_path, imported, name):
    kernels, layer = project(tmp_path, imported, name)
    found = infer(kernels)
    assert isinstance(found, InferredKernel), found.reason
    assert found.file == layer.as_posix() and found.function == "forward" and found.range.start.line == 10
    assert list(found.spec.args) == ["x", "y", "n"] and found.spec.args["y"].direction == "out"
    assert specs_of(kernels) == ([("double", kernels.as_posix())], [])
    assert specs_of(layer) == ([("double", kernels.as_posix())], [])


SETTINGS = """\
import triton

MOST = 1024


def block_of(n):
    block = triton.next_power_of_2(n)
    if block > MOST:
        raise ValueError("too many columns")
    return block
"""
ROWS = """\
import torch
import triton
import triton.language as tl

from .settings import block_of


@triton.jit
def negate(x, y, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * cols + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < cols
    tl.store(y + at, -tl.load(x + at, mask=mask), mask=mask)


def negated(x):
    rows, cols = x.shape
    y = torch.empty_like(x)
    negate[(rows,)](x, y, cols, BLOCK=block_of(cols))
    return y
"""


def test_functions_of_other_modules_are_evaluated(tmp_path):
    (tmp_path / "settings.py").write_text(SETTINGS)
    (tmp_path / "rows.py").write_text(ROWS)
    spec = KernelSpec("negate", (tmp_path / "rows.py").as_posix(), None, entry="negate")
    found = inferred_kernel(spec, ROWS, ["negate"])
    assert isinstance(found, InferredKernel), found.reason
    assert str(found.spec.constexprs["BLOCK"][0]) == "next_pow2(cols)"


def test_a_folder_means_its_python_files_with_launched_kernels(tmp_path):
    kernels, _ = project(tmp_path, "from ..kernels import double")
    (kernels.parent / "settings.py").write_text(SETTINGS)
    targets = collect([str(tmp_path)], CheckOptions(), tmp_path)
    assert [(one.spec.name, one.spec.source) for one in targets.requests] == [("double", kernels.as_posix())]
    assert targets.findings == ()


def test_modules_next_to_each_other_outside_of_packages(tmp_path):
    kernels, layer = project(tmp_path, "from kernels import double", package=False, folder=".")
    assert isinstance(infer(kernels), InferredKernel)
    assert specs_of(layer)[0] == [("double", kernels.as_posix())]


def test_folders_of_data_are_not_searched_to_their_end(tmp_path):
    kernels, _ = project(tmp_path, "from ..kernels import double")
    data = kernels.parent / "data"
    data.mkdir()
    for number in range(20_001):
        (data / str(number)).touch()
    assert isinstance(infer(kernels), MissingLaunch)


def test_a_kernel_of_the_same_name_in_another_module_is_another_one(tmp_path):
    kernels, layer = project(tmp_path, "from .kernels import double")
    other = layer.parent / "kernels.py"
    other.write_text(KERNELS)
    assert isinstance(infer(kernels), MissingLaunch) and isinstance(infer(other), InferredKernel)


def test_files_that_launch_no_kernel_are_named_so(tmp_path):
    kernels, layer = project(tmp_path, "from ..kernels import double", "other")
    assert specs_of(kernels)[0] == []
    message = specs_of(kernels)[1][0]
    assert "no file that imports _double, double, unused launches it" in message and "gpuemu.toml" in message
    assert "launches no Triton kernel" in specs_of(layer)[1][0] and "imports" not in specs_of(layer)[1][0]


def test_a_registered_kernel_is_not_checked_as_another_file_launches_it(tmp_path):
    kernels, layer = project(tmp_path, "from ..kernels import double")
    (tmp_path / "gpuemu.toml").write_text(
        '[[kernels]]\nname = "double"\nsource = "lib/kernels.py"\n[kernels.dims]\nn = { min = 1, max = 9 }\n'
        '[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\nn = "n"\n[kernels.constexprs]\nBLOCK = 16\n'
        '[kernels.launch]\ngrid = ["ceil_div(n, BLOCK)"]\n'
    )
    targets = collect([str(kernels)], CheckOptions(), tmp_path)
    assert [(one.spec.name, one.registered) for one in targets.requests] == [("double", True)]
    assert specs_of(layer)[0] == []
