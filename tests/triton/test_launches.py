"""Triton launches in the emulator: results, findings on the `.py`, and every kind of argument."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import gpuemu.triton
from gpuemu.triton import KernelError, emulated


def line_of(function, text):
    """Return the 1-based line of this file on which `text` stands in a kernel."""
    lines, first = inspect.getsourcelines(function.fn)
    return first + next(index for index, line in enumerate(lines) if text in line)


def found(session):
    return [(finding.rule, finding.place.range.start.line + 1) for finding in session.findings]


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside), mask=inside)


@triton.jit
def add_unmasked(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    first = tl.load(x + offsets, mask=inside)
    second = tl.load(y + offsets)
    tl.store(out + offsets, first + second, mask=inside)


@pytest.mark.parametrize("n", [1, 255, 256, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32])
def test_results_are_those_of_the_formula(n, dtype):
    with emulated() as session:
        x = (torch.randn(n, device="cuda") * 100).to(dtype)
        y = (torch.randn(n, device="cuda") * 100).to(dtype)
        out = torch.empty_like(x)
        add[(triton.cdiv(n, 256),)](x, y, out, n, BLOCK=256)
    assert torch.equal(out, x + y)
    assert [record.status for record in session.launches] == ["completed"] and not session.findings


def test_a_load_without_mask_is_out_of_bounds_on_its_line():
    x, y, out = (torch.zeros(1000) for _ in range(3))
    with emulated(on_finding="collect") as session:
        add_unmasked[(4,)](x, y, out, 1000, BLOCK=256)
    assert found(session) == [("memory/out-of-bounds", line_of(add_unmasked, "second ="))]
    (finding,) = session.findings
    assert finding.message == "read of y[1000] is out of bounds: y has 1000 elements"
    assert finding.place.path == __file__ and finding.kernel == "add_unmasked"


def test_findings_raise_or_warn():
    x = torch.zeros(1000)
    with emulated() as session, pytest.raises(KernelError, match=r"test_launches\.py:\d+:\d+: read of y\[1000\]"):
        add_unmasked[(4,)](x, x.clone(), x.clone(), 1000, BLOCK=256)
    assert len(session.launches) == 1
    with emulated(on_finding="warn"), pytest.warns(UserWarning, match="memory/out-of-bounds"):
        add_unmasked[(4,)](x, x.clone(), x.clone(), 1000, BLOCK=256)


def test_numpy_arrays_are_arguments():
    x, y = np.arange(300, dtype=np.float32), np.ones(300, np.float32)
    out = np.empty_like(x)
    with emulated():
        add[(2,)](x, y, out, 300, BLOCK=256)
    assert np.array_equal(out, x + y)


@triton.jit
def scale_rows(x, out, row_step, column_step, columns, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(x + row * row_step + column * column_step, mask=inside)
    tl.store(out + row * columns + column, value * 2, mask=inside)


@pytest.mark.parametrize("view", ["transposed", "middle", "every second row"])
def test_views_reach_their_whole_storage(view):
    whole = torch.randn(24, 40)
    x = {"transposed": whole.T, "middle": whole[3:20, 5:30], "every second row": whole[::2]}[view]
    out = torch.empty(x.shape)
    with emulated() as session:
        scale_rows[(x.shape[0],)](x, out, x.stride(0), x.stride(1), x.shape[1], BLOCK=64)
    assert torch.equal(out, x * 2) and not session.findings


def test_bounds_are_those_of_the_storage():
    whole = torch.zeros(100)
    with emulated(on_finding="collect") as session:
        scale_rows[(2,)](whole[50:], torch.zeros(2, 60), 60, 1, 60, BLOCK=64)
    assert found(session) == [("memory/out-of-bounds", line_of(scale_rows, "value ="))]


def test_two_views_of_one_tensor_share_memory():
    whole = torch.arange(512, dtype=torch.float32)
    with emulated():
        add[(1,)](whole[:256], whole[256:], whole[:256], 256, BLOCK=256)
    assert torch.equal(whole[:256], torch.arange(256, dtype=torch.float32) * 2 + 256)


@triton.jit
def histogram_without_atomics(x, counts, BLOCK: tl.constexpr):
    values = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    total = tl.load(counts) + tl.sum(values, axis=0)
    tl.store(counts, total)


@triton.jit
def histogram(x, counts, BLOCK: tl.constexpr):
    values = tl.load(x + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.atomic_add(counts, tl.sum(values, axis=0))


def test_programs_that_update_one_element_race():
    x, counts = torch.ones(1024), torch.zeros(1)
    with emulated(on_finding="collect") as session:
        histogram_without_atomics[(4,)](x, counts, BLOCK=256)
    assert {rule for rule, _ in found(session)} == {"memory/global-race"}
    assert {line for _, line in found(session)} <= {
        line_of(histogram_without_atomics, "total ="),
        line_of(histogram_without_atomics, "tl.store"),
    }


@triton.jit
def multiply_by_compare_and_swap(x, out, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    factor = tl.load(x + offsets)
    done = offsets < 0
    all_done = False
    while not all_done:
        old = tl.load(out + offsets % 4)
        new = tl.where(done, old, old * factor)
        done |= tl.atomic_cas(out + offsets % 4, old, new, sem="relaxed") == old
        all_done = tl.sum(done.to(tl.int32)) == BLOCK


def test_a_read_that_a_compare_and_swap_repeats_is_not_a_race():
    with emulated(on_finding="collect") as session:
        out = torch.ones(4)
        multiply_by_compare_and_swap[(2,)](torch.full((8,), 2.0), out, BLOCK=4)
    assert out.tolist() == [4.0] * 4 and not session.findings


def test_atomics_between_programs_do_not_race():
    x, counts = torch.ones(1024), torch.zeros(1)
    with emulated() as session:
        histogram[(4,)](x, counts, BLOCK=256)
    assert counts.item() == 1024 and not session.findings


@triton.jit
def attention_like(q, k, out, N: tl.constexpr, D: tl.constexpr):
    rows, columns = tl.arange(0, N), tl.arange(0, D)
    a = tl.load(q + rows[:, None] * D + columns[None, :])
    b = tl.load(k + rows[:, None] * D + columns[None, :])
    scores = tl.dot(a, tl.trans(b))
    weights = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    weights = weights / tl.sum(weights, axis=1)[:, None]
    tl.store(out + rows[:, None] * D + columns[None, :], tl.dot(weights.to(tl.float16), a).to(tl.float16))


def test_shared_memory_that_triton_lays_out_is_not_a_race():
    q, k = torch.randn(64, 32, dtype=torch.float16), torch.randn(64, 32, dtype=torch.float16)
    out = torch.empty_like(q)
    with emulated() as session:
        attention_like[(1,)](q, k, out, N=64, D=32)
    expected = torch.softmax(q.double() @ k.double().T, 1) @ q.double()
    assert (out.double() - expected).abs().max() < 5e-3 and not session.findings


@triton.autotune(configs=[triton.Config({"BLOCK": size}) for size in (64, 128)], key=["n"])
@triton.jit
def add_autotuned(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside), mask=inside)


def test_every_configuration_of_an_autotuner_runs():
    x, y, out = torch.randn(300), torch.randn(300), torch.empty(300)
    with emulated() as session:
        add_autotuned[lambda meta: (triton.cdiv(300, meta["BLOCK"]),)](x, y, out, 300)
    assert torch.equal(out, x + y)
    assert {record.grid[0] for record in session.launches} == {5, 3}


@triton.jit
def add_scalars(out, values, half, big, flag):
    tl.store(out, values[0] + values[1] + half + big + flag)


def test_scalars_and_tuples_are_arguments():
    out = torch.zeros(1, dtype=torch.float64)
    with emulated():
        add_scalars[(1,)](out, (3, 2.5), 0.25, 2**20, True)
    assert out.item() == 3 + 2.5 + 0.25 + 2**20 + 1


@triton.jit
def copy_tile(source, target, M: tl.constexpr, N: tl.constexpr):
    target.store([0, 0], source.load([0, 0]))


def test_tensor_descriptors_are_arguments():
    from triton.tools.tensor_descriptor import TensorDescriptor

    x, out = torch.randn(16, 32), torch.zeros(16, 32)
    with emulated() as session:
        copy_tile[(1,)](TensorDescriptor.from_tensor(x, [16, 32]), TensorDescriptor.from_tensor(out, [16, 32]), 16, 32)
    assert torch.equal(out, x) and not session.findings


@triton.jit
def check_positive(x):
    tl.device_assert(tl.load(x + tl.program_id(0)) > 0, "not positive")


def test_a_failed_device_assert_is_on_its_line(monkeypatch):
    monkeypatch.setenv("TRITON_DEBUG", "1")
    with emulated(on_finding="collect") as session:
        check_positive[(2,)](torch.tensor([1.0, -1.0]), debug=True)
    assert found(session) == [("sync/trap", line_of(check_positive, "device_assert"))]
    assert "not positive" in session.findings[0].message


@triton.jit
def print_program():
    tl.device_print("program", tl.program_id(0))


def test_device_print_is_printed(capsys):
    with emulated():
        print_program[(2,)](num_warps=1)
    assert "program" in capsys.readouterr().out


def test_an_empty_grid_launches_nothing():
    with emulated() as session:
        add[(0,)](torch.zeros(1), torch.zeros(1), torch.zeros(1), 0, BLOCK=256)
    assert not session.launches


def test_activation_lasts_until_it_is_ended():
    session = gpuemu.triton.activate(on_finding="collect")
    try:
        out = torch.zeros(256)
        add[(1,)](torch.ones(256), torch.ones(256), out, 256, BLOCK=256)
    finally:
        gpuemu.triton.deactivate()
    assert out.sum() == 512 and len(session.launches) == 1


SUITE = """
import torch, triton, triton.language as tl

@triton.jit
def double(x, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x + offsets, tl.load(x + offsets, mask=offsets < n) * 2{MASK})

def test_double():
    x = torch.ones(100, device="cuda")
    double[(1,)](x, 100, BLOCK=128)
    assert (x == 2).all()
"""


@pytest.mark.parametrize("mask, code", [(", mask=offsets < n", 0), ("", 1)])
def test_a_suite_runs_with_the_option(tmp_path, mask, code):
    import subprocess
    import sys

    (tmp_path / "test_suite.py").write_text(SUITE.replace("{MASK}", mask))
    command = [sys.executable, "-m", "pytest", "-q", "--gpuemu-triton", "-p", "no:cacheprovider", "test_suite.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == code, done.stdout + done.stderr
    assert "1 launches" in done.stdout or "1 launch" in done.stdout
    assert ("x[100] is out of bounds" in done.stdout) == bool(code)


def test_the_device_is_there_when_conftest_is_imported(tmp_path):
    import subprocess
    import sys

    (tmp_path / "conftest.py").write_text("import torch\nassert torch.ones(2, device='cuda').is_cuda\n")
    (tmp_path / "test_suite.py").write_text("def test_nothing():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "--gpuemu-triton", "-p", "no:cacheprovider", "test_suite.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr


def test_locations_inside_inline_assembly_are_those_of_its_statement():
    from gpuemu_lsp.engine.compile.triton_backend import with_fixed_locations

    ptx = ".loc 1 5 0\n// begin inline asm\n.loc 1 9 1\na;\n.loc 1 10 1\nb;\n// end inline asm\n.loc 1 11 1\n"
    assert with_fixed_locations(ptx) == (
        ".loc 1 5 0\n// begin inline asm\n.loc 1 9 1\na;\n\nb;\n// end inline asm\n.loc 1 11 1\n"
    )


def test_the_file_of_a_finding_is_never_tritons_own():
    x = torch.zeros(100)
    with emulated(on_finding="collect") as session:
        reduce_unmasked[(1,)](x, torch.zeros(1), BLOCK=128)
    assert [Path(finding.place.path).name for finding in session.findings] == ["test_launches.py"]


@triton.jit
def reduce_unmasked(x, out, BLOCK: tl.constexpr):
    tl.store(out, tl.max(tl.load(x + tl.arange(0, BLOCK)), axis=0))


@triton.jit
def choose(condition, x, y, out, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    if tl.load(condition):
        value = tl.load(x + offsets)
    else:
        value = tl.load(y + offsets)
    tl.store(out + offsets, value)


@pytest.mark.parametrize("condition", [0, 1])
def test_a_branch_that_chooses_between_pointers(condition):
    x, y, out = torch.full((128,), 1.0), torch.full((128,), 2.0), torch.zeros(128)
    with emulated() as session:
        choose[(1,)](torch.tensor([condition]), x, y, out, BLOCK=128)
    assert torch.equal(out, x if condition else y) and not session.findings


def test_intermediate_forms_are_text():
    with emulated():
        compiled = add[(1,)](torch.ones(8), torch.ones(8), torch.zeros(8), 8, BLOCK=32)
    assert ".entry add" in compiled.asm["ptx"] and "tt.func" in compiled.asm["ttir"]


@triton.jit
def add_atomically(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.atomic_add(out + offsets // 2, tl.load(x + offsets, mask=inside), mask=inside)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_atomic_sums_of_an_odd_number_of_elements(dtype):
    x, out = torch.ones(50, dtype=dtype), torch.zeros(25, dtype=dtype)
    with emulated() as session:
        add_atomically[(2,)](x, out, 50, BLOCK=32)
    assert (out == 2).all() and not session.findings


@triton.jit
def first_call(counter, out, BLOCK: tl.constexpr):
    calls = tl.load(counter)
    tl.store(counter, calls + 1)
    if calls == 0:
        offsets = tl.arange(0, BLOCK)
        tl.store(out + offsets, offsets)
        tl.store(out, tl.sum(tl.load(out + offsets)))


@pytest.mark.parametrize("num_warps", [1, 4, 8])
def test_a_program_loads_before_it_stores(num_warps):
    counter, out = torch.zeros(1, dtype=torch.int32), torch.zeros(256, dtype=torch.int32)
    with emulated() as session:
        first_call[(1,)](counter, out, BLOCK=256, num_warps=num_warps)
    assert counter.item() == 1 and out[0].item() == 255 * 128 and torch.equal(out[1:], torch.arange(1, 256))
    assert not session.findings
