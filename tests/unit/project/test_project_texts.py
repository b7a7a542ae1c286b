"""Arbitrary texts: nothing raises, every place is inside the text, and the schema agrees with the validator."""

from __future__ import annotations

import jsonschema
import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from gpuemu_lsp.engine.project import document, json_schema, load, place_of
from gpuemu_lsp.engine.project.keys import ROOT
from gpuemu_lsp.engine.project.message_text import toml
from gpuemu_lsp.engine.project.schema import describe_key, inner_table, known_keys, lookup
from gpuemu_lsp.engine.project.value_kinds import Table

GOOD = """\
# é
[project]
name = "naïve"
[validation]
tolerances = { float32 = 1e-5, f16 = { rtol = 1e-3 } }
[[kernels]]
name = "k"
source = "__init__.py"
dtypes = ["float32"]
[kernels.dims]
rows = { min = 1, max = 64 }
cols = [1, 33]
[kernels.args]
x = { in = ["rows", "cols"], range = [0, "cols"] }
y = { out = ["x.size"] }
n = "rows * cols"
[kernels.launch]
grid = ["ceil_div(rows, 4)"]
block = 256
"""


def ranges_fit(text, findings):
    lines = text.removeprefix("\ufeff").encode(errors="replace").split(b"\n")
    for finding in findings:
        span = finding.place.range
        assert span.start <= span.end
        assert span.end.line < len(lines) or span.end.column == 0
        for place in (span.start, span.end):
            # One column after an empty line is allowed, so that an editor has a character to underline.
            assert place.column <= max(len(lines[min(place.line, len(lines) - 1)]), 1)


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("texts")
    (path / "__init__.py").write_text("")
    return path / "gpuemu.toml"


@given(st.text())
def test_any_text(config, text):
    ranges_fit(text, load(config, text).findings)
    place_of(text, 0, 1)


@given(st.data())
def test_every_edit_of_a_good_file(config, data):
    start = data.draw(st.integers(0, len(GOOD)))
    end = data.draw(st.integers(start, min(start + 12, len(GOOD))))
    inserted = data.draw(st.text(st.sampled_from("[]{}=.,\"'#\\\n\r\t -1naé{T}𝄞"), max_size=6))
    text = GOOD[:start] + inserted + GOOD[end:]
    project = load(config, text)
    ranges_fit(text, project.findings)
    assert project.findings or len(project.kernels) + len(project.broken) <= 2
    place_of(text, text[:start].count("\n"), data.draw(st.integers(0, 40)))


KEYS = st.sampled_from([key.name for key in ROOT.keys] + ["name", "dims", "args", "n", "launch", "x"])
VALUES = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["C"]), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_values(config, values):
    text = "\n".join(f"{name} = {toml(value)}" for name, value in values.items())
    ranges_fit(text, load(config, text).findings)


def test_good_file_agrees_with_the_schema(config):
    project = load(config, GOOD)
    assert project.findings == ()
    jsonschema.Draft7Validator.check_schema(json_schema())
    jsonschema.validate(tomli.loads(GOOD), json_schema())
    jsonschema.validate(tomli.loads(GOOD + '[[kernels]]\nname = "l"\nlike = "k"\n'), json_schema())


REJECTED = [
    "kernel = 1",
    "[project]\nname = 3",
    "[validation]\ncheck_nan = 1",
    "[validation.tolerances]\nfloat23 = 1",
    "[validation.tolerances]\nfloat32 = -1",
    "[validation.tolerances]\nfloat32 = {}",
    "[[kernels]]\nname = 'k'",
    "[[kernels]]\nlike = 'k'",
    "[[kernels]]\nname = 'k'\nlike = 1",
    "[kernels]\nname = 'k'",
    "[[ops]]\nname = 'o'\nreference = '__init__.py'\nexecution_mode = 'x'",
    "[[kernels]]\nname = 'k'\nsource = '__init__.py'\narch = 'sm80'",
    "[[kernels]]\nname = 'k'\nsource = '__init__.py'\ndims = { n = 0 }",
    "[[kernels]]\nname = 'k'\nsource = '__init__.py'\nlaunch = { block = [] }",
    "[[kernels]]\nname = 'k'\nsource = '__init__.py'\nartifact_checks = { max_registers = '32' }",
]


@pytest.mark.parametrize("text", REJECTED)
def test_schema_rejects_what_the_validator_rejects(config, text):
    assert load(config, text).findings
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomli.loads(text), json_schema())


def every_key(table, path=()):
    for key in (*table.keys, *((table.free,) if table.free else ())):
        here = (*path, key.name)
        yield here, key
        inner = inner_table(key.kind)
        if inner is not None:
            yield from every_key(inner, here)


@pytest.mark.parametrize(
    ("path", "key"), list(every_key(ROOT)), ids=lambda value: ".".join(value) if isinstance(value, tuple) else ""
)
def test_every_key_is_documented(path, key):
    text = document()
    assert lookup(path) == key
    assert key.doc.endswith((".", ")"))
    assert f"`{key.name}`" in text or f".{key.name}]" in text or f"[{key.name}]" in text or f"{key.name} =" in text
    assert isinstance(key.kind, Table) or key.example is not None or inner_table(key.kind) is not None
    assert key.doc in describe_key(key)


PLACES = [
    (2, 1, "key", ("project", "name")),
    (2, 10, "value", ("project", "name")),
    (4, 16, "key", ("validation", "tolerances", "float32")),
    (4, 47, "value", ("validation", "tolerances", "f16", "rtol")),
    (5, 4, "table", ("kernels", 0)),
    (8, 14, "value", ("kernels", 0, "dtypes", 0)),
    (9, 3, "table", ("kernels", 0, "dims")),
    (10, 10, "key", ("kernels", 0, "dims", "rows", "min")),
    (13, 13, "value", ("kernels", 0, "args", "x", "in", 0)),
    (18, 0, "key", ("kernels", 0, "launch", "block")),
    (19, 0, "table", ("kernels", 0, "launch")),
    (0, 0, None, None),
]


@pytest.mark.parametrize(("line", "column", "part", "path"), PLACES)
def test_place(line, column, part, path):
    spot = place_of(GOOD, line, column)
    assert (spot and spot.part, spot and spot.path) == (part, path)


@pytest.mark.parametrize(
    ("typed", "path"),
    [("blo", ("kernels", 0, "launch")), ("block =", ("kernels", 0, "launch")), ("x = [", ("kernels", 0, "launch"))],
)
def test_table_is_known_while_typing(typed, path):
    text = GOOD + typed
    spot = place_of(text, text.count("\n"), len(typed))
    assert spot.path[: len(path)] == path
    assert {key.name for key in known_keys(path)} == {"grid", "block", "shared", "num_warps", "num_stages"}
