"""Every kind of error in gpuemu.toml: its rule, the text underlined, and a part of the message.

The rows mark the underlined text with « and ». A row that starts a kernel's table continues the entry ``k``.
"""

from __future__ import annotations

import re

import pytest

from gpuemu_lsp.engine.project import load

ENTRY = '[[kernels]]\nname = "k"\nsource = "k.cu"\n'
SIZES = "[kernels.dims]\nrows = 4\ncols = { max = 64 }\n"
ARGS = "[kernels.args]\n"

UNKNOWN, BAD, MISSING, FILE = "config/unknown-key", "config/bad-value", "config/missing-key", "config/missing-file"
SYNTAX = "config/syntax"

WHOLE_FILE = [
    ("«kernel» = 1", UNKNOWN, "Did you mean `kernels`"),
    ("[«projct»]\nname = 'x'", UNKNOWN, "Did you mean `project`"),
    ("[project]\n«nmae» = 'x'", UNKNOWN, "Did you mean `name`"),
    ("[project]\n«executor» = 'gpu'", UNKNOWN, "`[validation]`"),
    ("[project]\n«zzz» = 1", UNKNOWN, "`framework`"),
    ('[project]\n«"naïve key"» = 1', UNKNOWN, "naïve"),
    ("project.«nmae» = 'x'", UNKNOWN, "`name`"),
    ("project = { «nmae» = 'x' }", UNKNOWN, "`name`"),
    ("project = «3»", BAD, "a table"),
    ("[project]\nname = «3»", BAD, "must be a string"),
    ("[project]\nname = «''»", BAD, "empty"),
    ("[validation]\ncheck_nan = «1»", BAD, "true or false"),
    ("[validation]\nseed = «true»", BAD, "the boolean true"),
    ("[validation]\nseed = «-1»", BAD, "from 0 to 18446744073709551615"),
    ("[validation]\nseed = «18446744073709551616»", BAD, "from 0"),
    ("[validation]\nseed = «1.0»", BAD, "an integer"),
    ('[validation]\ndtypes = ["float32", «"flaot16"»]', BAD, "`float16`"),
    ("[validation]\ndtypes = [«1»]", BAD, "Item 1 of `dtypes`"),
    ("[validation]\ndtypes = «[]»", BAD, "at least 1"),
    ("[validation]\nexecutor = «'cpu'»", BAD, '"auto", "emulator" or "gpu"'),
    ("[validation.tolerances]\nfloat32 = «-1e-5»", BAD, "at least 0"),
    ("[validation.tolerances]\nfloat32 = «nan»", BAD, "a number"),
    ("[validation.tolerances]\nfloat32 = «inf»", BAD, "a number"),
    ("[validation.tolerances]\nfloat32 = «2020-01-01»", BAD, "a date or time"),
    ("[validation.tolerances]\n«float23» = 1", UNKNOWN, "`float32`"),
    ("[validation.tolerances]\nf32 = 1\n«float32» = 2", BAD, "another spelling"),
    ("[validation.tolerances]\nf16 = { atol = «-1», rtol = 0 }", BAD, "at least 0"),
    ("[validation.tolerances]\nf16 = { «abs» = 1 }", UNKNOWN, "`atol` and `rtol`"),
    ("[validation.tolerances]\nf16 = «{}»", BAD, "`atol`"),
    ("[policies]\nwarn_threshold = «-0.5»", BAD, "at least 0"),
    ("[policies]\nfail_on_regression = «'yes'»", BAD, "true or false"),
    ("[ci]\nparallel_jobs = «0»", BAD, "from 1"),
    ("[ci]\nthorough_timeout = «07:32:00»", BAD, "a date or time"),
    ("«[kernels]»\nname = 'k'", BAD, "an array of tables"),
    ("kernels = [«3»]", BAD, "`[[kernels]]`"),
    ("«[[kernels]]»\nsource = 'k.cu'", MISSING, '`name = "softmax"`'),
    ("«[[kernels]]»\nname = 'k'", MISSING, "`source`"),
    ("kernels = [«{ name = 'k' }»]", MISSING, "`source`"),
    ("«[[ops]]»\nname = 'k'", MISSING, "`reference`"),
    ("[[ops]]\nname = 'o'\nreference = 'ref.py'\nexecution_mode = «'client'»", BAD, "`client_side`"),
    ("[[ops]]\nname = 'o'\nreference = «'reff.py'»", FILE, "`ref.py`"),
    (
        "[[ops]]\nname = 'o'\nreference = 'ref.py'\n[[ops]]\nname = «'o'»\nreference = 'ref.py'",
        BAD,
        "Duplicate name `o`",
    ),
    (ENTRY + ENTRY.replace('"k"', '«"k"»'), BAD, "Duplicate name `k`"),
    ("«a =»", SYNTAX, "invalid value"),
    ("«[project»", SYNTAX, "expected ']'"),
    ("[project]\n«[project]»", SYNTAX, "twice"),
    ("a = 1\n«a = 1»", SYNTAX, "overwrite"),
    ("«é» = 1", SYNTAX, "invalid statement"),
]

KERNEL = [
    ("«nmae» = 1", UNKNOWN, "`name`"),
    ("«max_registers» = 32", UNKNOWN, "`[kernels.artifact_checks]`"),
    ("reference = «'missing.py'»", FILE, "relative to the folder of gpuemu.toml"),
    ("reference = «'rfe.py'»", FILE, "`ref.py`"),
    ("reference = «'rfe.py:softmax'»", FILE, "`ref.py`"),
    ("reference = «'inc'»", FILE, "is a folder"),
    ("reference = «'ref.py/x'»", FILE, "Not a directory"),
    ("reference = «''»", BAD, "empty"),
    ('reference = «"a\\u0000b"»', FILE, "possible file name"),
    ("include_dirs = ['inc', «'ref.py'»]", FILE, "is not a folder"),
    ("include_dirs = «'incc'»", FILE, "`inc`"),
    ('entry = "k<«{U}»>"', BAD, "Only `{T}`"),
    ('entry = «"""a\nb"""»', BAD, "line break"),
    ("dtypes = «'flot32'»", BAD, "`float32`"),
    ("dtypes = «'complex64'»", BAD, "Known are bfloat16"),
    ("arch = «'sm80'»", BAD, '"sm_80"'),
    ("arch = ['sm_80', «'compute_80'»]", BAD, "sm_90a"),
    ("arch = «80»", BAD, "architecture"),
    ('compile_options = «"-DX=\'1"»', BAD, "no closing quotation"),
    ("compile_options = ['-O3', «'-arch=sm_90'»]", BAD, "`arch = ...`"),
    ("compile_options = «'--gpu-architecture sm_90'»", BAD, "`arch = ...`"),
    ("compile_options = [«3»]", BAD, "Item 1"),
    ("[kernels.«dim»]\nn = 1", UNKNOWN, "`dims`"),
    ("[kernels.dims]\nn = «0»", BAD, "at least 1"),
    ("[kernels.dims]\nn = «-4»", BAD, "at least 1"),
    ("[kernels.dims]\nn = «'4'»", BAD, "a table"),
    ("[kernels.dims]\nn = «true»", BAD, "the boolean true"),
    ("[kernels.dims]\nn = [1, «0»]", BAD, "Item 2 of `n`"),
    ("[kernels.dims]\nn = «[]»", BAD, "at least 1"),
    ('[kernels.dims]\n«"a-b"» = 1', BAD, "identifier"),
    ("[kernels.dims]\nn = { min = «8», max = 4 }", BAD, "above `max` = 4"),
    ("[kernels.dims]\nn = { min = «0» }", BAD, "at least 1"),
    ("[kernels.dims]\nn = { max = 10, include = [5, «11»] }", BAD, "1 to 10"),
    ("[kernels.dims]\nn = { min = 6, include = «5» }", BAD, "at least 6"),
    ("[kernels.dims]\nn = { max = 64, multiple_of = 8, include = [«9»] }", BAD, "multiples of 8"),
    ("[kernels.dims]\nn = { min = 9, max = 15, multiple_of = «8» }", BAD, "between 9 and 15"),
    ("[kernels.dims]\nn = { «maximum» = 3 }", UNKNOWN, "`max`"),
    ("[kernels.dims.n]\nmin = 1\nmax = «1.5»", BAD, "an integer"),
    (SIZES + ARGS + 'x = { in = ["«row»"] }', BAD, "`rows`"),
    (SIZES + ARGS + 'x = { in = "4 * «zz»" }', BAD, "`rows` and `cols`"),
    (SIZES + ARGS + 'n = "rows «/» 2"', BAD, "rounds down"),
    (SIZES + ARGS + 'n = «"rows +"»', BAD, "found the end"),
    (SIZES + ARGS + "n = { value = \"«n»\", as = 'N' }", BAD, "Unknown dimension `n`"),
    (SIZES + ARGS + "n = «nan»", BAD, "a number"),
    (SIZES + ARGS + "n = «2020-01-01T00:00:00Z»", BAD, "date"),
    (SIZES + ARGS + "n = «[1]»", BAD, "a list"),
    (SIZES + ARGS + "n = «9223372036854775808»", BAD, "64 bits"),
    (SIZES + ARGS + "x = «{}»", BAD, "no direction"),
    (SIZES + ARGS + "x = { in = ['rows'], «out» = ['rows'] }", BAD, "`inout`"),
    (SIZES + ARGS + "x = { in = ['rows'], «value» = 1 }", BAD, "keep one"),
    (SIZES + ARGS + "x = { value = 1, «align» = 4 }", BAD, "pointers only"),
    (SIZES + ARGS + "x = { in = «[]» }", BAD, "at least 1"),
    (SIZES + ARGS + "x = { in = [«0»] }", BAD, "at least 1"),
    (SIZES + ARGS + "x = { in = ['rows', «'2 - 4'»] }", BAD, "`in` is -2"),
    (SIZES + ARGS + "x = { in = ['rows', «1.5»] }", BAD, "Item 2 of `in`"),
    (SIZES + ARGS + "x = { in = ['3 «//» 0'] }", BAD, "zero"),
    (SIZES + ARGS + "x = { in = ['rows'], range = «[0]» }", BAD, "it needs 2"),
    (SIZES + ARGS + "x = { in = ['rows'], range = «5» }", BAD, "a list of 2"),
    (SIZES + ARGS + "x = { in = ['rows'], range = «[5, 1]» }", BAD, "Empty range"),
    (SIZES + ARGS + "x = { in = ['rows'], range = [0.0, «inf»] }", BAD, "a number"),
    (SIZES + ARGS + "x = { in = ['rows'], range = [0, '«colz»'] }", BAD, "`cols`"),
    (SIZES + ARGS + "x = { in = ['rows'], align = «3» }", BAD, "power of two"),
    (SIZES + ARGS + "x = { in = ['rows'], align = «512» }", BAD, "1 to 256"),
    (SIZES + ARGS + "x = { in = ['rows'], dtype = «'f8'» }", BAD, "not a dtype"),
    (ARGS + 'x = { out = ["rows"], compare = «"sortd"» }\n' + SIZES, BAD, "Did you mean `sorted`"),
    (ARGS + 'x = { out = ["rows"], compare = «1» }\n' + SIZES, BAD, 'true or false or "sorted" or "set"'),
    (ARGS + 'x = { in = ["rows"], «compare» = false }\n' + SIZES, BAD, "applies to outputs only"),
    (ARGS + "x = { value = 1, «compare» = false }", BAD, "applies to pointers only"),
    (SIZES + ARGS + "x = { in = ['rows'], may_alias = «'y'» }", BAD, "another pointer"),
    (SIZES + ARGS + "x = { in = ['rows'], may_alias = «'x'» }", BAD, "another pointer"),
    (SIZES + ARGS + "x = { in = ['rows'] }\ny = { out = ['«xx».size'] }", BAD, "`x`"),
    (SIZES + ARGS + "x = { in = ['rows'] }\ny = { out = ['«x.shape(1)»'] }", BAD, "1 dimensions"),
    (SIZES + ARGS + "x = { in = «['y.size']» }\ny = { out = ['x.size'] }", BAD, "itself"),
    (SIZES + ARGS + "x = { in = «['x.size']» }", BAD, "itself"),
    (SIZES + ARGS + '\n[kernels.launch]\ngrid = [1, "«row»"]', BAD, "`rows`"),
    (ARGS + "x = { in = ['«n»'] }", BAD, "There are no dims"),
    (ARGS + "n = 1\n[kernels.launch]\ngrid = '«n»'", BAD, "Unknown dimension `n`"),
    ("[kernels.launch]\ngrid = «[]»", BAD, "1 to 3"),
    ("[kernels.launch]\ngrid = «[1, 1, 1, 1]»", BAD, "1 to 3"),
    ("[kernels.launch]\ngrid = [1, «70000»]", BAD, "65535"),
    ("[kernels.launch]\nblock = «2048»", BAD, "1024"),
    ("[kernels.launch]\nblock = «0»", BAD, "at least 1"),
    ("[kernels.launch]\nblock = «[32, 64]»", BAD, "2048 threads"),
    ("[kernels.launch]\nblock = [1, 1, «65»]", BAD, "z = 65"),
    ("[kernels.launch]\nblock = «256.0»", BAD, "an integer"),
    ("[kernels.launch]\nshared = «'200 * 1024'»", BAD, "sm_80"),
    ("[kernels.launch]\nshared = «-1»", BAD, "at least 0"),
    ("[kernels.launch]\n«blocks» = 3", UNKNOWN, "`block`"),
    ("[kernels.invariants]\nno_nan = «'true'»", BAD, "true or false"),
    ("[kernels.invariants]\n«no_nans» = true", UNKNOWN, "`no_nan`"),
    ("[kernels.artifact_checks]\nmax_registers = «'32'»", BAD, 'the string "32"; it must be an integer'),
    ("[kernels.artifact_checks]\nmax_spills = «-1»", BAD, "from 0"),
    ("[kernels.artifact_checks]\nrequired_patterns = [«1»]", BAD, "Item 1"),
    ("[kernels.artifact_checks]\nforbidden_patterns = [\n  'a', # why\n  «''»,\n]", BAD, "empty"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("project")
    for name in ("k.cu", "ref.py"):
        (path / name).write_text("")
    (path / "inc").mkdir()
    return path


def underlined(text, span):
    lines = text.encode().split(b"\n")
    if span.start.line == span.end.line:
        return lines[span.start.line][span.start.column : span.end.column].decode()
    inner = lines[span.start.line + 1 : span.end.line]
    first, last = lines[span.start.line][span.start.column :], lines[span.end.line][: span.end.column]
    return b"\n".join([first, *inner, last]).decode()


def marked(text):
    """Return the text without the marks, and the line, byte column and text between them."""
    before, wanted = re.match("(?s)(.*?)«(.*?)»", text).groups()
    line = before.count("\n")
    column = len(before.rpartition("\n")[2].encode())
    return text.replace("«", "").replace("»", ""), (line, column, wanted)


ROWS = [*WHOLE_FILE, *((ENTRY + text, rule, word) for text, rule, word in KERNEL)]


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize(("text", "rule", "word"), ROWS, ids=[row[0].split("\n")[-1][:60] for row in ROWS])
def test_mistake(folder, text, rule, word, newline):
    if "\n" in text.partition("«")[2].partition("»")[0] and newline == "\r\n":
        pytest.skip("the underlined text has a line break")
    plain, (line, column, wanted) = marked(text)
    project = load(folder / "gpuemu.toml", plain.replace("\n", newline))
    (finding,) = project.findings
    span = finding.place.range
    assert (finding.rule, underlined(plain, span)) == (rule, wanted), finding.message
    assert (span.start.line, span.start.column) == (line, column)
    assert word in finding.message
    assert finding.message.endswith((".", "?"))
    assert finding.place.path == (folder / "gpuemu.toml").as_posix()
    kernel_names = [spec.name for spec in project.kernels]
    assert rule == SYNTAX or "[[kernels]]" not in text or len(project.broken) == 1
    kept = "o" if "ops" in text else "k"
    assert kernel_names == ([kept] if "Duplicate name" in finding.message else [])


def test_all_errors_are_reported_and_other_entries_are_loaded(folder):
    text = "\n".join(
        [
            ENTRY.replace('"k"', '"good"'),
            ENTRY.replace('"k"', '"bad"') + "arch = 3\ndtypes = 'x'\n[kernels.dims]\nn = 0\nm = -1\n",
            "[[kernels]]\n",
            ENTRY.replace('"k"', '"fine"'),
            "[typo]\n",
        ]
    )
    project = load(folder / "gpuemu.toml", text)
    assert [spec.name for spec in project.kernels] == ["good", "fine"]
    assert project.broken == ("bad", "#3")
    assert [finding.kernel for finding in project.findings] == ["bad"] * 4 + [None] * 3
    assert [finding.place.range for finding in project.findings] == sorted(
        finding.place.range for finding in project.findings
    )


def test_duplicate_name_points_to_the_first(folder):
    (finding,) = load(folder / "gpuemu.toml", ENTRY + ENTRY).findings
    assert finding.related[0].place.range.start.line == 1


def test_positions_are_bytes_and_skip_a_byte_order_mark(folder):
    text = "\ufeff[project]\nname = 'é'\n\"clé\" = '→'"
    (finding,) = load(folder / "gpuemu.toml", text).findings
    assert (finding.place.range.start.column, finding.place.range.end.column) == (0, 6)
    (finding,) = load(folder / "gpuemu.toml", "\ufeffprojekt = 1").findings
    assert (finding.place.range.start.column, finding.place.range.end.column) == (0, 7)


def test_dotted_keys_and_inline_tables_have_the_same_places(folder):
    text = "kernels = [{ name = 'k', source = 'k.cu', launch.block = 4096 }]"
    (finding,) = load(folder / "gpuemu.toml", text).findings
    assert underlined(text, finding.place.range) == "4096"


@pytest.mark.parametrize(
    ("content", "rule", "word", "start"),
    [
        (b"[project]\nname = '\xff'", SYNTAX, "0xff", (1, 8)),
        (b"x = 1\n" * 400_000, BAD, "larger", (0, 0)),
        (b"x = " + b"[" * 3000, SYNTAX, "nested", (0, 0)),
        (b"x = " + b"9" * 5000, SYNTAX, "digits", (0, 0)),
        (b"\x00\x01\x02", SYNTAX, "Invalid TOML", (0, 0)),
        (b"a = 1\rb = 2", SYNTAX, "newline", (0, 0)),
    ],
)
def test_hostile_file(tmp_path, content, rule, word, start):
    config = tmp_path / "gpuemu.toml"
    config.write_bytes(content)
    (finding,) = load(config).findings
    span = finding.place.range
    assert (finding.rule, (span.start.line, span.start.column)) == (rule, start), finding.message
    assert word in finding.message
