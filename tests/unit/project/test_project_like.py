"""``like``: inherited keys, their positions, and errors in following it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuemu_lsp.engine.project import inheritance, load
from gpuemu_lsp.engine.project.edits import applied, kernel_index, set_in_kernel
from gpuemu_lsp.engine.project.model import Tolerance

BASE = """\
[[kernels]]
name = "base"
source = "k.cu"
reference = "ref.py"
dtypes = ["float32", "float16"]
compile_options = ["-O3"]
[kernels.dims]
n = { min = 1, max = 64 }
m = [1, 33]
[kernels.args]
x = { in = ["n", "m"], range = [0, 1] }
y = { out = ["n", "m"] }
[kernels.launch]
grid = "ceil_div(n, 32)"
block = 32
[kernels.tolerances]
float32 = 1e-5
float16 = 1e-3
"""
DERIVED = '[[kernels]]\nname = "derived"\nlike = "base"\n'


@pytest.fixture
def read(tmp_path):
    for name in ("k.cu", "other.cu", "ref.py"):
        (tmp_path / name).write_text("")

    def project(text: str):
        return load(tmp_path / "gpuemu.toml", text)

    return project


def marked(text: str) -> tuple[str, str]:
    """Return a text without the marks, and the part between them."""
    return text.replace("«", "").replace("»", ""), text[text.index("«") + 1 : text.index("»")]


def underlined(text: str, place) -> str:
    span = place.range
    assert span.start.line == span.end.line
    return text.split("\n")[span.start.line].encode()[span.start.column : span.end.column].decode()


def specs(project):
    assert not project.findings, project.findings
    return {spec.name: spec for spec in project.kernels}


def bare(spec):
    """Return a spec without the fields in which a derived entry that sets nothing differs from its base."""
    return replace(spec, name="", places={}, like=None, inherited=frozenset())


@pytest.mark.parametrize("text", [BASE + DERIVED, DERIVED + BASE], ids=["after", "before"])
def test_an_entry_that_sets_nothing_is_its_base(read, text):
    kernels = specs(read(text))
    assert bare(kernels["derived"]) == bare(kernels["base"])
    assert list(kernels["derived"].args) == ["x", "y"]
    assert kernels["derived"].like == "base"
    assert kernels["base"].like is None and not kernels["base"].inherited


def test_own_keys_replace_inherited_ones(read):
    own = 'source = "other.cu"\ndtypes = ["float64"]\ncompile_options = []\n'
    kernels = specs(read(BASE + DERIVED + own))
    derived = kernels["derived"]
    assert derived.source.endswith("/other.cu") and kernels["base"].source.endswith("/k.cu")
    assert derived.dtypes == ("float64",)
    assert derived.compile_options == ()
    assert derived.reference == kernels["base"].reference


def test_tables_are_merged_key_by_key(read):
    own = """\
[kernels.dims]
k = 8
m = 4
[kernels.args]
y = { inout = ["k"] }
[kernels.launch]
block = 64
[kernels.tolerances]
f32 = 1e-4
"""
    kernels = specs(read(BASE + DERIVED + own))
    base, derived = kernels["base"], kernels["derived"]
    assert list(derived.dims) == ["n", "m", "k"]
    assert (derived.dims["n"], derived.dims["m"].choices, derived.dims["m"].maximum) == (base.dims["n"], (), 4)
    assert derived.args["x"] == base.args["x"]
    assert derived.args["y"].direction == "inout" and derived.args["y"].key is None
    assert str(derived.launch.block[0]) == "64" and derived.launch.grid == base.launch.grid
    assert derived.tolerances == {"float32": Tolerance(1e-4, 1e-4), "float16": Tolerance(1e-3, 1e-3)}
    assert list(base.dims) == ["n", "m"] and base.args["y"].direction == "out"


def test_chains_are_followed(read):
    text = (
        '[[kernels]]\nname = "c"\nlike = "b"\n[kernels.dims]\nn = 3\n'
        '[[kernels]]\nname = "b"\nlike = "base"\nsource = "other.cu"\n[kernels.dims]\nm = 2\n' + BASE
    )
    kernels = specs(read(text))
    assert kernels["c"].source.endswith("/other.cu")
    assert [dim.maximum for dim in kernels["c"].dims.values()] == [3, 2]
    assert [dim.maximum for dim in kernels["b"].dims.values()] == [64, 2]


def test_places_of_inherited_values_are_in_the_base(read):
    derived = specs(read(BASE + DERIVED + "[kernels.dims]\nn = 5\n"))["derived"]
    lines = {key: place.range.start.line for key, place in derived.places.items()}
    header = BASE.count("\n")
    assert lines[""] == header and lines["name"] == header + 1 and lines["like"] == header + 2
    assert lines["dims"] == header + 3 and lines["dims.n"] == header + 4
    assert lines["source"] == 2 and lines["dims.m"] == 8 and lines["args.x.range"] == 10 and lines["launch.block"] == 14
    assert "dims.m" in derived.inherited and "launch" in derived.inherited
    assert not {"name", "like", "dims", "dims.n", ""} & derived.inherited


def test_an_own_table_has_its_own_header(read):
    text = BASE + DERIVED + "[kernels.launch]\nshared = 16\n"
    derived = specs(read(text))["derived"]
    assert underlined(text, derived.places["launch.block"]) == "32"
    assert underlined(text, derived.places["launch.shared"]) == "16"
    assert underlined(text, derived.places["launch"]) == "[kernels.launch]"
    assert derived.places["launch"].range.start.line > derived.places["like"].range.start.line


MISTAKES = [
    (BASE + '[[kernels]]\nname = "d"\nlike = «"bse"»', "There is no kernel `bse` in this file. Did you mean `base`?"),
    (BASE + '[[kernels]]\nname = "d"\nlike = «"zzz"»', "There is no kernel `zzz` in this file."),
    (BASE + '[[kernels]]\nname = "d"\nlike = «"d"»', "`like` names its own entry; name another one."),
    (BASE + '[[kernels]]\nname = "d"\nlike = «3»', "must be the name of another kernel"),
    (BASE + '[[kernels]]\nname = "d"\nlike = «""»', "must be the name of another kernel"),
    (BASE + '«[[kernels]]»\nlike = "base"', "Missing key `name`"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_mistakes(read, text, message):
    text, part = marked(text)
    project = read(text)
    (finding,) = project.findings
    assert underlined(text, finding.place) == part
    assert message in finding.message
    assert [spec.name for spec in project.kernels] == ["base"]
    assert project.broken == ("d" if 'name = "d"' in text else "#2",)


def test_a_cycle_is_reported_at_each_of_its_entries(read):
    entry = '[[kernels]]\nname = "{}"\nsource = "k.cu"\nlike = "{}"\n'
    text = "".join(entry.format(*pair) for pair in ("ab", "bc", "ca", "da"))
    project = read(text)
    assert [finding.kernel for finding in project.findings] == ["a", "b", "c"]
    assert project.findings[0].message == "`like` leads back to this entry: `a` -> `b` -> `c` -> `a`."
    assert [underlined(text, finding.place) for finding in project.findings] == ['"b"', '"c"', '"a"']
    assert project.broken == ("a", "b", "c", "d") and not project.kernels


def test_a_long_cycle_has_a_short_message(read):
    names = [f"k{index}" for index in range(40)]
    pairs = zip(names, [*names[1:], names[0]], strict=True)
    project = read("".join(f'[[kernels]]\nname = "{one}"\nlike = "{other}"\n' for one, other in pairs))
    assert len(project.findings) == 40
    assert project.findings[0].message == "`like` leads back to this entry: `k0` -> `k1` -> `k2` -> `k3` -> ..."


def test_a_mistake_of_the_base_is_reported_once(read):
    text = BASE.replace("max = 64", "max = 0") + DERIVED + DERIVED.replace("derived", "other")
    project = read(text)
    (finding,) = project.findings
    assert (finding.kernel, underlined(text, finding.place), finding.related) == ("base", "0", ())
    assert project.broken == ("base", "derived", "other")


def test_an_own_value_replaces_an_invalid_inherited_one(read):
    text = BASE.replace('"k.cu"', '"missing.cu"') + DERIVED + 'source = "k.cu"\n'
    project = read(text)
    assert [finding.kernel for finding in project.findings] == ["base"]
    assert [spec.name for spec in project.kernels] == ["derived"]


def test_an_error_in_combination_is_related_to_the_derived_entry(read):
    text = BASE + DERIVED + "[kernels.args]\nx = 3\n"
    text = text.replace('y = { out = ["n", "m"] }', 'y = { out = ["x.size"] }')
    project = read(text)
    (finding,) = project.findings
    assert finding.kernel == "derived" and "not a pointer argument" in finding.message
    assert underlined(text, finding.place) == "x"
    (related,) = finding.related
    assert related.message == "inherited by `derived`"
    assert related.place.range.start.line == text.split("\n").index('like = "base"')


def test_the_base_is_the_first_entry_of_the_name(read):
    project = read(BASE + BASE.replace("max = 64", "max = 7") + DERIVED)
    assert [finding.message[:21] for finding in project.findings] == ["Duplicate name `base`"]
    assert {spec.name: spec.dims["n"].maximum for spec in project.kernels} == {"base": 64, "derived": 64}


def test_an_edit_of_a_derived_entry_adds_to_its_own_tables(read):
    text = BASE + DERIVED
    change = set_in_kernel(text, kernel_index(text, "derived"), "tolerances", "float32", "0.5")
    assert change is not None
    kernels = specs(read(applied(text, change)))
    assert kernels["derived"].tolerances == {"float32": Tolerance(0.5, 0.5), "float16": Tolerance(1e-3, 1e-3)}
    assert kernels["base"].tolerances["float32"] == Tolerance(1e-5, 1e-5)


def test_the_number_of_inherited_values_is_limited(read, monkeypatch):
    monkeypatch.setattr(inheritance, "_MAX_INHERITED", 100)
    many = "".join(DERIVED.replace("derived", f"d{index}") for index in range(20))
    project = read(BASE + many)
    assert project.findings and all("inherit more than 100 values" in one.message for one in project.findings)
    assert len(project.kernels) + len(project.broken) == 21 and project.kernels[0].name == "base"


def test_a_chain_as_long_as_the_file(read):
    chain = "".join(DERIVED.replace("derived", f"d{index}").replace("base", f"d{index + 1}") for index in range(3000))
    project = read(chain + '[[kernels]]\nname = "d3000"\nsource = "k.cu"\n')
    assert not project.findings and len(project.kernels) == 3001
