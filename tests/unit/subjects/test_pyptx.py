"""pyptx kernels in a `.py`: checked for drawn sizes, with findings on the lines that emitted the instructions."""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.project.expressions import evaluate, parse
from gpuemu_lsp.engine.source.python import read_python
from gpuemu_lsp.engine.subjects.pyptx.plans import unregistered_pyptx
from gpuemu_lsp.engine.subjects.pyptx.symbolic import SymbolicInt, expression_of, symbolic
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

EXAMPLE = Path(__file__).parents[3] / "examples/pyptx"
TWICE = """\
import jax
from pyptx import Tile, kernel, ptx, reg
from pyptx.types import f32, u32

WIDTH = 32


@kernel(
    in_specs=(Tile("N", f32),), out_specs=(Tile("N", f32),),
    grid=lambda N: N // WIDTH, block=(WIDTH, 1, 1), arch="sm_80",
)
def twice(X, Y):
    x, y = ptx.global_ptrs(X, Y)
    i = reg.scalar(u32)
    ptx.inst.mov.u32(i, ptx.special.ctaid.x())
    i = i * WIDTH + reg.from_(ptx.special.tid.x(), u32)
    store(y, i, doubled(x, i))
    ptx.ret()


def doubled(x, i):
    value = reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(x + i * 4))
    ptx.inst.add.f32(value, value, value)
    return value


def store(y, i, value):
    ptx.inst.st.global_.f32(ptx.addr(y + i * 4), value)


def test(x):
    assert jax.numpy.allclose(twice(x), 2 * x)
    return twice.ptx(N=64)
"""
CONFIG = """\
[[kernels]]
name = "twice"
source = "twice.py"
reference = "reference.py"
[kernels.dims]
N = [32, 96]
"""
BUILT = """\
from pyptx import Tile, kernel, ptx
from pyptx.types import f32


def build(rows, columns, scale=1.0, *, kind="a"):
    assert columns % 32 == 0, f"columns = {columns} is not a multiple of 32"

    @kernel(
        in_specs=(Tile(2 * rows, columns // 2, f32),), out_specs=(Tile(rows * columns, f32),),
        grid=(rows, -(-columns // 64), 1), block=(32, 1, 1), arch="sm_80",
    )
    def empty(X, Y):
        ptx.ret()

    return empty
"""

needs_pyptx = pytest.mark.skipif(importlib.util.find_spec("pyptx") is None, reason="pyptx is not installed")


def write(folder, text, config=CONFIG, name="twice.py"):
    (folder / name).write_text(text, encoding="utf-8")
    (folder / "gpuemu.toml").write_text(config, encoding="utf-8")
    (folder / "reference.py").write_text('def reference(inputs):\n    return 2 * inputs["X"]\n', encoding="utf-8")
    (spec,) = load(folder / "gpuemu.toml").kernels
    return spec


def checked(spec, registered=True, **options):
    """Return the report of a check and its findings, the hint on the launch left out."""
    events = list(check_kernel(CheckRequest(spec, CheckOptions(cases=4, **options), registered=registered)))
    found = [one for one in events if isinstance(one, Finding) and one.rule != "config/launch-inferred"]
    (report,) = [one for one in events if isinstance(one, KernelReport)]
    return report, found


def line_of(text, part):
    return next(number for number, line in enumerate(text.split("\n")) if part in line)


def test_integers_with_their_expression():
    m, n = symbolic(12, parse("m")), symbolic(5, parse("n"))
    for made in (m * n + 1, 3 * m, m // 4, -(-m // n), m % n, 100 - m, m << 2, (m >> 1) * (n - 1)):
        assert isinstance(made, SymbolicInt)
        expression = expression_of(made)
        assert evaluate(expression, {"m": 12, "n": 5}) == made
        assert evaluate(parse(str(expression)), {"m": 7, "n": 3}) == evaluate(expression, {"m": 7, "n": 3})
    assert str(expression_of((m + 1) * n)) == "m * n + n"
    assert type(m / n) is float and type(int(m)) is int and max(m, 20) == 20 and [0] * n == [0] * 5
    assert str(expression_of(-3)) == "-3" and str(expression_of(True)) == "1"


@needs_pyptx
def test_a_kernel_is_checked_without_the_imports_of_its_tests(tmp_path):
    report, found = checked(write(tmp_path, TWICE))
    assert (report.status, found) == ("passed", [])
    assert report.resources["sm_80"].registers > 0


@needs_pyptx
def test_a_finding_is_on_the_line_that_emitted_the_instruction_and_on_those_that_called_it(tmp_path):
    text = TWICE.replace("ptx.addr(y + i * 4)", "ptx.addr(y + i * 4 + 4)")
    report, found = checked(write(tmp_path, text))
    assert report.status == "failed"
    finding, *_ = [one for one in found if one.rule == "memory/out-of-bounds"]
    lines = text.split("\n")
    start = finding.place.range.start
    assert (start.line, start.column) == (line_of(text, "st.global_"), 4) and "Y[32]" in finding.message
    assert line_of(text, "store(y, i,") in [one.place.range.start.line for one in finding.related]
    assert lines[start.line][start.column :].startswith("ptx.inst.st")


@needs_pyptx
def test_a_wrong_number_is_on_the_store(tmp_path):
    text = TWICE.replace("ptx.inst.add.f32(value, value, value)", "ptx.inst.mul.f32(value, value, value)")
    _, found = checked(write(tmp_path, text))
    assert {(one.rule, one.place.range.start.line) for one in found} == {
        ("numeric/tolerance-exceeded", line_of(text, "st.global_"))
    }


@needs_pyptx
def test_shapes_and_grid_are_expressions_of_what_the_builder_computes(tmp_path):
    config = '[[kernels]]\nname = "empty"\nsource = "built.py"\nentry = "build"\n'
    config += "[kernels.dims]\nrows = [3, 5]\ncolumns = { min = 32, max = 320, multiple_of = 32 }\n"
    config += "[kernels.constexprs]\nkind = [\"'a'\", \"'b'\"]\nscale = 0.5\n"
    spec = write(tmp_path, BUILT, config, "built.py")
    prepared = prepare(CheckRequest(spec, CheckOptions(seed=0)))
    assert prepared.findings == ()
    (plan,) = prepared.plans
    sizes = {"rows": 3, "columns": 160, "kind": 1}
    shapes = {arg.param: [evaluate(size, sizes) for size in arg.shape] for arg in plan.args if hasattr(arg, "shape")}
    assert shapes == {"X": [6, 80], "Y": [480]}
    assert [evaluate(size, sizes) for size in plan.grid] == [3, 3, 1]
    assert [(arg.param, arg.direction) for arg in plan.args[:2]] == [("X", "in"), ("Y", "out")]


@needs_pyptx
def test_a_kernel_for_the_architecture_of_the_device_has_that_of_gpuemu_toml(tmp_path):
    text = TWICE.replace('arch="sm_80"', 'arch="auto"')
    for arch, target in (("sm_80", "sm_80"), ("sm_90", "sm_90a")):
        config = CONFIG.replace("[kernels.dims]", f'arch = "{arch}"\n[kernels.dims]')
        report, found = checked(write(tmp_path, text, config))
        assert (report.status, found, [*report.resources]) == ("passed", [], [target])


@needs_pyptx
def test_an_exception_of_the_builder_is_on_its_line(tmp_path):
    config = (
        '[[kernels]]\nname = "empty"\nsource = "built.py"\nentry = "build"\n[kernels.dims]\nrows = 3\ncolumns = 33\n'
    )
    report, (finding,) = checked(write(tmp_path, BUILT, config, "built.py"))
    assert report.status == "error" and finding.rule == "compile/error"
    assert finding.message == "AssertionError: columns = 33 is not a multiple of 32"
    assert finding.place.range.start.line == line_of(BUILT, "assert")


@needs_pyptx
def test_sizes_without_a_value_are_named(tmp_path):
    config = '[[kernels]]\nname = "empty"\nsource = "built.py"\n[kernels.dims]\nrows = 3\n'
    report, (finding,) = checked(write(tmp_path, BUILT, config, "built.py"))
    assert (
        report.status == "not-executed"
        and finding.rule == "config/ambiguous-signature"
        and "columns" in finding.message
    )


@needs_pyptx
@pytest.mark.parametrize(
    ("table", "message"),
    [
        ('[kernels.args]\nZ = { in = ["N"] }\n', "has no tensor 'Z'. It has: X, Y"),
        ('[kernels.args]\nX = { in = ["N"], dtype = "float16" }\n', "elements of type float32"),
        ("[kernels.constexprs]\nstep = 4\n", "has no parameter 'step'"),
        ('entry = "twise"\n', "Did you mean 'twice'?"),
    ],
)
def test_keys_that_the_kernel_does_not_have(tmp_path, table, message):
    before, dims, after = CONFIG.partition("[kernels.dims]")
    config = f"{before}{table}{dims}{after}" if table.startswith("entry") else CONFIG + table
    _, (finding,) = checked(write(tmp_path, TWICE, config))
    assert message in finding.message and finding.severity is Severity.ERROR


@needs_pyptx
def test_an_error_of_ptxas_is_on_the_line_that_emitted_the_instruction(tmp_path):
    text = TWICE.replace("    ptx.ret()\n", '    ptx.inst.mov.u32(i, "smem_7")\n    ptx.ret()\n', 1)
    report, found = checked(write(tmp_path, text))
    assert report.status == "error" and {one.rule for one in found} == {"compile/error"}
    assert {one.place.range.start.line for one in found} == {line_of(text, "smem_7")}
    assert any("smem_7" in one.message and "byte_offset" in one.message for one in found)


@needs_pyptx
def test_a_tensor_map_that_the_driver_refuses(tmp_path):
    text = BUILT.replace("        ptx.ret()", "        X.tma_desc()\n        ptx.ret()")
    config = (
        '[[kernels]]\nname = "empty"\nsource = "built.py"\nentry = "build"\n[kernels.dims]\nrows = 3\ncolumns = 32\n'
    )
    assert checked(write(tmp_path, text, config, "built.py"))[0].status != "error"
    # Rows of 18 * 4 bytes: not a multiple of 16.
    wrong = text.replace("columns // 2", "columns // 2 + 2")
    _, found = checked(write(tmp_path, wrong, config, "built.py"))
    assert [one.rule for one in found] == ["api/failed-launch"] and "not all multiples of 16" in found[0].message


@needs_pyptx
def test_the_example_has_one_correct_and_one_wrong_kernel(tmp_path):
    shutil.copytree(EXAMPLE, tmp_path / "pyptx")
    right, wrong = load(tmp_path / "pyptx/gpuemu.toml").kernels
    dims = {name: replace(dim, choices=(64,), minimum=64, maximum=64, include=()) for name, dim in right.dims.items()}
    report, found = checked(replace(right, dims=dims))
    assert (report.status, found) == ("passed", [])
    report, found = checked(replace(wrong, dims=dims))
    text = (tmp_path / "pyptx/matmul.py").read_text()
    (layout,) = [one for one in found if one.rule == "memory/tile-layout"]
    assert "k of A is 16..31 and k of B is 0..16" in layout.message
    assert layout.place.range.start.line == line_of(text, "ptx.wgmma.mma_async")
    assert line_of(text, "step * 32, step * 32") in [one.place.range.start.line for one in layout.related]


@needs_pyptx
def test_a_kernel_that_is_not_registered_has_the_sizes_of_a_call(tmp_path):
    path = tmp_path / "twice.py"
    path.write_text(TWICE)
    (spec,) = unregistered_pyptx(read_python(path.as_posix(), TWICE), ())
    report, found = checked(spec, registered=False)
    assert (report.status, found) == ("unreferenced", [])
    wrong = TWICE.replace("i * 4), value)", "i * 4 + 4), value)")
    path.write_text(wrong)
    report, found = checked(spec, registered=False)
    finding, *_ = [one for one in found if one.rule == "memory/out-of-bounds"]
    assert "N = 64" in finding.message and finding.severity is Severity.ERROR
    silent = TWICE.replace("N=64", "N=n")
    path.write_text(silent)
    (spec,) = unregistered_pyptx(read_python(path.as_posix(), silent), ())
    report, (finding,) = checked(spec, registered=False)
    assert report.status == "not-executed" and finding.rule == "engine/not-executed"
    assert 'language = "pyptx"\n[kernels.dims]\nN = [64, 128]' in finding.message


def test_an_untrusted_module_is_not_imported(tmp_path):
    marker = tmp_path / "imported"
    text = f"open({str(marker)!r}, 'w')\n{TWICE}"
    report, (finding,) = checked(write(tmp_path, text), execute=False)
    assert (report.status, finding.rule) == ("not-executed", "engine/not-executed")
    assert "not trusted" in finding.message and not marker.exists()


def test_where_pyptx_is_not_installed_nothing_is_imported(tmp_path, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "pyptx" else find_spec(name))
    report, (finding,) = checked(write(tmp_path, TWICE))
    assert report.status == "not-executed" and "pip install 'gpuemu-lsp[pyptx]'" in finding.message
