"""Projects of valid files, and the documented examples of the original, which load unchanged."""

from __future__ import annotations

import math

import pytest

from gpuemu_lsp.engine.project import discover, load
from gpuemu_lsp.engine.project.expressions import Expression
from gpuemu_lsp.engine.project.model import (
    ArtifactChecks,
    DimSpec,
    Invariants,
    PointerSpec,
    Policies,
    Project,
    Tolerance,
    Validation,
)

ENTRY = '[[kernels]]\nname = "k"\nsource = "k.cu"\n'

# The two guides of the original, as printed there.
AUTHOR_GUIDE = """
[[kernels]]
name = "fused_gelu"
source = "kernels/gelu_kernel.cu"
reference = "scripts/ref_my_gelu.py"
[kernels.tolerances]
float32 = 1e-5
float16 = 1e-3
[kernels.invariants]
no_nan = true
no_inf = true
non_negative = false
shape_preserved = true
[kernels.artifact_checks]
max_registers = 32
max_spills = 0
max_local_memory = 0
required_patterns = ["gelu_forward"]
forbidden_patterns = ["__syncthreads"]

[[kernels]]
name = "fused_attention"
source = "kernels/attention.cu"
reference = "scripts/ref_attention.py"
[kernels.tolerances]
float32 = 1e-4
float16 = 1e-2
[kernels.invariants]
no_nan = true
no_inf = true
shape_preserved = true
[kernels.artifact_checks]
max_registers = 48
max_spills = 0
max_local_memory = 0
required_patterns = [
"fma.rn.f32",
"shfl.sync",
]
forbidden_patterns = [
"printf",
"assert",
]
"""
INTEGRATOR_GUIDE = """
[[ops]]
name = "flash_attention"
module = "flash_attn"
reference = "scripts/ref_flash_attention.py"
execution_mode = "client_side"

[ops.tolerances]
float32 = 1e-4
float16 = 1e-2
bfloat16 = 2e-2

[ops.invariants]
no_nan = true
no_inf = true
shape_preserved = true

[[ops]]
name = "rms_norm"
reference = "scripts/ref_rms_norm.py"

[ops.tolerances]
float32 = 1e-5
float16 = 5e-3
bfloat16 = 1e-2
"""


@pytest.fixture
def folder(tmp_path):
    names = "gelu_kernel.cu attention.cu ref_my_gelu.py ref_attention.py ref_flash_attention.py ref_rms_norm.py"
    (tmp_path / "kernels").mkdir()
    (tmp_path / "scripts").mkdir()
    (tmp_path / "include").mkdir()
    for name in names.split():
        (tmp_path / ("kernels" if name.endswith(".cu") else "scripts") / name).write_text("")
    for name in ("k.cu", "ref.py"):
        (tmp_path / name).write_text("")
    return tmp_path


def loaded(folder, text):
    project = load(folder / "gpuemu.toml", text)
    assert project.findings == () and project.broken == (), [finding.message for finding in project.findings]
    return project


def kernel(folder, text):
    (spec,) = loaded(folder, ENTRY + text).kernels
    return spec


def plain(value):
    """Return expressions as text, for readable rows."""
    if isinstance(value, Expression):
        return str(value)
    return tuple(map(plain, value)) if isinstance(value, tuple) else value


def test_author_guide(folder):
    gelu, attention = loaded(folder, AUTHOR_GUIDE).kernels
    assert gelu.source == (folder / "kernels/gelu_kernel.cu").as_posix()
    assert gelu.reference == (folder / "scripts/ref_my_gelu.py").as_posix()
    assert (gelu.dims, gelu.args, gelu.launch, gelu.dtypes, gelu.entry) == (None, None, None, None, None)
    assert gelu.tolerances == {"float32": Tolerance(1e-5, 1e-5), "float16": Tolerance(1e-3, 1e-3)}
    assert gelu.invariants == Invariants(no_nan=True, no_inf=True, shape_preserved=True)
    assert gelu.artifact_checks == ArtifactChecks(32, 0, 0, ("gelu_forward",), ("__syncthreads",))
    assert attention.artifact_checks.forbidden_patterns == ("printf", "assert")


def test_integrator_guide(folder):
    flash, rms = loaded(folder, INTEGRATOR_GUIDE).kernels
    assert (flash.name, flash.op.module, flash.op.execution_mode) == ("flash_attention", "flash_attn", "client_side")
    assert flash.reference == (folder / "scripts/ref_flash_attention.py").as_posix()
    assert flash.tolerances["bfloat16"] == Tolerance(2e-2, 2e-2)
    assert rms.invariants == Invariants()
    assert flash.places["name"].range.start.line == 2


def test_every_documented_key_of_the_original(folder):
    project = loaded(
        folder,
        """
project = { name = "p", version = "1.2", framework = "pytorch" }
validation.dtypes = ["f32", "float16", "float32"]
validation.check_nan = false
validation.check_inf = false
validation.strict_fences = true
validation.seed = 18446744073709551615
validation.tolerances = { f32 = 1e-4, half = { rtol = 1e-2 } }
policies = { fail_on_regression = false, warn_threshold = 1 }
ci = { quick_dtypes = ["bf16"], thorough_timeout = 10, parallel_jobs = 2 }
[[ops]]
name = "o"
reference = "ref.py:attention"
op_script = "ref.py"
input_names = ["q", "k"]
execution_mode = "script_based"
frameworks = ["jax"]
tolerances = { float16 = 1 }
""",
    )
    assert (project.name, project.version, project.framework) == ("p", "1.2", "pytorch")
    shared = {"float32": Tolerance(1e-4, 1e-4), "float16": Tolerance(0.0, 1e-2)}
    assert project.validation == Validation(2**64 - 1, False, False, ("float32", "float16"), shared, True)
    assert project.policies == Policies(False, 1.0, ("bfloat16",), 10, 2)
    (op,) = project.kernels
    assert (op.op.input_names, op.op.frameworks, op.reference_function) == (("q", "k"), ("jax",), "attention")
    assert op.tolerances == {"float32": Tolerance(1e-4, 1e-4), "float16": Tolerance(1.0, 1.0)}


def test_absent_tables_take_the_defaults(folder):
    project = loaded(folder, "")
    assert project == Project(folder.as_posix(), (folder / "gpuemu.toml").as_posix())
    assert loaded(folder, "[validation]\nseed = 1").validation.tolerances == {}


KEYS = [
    ("", "arch", ("sm_80",)),
    ("arch = 'sm_90a'", "arch", ("sm_90a",)),
    ("arch = ['sm_80', 'sm_120f', 'sm_80']", "arch", ("sm_80", "sm_120f")),
    ("dtypes = 'half'", "dtypes", ("float16",)),
    ("dtypes = ['bf16', 'f64', 'i8', 'uint64', 'bool', 'float8_e5m2']", "dtypes",
     ("bfloat16", "float64", "int8", "uint64", "bool", "float8_e5m2")),
    ("entry = 'ns::k<{T}, 256>'", "entry", "ns::k<{T}, 256>"),
    ("compile_options = '-DX=\"a b\" --use_fast_math'", "compile_options", ("-DX=a b", "--use_fast_math")),
    ("compile_options = ['-DX=\"a b\"']", "compile_options", ('-DX="a b"',)),
    ("compile_options = []", "compile_options", ()),
    ("reference = 'ref.py'", "reference_function", "reference"),
    ("reference = 'ref.py:softmax'", "reference_function", "softmax"),
    ("[kernels.artifact_checks]", "artifact_checks", ArtifactChecks(64, 0, 0, (), ())),
    ("[kernels.dims]", "dims", {}),
    ("[kernels.args]", "args", {}),
    ("[kernels.tolerances]\nf32 = { atol = 1, rtol = 2.5 }", "tolerances", {"float32": Tolerance(1.0, 2.5)}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "key", "value"), KEYS)
def test_key(folder, text, key, value):
    assert getattr(kernel(folder, text), key) == value


DIMS = [
    ("8", DimSpec("n", 8, 8)),
    ("[64, 1, 64]", DimSpec("n", 1, 64, choices=(64, 1))),
    ("{}", DimSpec("n")),
    ("{ min = 2, max = 9, include = [3, 3, 9], multiple_of = 3 }", DimSpec("n", 2, 9, (3, 9), 3)),
    ("{ include = 5000 }", DimSpec("n", None, None, (5000,))),
    ("{ min = 4096 }", DimSpec("n", 4096, 8192)),
    ("{ multiple_of = 2048 }", DimSpec("n", None, 4096, (), 2048)),
]


@pytest.mark.parametrize(("text", "dim"), DIMS)
def test_dim(folder, text, dim):
    assert kernel(folder, f"[kernels.dims]\nn = {text}").dims == {"n": dim}


SCALARS = [
    ('"n"', "n"),
    ("3", "3"),
    ("-3", "-3"),
    ("1e-5", 1e-5),
    ("-inf", -math.inf),
    ("true", True),
    ('"2 * n"', "2 * n"),
]


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_scalar(folder, text, value):
    args = kernel(folder, f"[kernels.dims]\nn = 8\n[kernels.args]\na = {text}\nb = {{ value = {text}, as = 'B' }}").args
    assert (plain(args["a"].value), type(args["a"].value) is bool) == (value, value is True)
    assert (plain(args["b"].value), args["b"].key) == (value, "B")


POINTERS = [
    ('in = "n"', ("in", ("n",)), {}),
    ("out = 4", ("out", ("4",)), {}),
    ('inout = ["n", 4, "n // 2"]', ("inout", ("n", "4", "n // 2")), {}),
    ('in = ["n"], as = "logits"', ("in", ("n",)), {"key": "logits"}),
    ('in = ["n"], range = [0, "n"]', ("in", ("n",)), {"range": ("0", "n")}),
    ('in = ["n"], range = [-1.5, 2]', ("in", ("n",)), {"range": (-1.5, "2")}),
    ('in = ["n"], range = [0, 0]', ("in", ("n",)), {"range": ("0", "0")}),
    ('in = ["n"], dtype = "f16", align = 4, strided = true', ("in", ("n",)),
     {"dtype": "float16", "align": 4, "strided": True}),
    ('in = ["q.size + q.shape(0) * q.stride(1)"]', ("in", ("q.size + q.shape(0) * q.stride(1)",)), {}),
    ('in = ["n"], may_alias = "q"', ("in", ("n",)), {"may_alias": "q"}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "role", "more"), POINTERS)
def test_pointer(folder, text, role, more):
    head = "[kernels.dims]\nn = 8\n[kernels.args]\n"
    spec = kernel(folder, f"{head}x = {{ {text} }}\nq = {{ in = [2, 'n'] }}").args["x"]
    found = {name: plain(getattr(spec, name)) for name in ("key", "range", "dtype", "align", "strided", "may_alias")}
    absent = {name: getattr(PointerSpec("in", ()), name) for name in found}
    assert (spec.direction, plain(spec.shape)) == role
    assert found == {**absent, **more}


LAUNCHES = [
    ("grid = 1\nblock = 256", ("1",), ("256",), None),
    ('grid = "ceil_div(n, 256)"\nshared = "4 * 256"', ("ceil_div(n, 256)",), None, "4 * 256"),
    ('grid = [1, "m", 65535]\nblock = [32, 32]\nshared = 0', ("1", "m", "65535"), ("32", "32"), "0"),
]


@pytest.mark.parametrize(("text", "grid", "block", "shared"), LAUNCHES)
def test_launch_may_use_parameters_that_are_inferred(folder, text, grid, block, shared):
    launch = kernel(folder, f"[kernels.launch]\n{text}").launch
    assert (plain(launch.grid), plain(launch.block), plain(launch.shared)) == (grid, block, shared)


@pytest.mark.parametrize(
    ("arch", "size", "fits"),
    [
        ("sm_75", 65536, True),
        ("sm_75", 65537, False),
        ("sm_80", 166912, True),
        ("sm_90a", 232448, True),
        ("sm_90", 232449, False),
        ("sm_150", 232448, True),
    ],
)
def test_shared_memory_limit(folder, arch, size, fits):
    project = load(folder / "gpuemu.toml", f"{ENTRY}arch = '{arch}'\n[kernels.launch]\nshared = {size}")
    assert (project.findings == ()) is fits


def test_dtypes_of_validation_only_fill_a_template(folder):
    text = "[validation]\ndtypes = ['f32', 'f16']\n" + ENTRY + "{}" + ENTRY.replace('"k"', '"plain"')
    template, other = loaded(folder, text.format("entry = 'k<{T}>'\n")).kernels
    assert (template.dtypes, other.dtypes) == (("float32", "float16"), None)


def test_places(folder):
    text = (
        "[validation.tolerances]\nf64 = 1\n"
        + ENTRY
        + (
            "tolerances = { f32 = 2 }\n[kernels.dims]\nn = { max = 7 }\n"
            "[kernels.args]\nx = { in = ['n', 3] }\n[kernels.launch]\nblock = 32\n"
        )
    )
    (spec,) = loaded(folder, text).kernels
    lines = text.split("\n")
    shown = {
        key: lines[place.range.start.line][place.range.start.column : place.range.end.column]
        for key, place in spec.places.items()
    }
    expected = {
        "": "[[kernels]]",
        "name": '"k"',
        "source": '"k.cu"',
        "tolerances.float32": "2",
        "tolerances.float64": "1",
        "dims": "[kernels.dims]",
        "dims.n": "{ max = 7 }",
        "dims.n.max": "7",
        "args.x.in": "['n', 3]",
        "args.x.in.1": "3",
        "launch.block": "32",
    }
    assert {key: shown.get(key) for key in expected} == expected


def test_relative_paths_follow_the_configuration(folder, monkeypatch, tmp_path_factory):
    nested = folder / "nested"
    nested.mkdir()
    (nested / "gpuemu.toml").write_text("[[kernels]]\nname = 'k'\nsource = '../k.cu'\ninclude_dirs = '../include'\n")
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    (spec,) = load(nested / "gpuemu.toml", root=folder).kernels
    assert (spec.source, spec.include_dirs) == ((folder / "k.cu").as_posix(), ((folder / "include").as_posix(),))


def test_unsaved_text_replaces_the_file(folder):
    config = folder / "gpuemu.toml"
    config.write_text("[project]\nname = 'saved'")
    assert (load(config).name, load(config, "[project]\nname = 'typed'").name) == ("saved", "typed")


def test_no_configuration(folder):
    assert load(None, root=folder) == Project(folder.as_posix(), None)


@pytest.mark.parametrize(("name", "word"), [("none.toml", "does not exist"), ("include", "is a folder")])
def test_unreadable_configuration(folder, name, word):
    (finding,) = load(folder / name).findings
    assert (finding.rule, word in finding.message) == ("config/missing-file", True)


def test_discover(folder, monkeypatch):
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    deep = folder / "kernels" / "a" / "b"
    deep.mkdir(parents=True)
    (folder / "gpuemu.toml").write_text("")
    assert discover(deep) == folder / "gpuemu.toml"
    assert discover(folder / "kernels" / "gelu_kernel.cu") == folder / "gpuemu.toml"
    (deep.parent / "gpuemu.toml").write_text("")
    assert discover(deep) == deep.parent / "gpuemu.toml"
    assert discover(folder.parent.parent.parent) is None
    monkeypatch.setenv("GPUEMU_CONFIG", str(folder / "gone.toml"))
    assert discover(deep) == folder / "gone.toml"
    (finding,) = load(discover(deep)).findings
    assert "GPUEMU_CONFIG" in finding.message
