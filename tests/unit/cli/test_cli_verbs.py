"""``gpuemu``: output and exit codes of every verb."""

from __future__ import annotations

import json
import re

import pytest

from gpuemu_lsp.cli.gpuemu import main as gpuemu
from gpuemu_lsp.cli.output import wants_colour

WRONG = """\
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = (i % 64 == 5 ? 3.0f : 2.0f) * x[i];
}
"""
RIGHT = WRONG.replace("3.0f", "2.0f")
OVERRUN = RIGHT.replace("i < n", "i <= n")
CHECKS = "\n[kernels.artifact_checks]\nmax_registers = {limit}\nrequired_patterns = {patterns}\n"


@pytest.fixture
def here(project, monkeypatch):
    project.write(kernel=WRONG, reference="def reference(inputs, **kwargs):\n    return 2.0 * inputs['x']\n")
    monkeypatch.chdir(project.root)
    return project


def records(capsys, key):
    return json.loads(capsys.readouterr().out)[key]


def stored(capsys):
    capsys.readouterr()
    assert gpuemu(["failures", "--format", "json"]) == 0
    return records(capsys, "failures")


def test_init_creates_a_passing_project(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    assert gpuemu(["init", "--name", 'my "first"', "--target-dir", "new"]) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "new").rglob("*") if path.is_file()}
    assert len(before) == 3
    capsys.readouterr()
    assert gpuemu(["test", "new", "--quick", "--format", "json"]) == 0
    assert records(capsys, "summary")["passed"] == 1
    assert gpuemu(["init", "--target-dir", "new"]) == 2
    assert "already exists" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in before} == before
    monkeypatch.chdir(tmp_path / "new")
    assert gpuemu(["lint"]) == 0


@pytest.mark.parametrize(("flags", "cases"), [(["--quick"], 8), ([], 32), (["--thorough"], 100)])
def test_how_many_cases(here, capsys, flags, cases):
    here.write(kernel=RIGHT)
    assert gpuemu(["test", *flags, "--format", "json"]) == 0
    assert records(capsys, "kernels")[0]["cases"] == {"run": cases, "passed": cases, "assumed": 0}


def test_fuzz_draws_new_cases_and_prints_the_seed(here, capsys):
    assert gpuemu(["fuzz", "-o", "scale", "-i", "6", "--format", "json"]) == 1
    captured = capsys.readouterr()
    seed = re.fullmatch(r"seed (\d+)\n", captured.err)[1]
    first = {finding["case"] for finding in json.loads(captured.out)["findings"]} - {None}
    (here.root / ".gpuemu" / "store.db").unlink()
    assert gpuemu(["fuzz", "-o", "scale", "-i", "6", "--seed", seed, "--format", "json"]) == 1
    assert {finding["case"] for finding in records(capsys, "findings")} - {None} == first


@pytest.mark.parametrize(("flags", "ran"), [(["--fail-fast"], False), ([], True)])
def test_fuzz_fail_fast(here, capsys, flags, ran):
    assert gpuemu(["fuzz", "-i", "10", "--seed", "1", *flags, "--format", "json"]) == 1
    cases = records(capsys, "kernels")[0]["cases"]
    assert cases["run"] - cases["passed"] >= 1
    assert (cases["run"] == 10) == ran


@pytest.mark.parametrize(
    ("verb", "form"),
    [
        ("test", "text"),
        ("test", "json"),
        ("report", "jsonl"),
        ("report", "junit"),
        ("ci", "github"),
        ("ci", "gitlab"),
        ("ci", "sarif"),
    ],
)
def test_failing_checks_fail_in_every_format(here, capsys, verb, form):
    assert gpuemu([verb, "--quick", "--format", form]) == 1
    assert "numeric/tolerance-exceeded" in capsys.readouterr().out


def test_a_failure_is_stored_replayed_and_fixed(here, capsys):
    assert gpuemu(["test", "--quick"]) == 1
    failures = stored(capsys)
    assert {failure["rule"] for failure in failures} == {"numeric/tolerance-exceeded"}
    case = failures[0]["case"]

    assert gpuemu(["reproduce", case]) == 1
    text = capsys.readouterr().out
    assert "still fails" in text
    assert "scale.cu:3:" in text

    here.write(kernel=OVERRUN)
    assert gpuemu(["reproduce", case]) == 1
    assert "changed" in capsys.readouterr().out
    assert case in {failure["case"] for failure in stored(capsys) if failure["rule"] == "memory/out-of-bounds"}

    here.write(kernel=RIGHT)
    assert gpuemu(["reproduce", case, "--format", "json"]) == 0
    assert [replay["verdict"] for replay in records(capsys, "replays")] == ["fixed"]
    assert case not in {failure["case"] for failure in stored(capsys)}

    here.write(kernel=WRONG)
    assert gpuemu(["reproduce", case]) == 1
    assert case in {failure["case"] for failure in stored(capsys)}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"kernel": "this is not CUDA"}, "error"),
        ({"kernel": WRONG.replace("x[i];", "x[i] * undefined;")}, "compile/error"),
        ({"reference": "raise ValueError('no luck')"}, "no luck"),
        ({"reference": "def reference(inputs, **kwargs):\n    return None\n"}, "reference/wrong-shape"),
    ],
    ids=["no-kernel", "does-not-compile", "reference-does-not-load", "reference-returns-nothing"],
)
def test_a_case_that_cannot_be_run_is_not_fixed(here, capsys, change, says):
    assert gpuemu(["test", "--quick"]) == 1
    case = stored(capsys)[0]["case"]
    here.write(**change)
    for verb in ("reproduce", "minimize"):
        assert gpuemu([verb, case]) == 2
        assert says in capsys.readouterr().out
    assert case in {failure["case"] for failure in stored(capsys)}


@pytest.mark.parametrize(
    ("old", "new"),
    [("max = 300", "max = 4"), ('["float32"]', '["float64"]'), ("n = { min", "m = { min")],
    ids=["narrower", "unchanged", "renamed"],
)
def test_a_case_outside_the_configured_sizes_is_not_run(here, capsys, old, new):
    toml = (here.root / "gpuemu.toml").read_text()
    assert gpuemu(["test", "--quick"]) == 1
    large = max(stored(capsys), key=lambda failure: failure["dims"]["n"])
    changed = toml.replace(old, new)
    if "m = {" in changed:
        changed = changed.replace('["n"]', '["m"]').replace('n = "n"', 'n = "m"').replace("div(n", "div(m")
    here.write(toml=changed)
    code = gpuemu(["reproduce", large["case"]])
    text = capsys.readouterr().out
    assert (code, "not executed" in text) == ((1, False) if changed == toml else (2, True)), text


def test_minimise_keeps_rule_and_line(here, capsys):
    assert gpuemu(["test", "--quick"]) == 1
    large = max(stored(capsys), key=lambda failure: failure["dims"]["n"])
    assert gpuemu(["minimize", large["case"], "--format", "json"]) == 1
    (smaller,) = records(capsys, "minimized")
    assert smaller["original"] == large["case"]
    assert smaller["dims"] == {"n": 6}
    assert smaller["inputs"] == [{"name": "x", "dtype": "float32", "shape": [6], "nonzero": 1}]
    again = {failure["case"]: failure for failure in stored(capsys)}[smaller["minimized"]]
    assert (again["rule"], again["line"], again["minimized_from"]) == (large["rule"], large["line"], large["case"])

    assert gpuemu(["minimize", smaller["minimized"]]) == 1
    assert "no case smaller" in capsys.readouterr().out
    # The next check runs the stored case first, with its single element.
    assert gpuemu(["test", "--quick", "--format", "json"]) == 1
    assert gpuemu(["reproduce", smaller["minimized"], "--format", "json"]) == 1
    assert records_after(capsys)[0]["inputs"][0]["nonzero"] == 1


HALVES = """\
#include <cuda_fp16.h>
template <typename T>
__global__ void scale(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = static_cast<T>((WHERE ? 3.0f : 2.0f) * static_cast<float>(x[i]));
}
"""


@pytest.mark.parametrize(("where", "dtype"), [("i % 64 == 5", "float32"), ("sizeof(T) == 2 && i == 5", "float16")])
def test_minimise_moves_to_the_simplest_failing_dtype(here, capsys, where, dtype):
    toml = (here.root / "gpuemu.toml").read_text()
    head, _, rest = toml.partition("[kernels.dims]")
    here.write(
        kernel=HALVES.replace("WHERE", where), toml=f'{head}dtypes = ["float16", "float32"]\n[kernels.dims]{rest}'
    )
    assert gpuemu(["fuzz", "--strategy", "single_dtype_f16", "--iterations", "8"]) == 1
    large = max(stored(capsys), key=lambda failure: failure["dims"]["n"])
    assert large["dtype"] == "float16"
    assert gpuemu(["minimize", large["case"], "--format", "json"]) == 1
    (smaller,) = records(capsys, "minimized")
    assert (smaller["dtype"], smaller["dims"]) == (dtype, {"n": 6})
    (again,) = (failure for failure in stored(capsys) if failure["case"] == smaller["minimized"])
    assert (again["dtype"], again["line"], again["minimized_from"]) == (dtype, large["line"], large["case"])
    assert gpuemu(["reproduce", smaller["minimized"]]) == 1


def records_after(capsys):
    text = capsys.readouterr().out
    return json.loads(text[text.rindex('{\n  "version"') :])["replays"]


@pytest.mark.parametrize(
    ("strategy", "dims", "plain"), [("binary-search-dims", 6, False), ("binary-search-values", None, True)]
)
def test_minimising_strategies(here, capsys, strategy, dims, plain):
    assert gpuemu(["test", "--quick"]) == 1
    large = max(stored(capsys), key=lambda failure: failure["dims"]["n"])
    assert gpuemu(["minimize", large["case"], "--strategy", strategy, "--format", "json"]) == 1
    (smaller,) = records(capsys, "minimized")
    assert smaller["dims"] == ({"n": dims} if dims else large["dims"])
    assert (smaller["inputs"][0]["nonzero"] == 1) == plain


def test_minimise_within_a_budget(here, capsys):
    assert gpuemu(["test", "--quick"]) == 1
    large = max(stored(capsys), key=lambda failure: failure["dims"]["n"])
    assert gpuemu(["minimize", large["case"], "--max-iters", "2", "--format", "json"]) == 1
    (smaller,) = records(capsys, "minimized")
    assert not smaller["complete"]
    assert smaller["runs"] <= 2


def test_kernels_share_an_id(here, capsys):
    toml = (here.root / "gpuemu.toml").read_text()
    here.write(toml=toml + "\n" + toml.replace('"scale"', '"second"\nentry = "scale"'))
    assert gpuemu(["test", "--quick"]) == 1
    case = re.search(r"gpuemu reproduce (\d+) -k scale", capsys.readouterr().out)[1]
    assert gpuemu(["reproduce", case, "--format", "json"]) == 1
    assert [replay["kernel"] for replay in records(capsys, "replays")] == ["scale", "second"]
    assert gpuemu(["reproduce", case, "-k", "second", "--format", "json"]) == 1
    assert [replay["kernel"] for replay in records(capsys, "replays")] == ["second"]


@pytest.mark.parametrize("verb", ["reproduce", "minimize"])
def test_unknown_ids_list_the_known_ones(here, capsys, verb):
    assert gpuemu([verb, "1"]) == 2
    assert "No cases are stored" in capsys.readouterr().err
    assert gpuemu(["test", "--quick"]) == 1
    known = stored(capsys)[0]["case"]
    assert gpuemu([verb, "1"]) == 2
    captured = capsys.readouterr()
    assert known in captured.err
    assert captured.out == ""


@pytest.mark.parametrize("arguments", [["failures"], ["reproduce", "1"], ["minimize", "1"]])
def test_without_a_project(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    assert gpuemu(arguments) == 2
    assert "no gpuemu.toml" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("limit", "patterns", "code", "result"),
    [
        (64, "[]", 0, "PASS"),
        (1, "[]", 1, "FAIL"),
        (64, '["shfl.sync"]', 1, "FAIL"),
        (None, None, 2, "NO CHECKS CONFIGURED"),
    ],
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_lint(here, capsys, limit, patterns, code, result, form):
    if limit is not None:
        toml = (here.root / "gpuemu.toml").read_text()
        here.write(toml=toml + CHECKS.format(limit=limit, patterns=patterns))
    assert gpuemu(["lint", "-k", "scale", "--format", form]) == code
    text = capsys.readouterr().out
    assert result in text
    if form == "json":
        assert json.loads(text)["kernels"][0]["result"] == result


@pytest.mark.parametrize(
    ("ptx", "says"),
    [
        (None, "does not exist"),
        ("hello", "is not PTX"),
        (".version 8.0\n.target sm_80\n.address_size 64\n", "has no entry"),
        (".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry scale()\n{\n  bogus.f32 %f1;\n}\n", "."),
    ],
    ids=["missing", "text", "empty", "wrong"],
)
def test_lint_of_a_bad_ptx_file(here, capsys, ptx, says):
    if ptx is not None:
        (here.root / "k.ptx").write_text(ptx)
    assert gpuemu(["lint", "-k", "scale", "--ptx", "k.ptx"]) == 2
    text = capsys.readouterr().out
    assert "engine/not-executed" in text
    assert says in text or "cannot be read" in text


PTX = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry {name}()\n{{\n{body}  ret;\n}}\n"


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["other"], "no entry of 'scale'; its entries are: other."),
        (["_Z5otherPf", "_Z7rescalePf"], "_Z5otherPf (other), _Z7rescalePf (rescale)"),
        (["_Z5scalePf", "scale"], "more than one entry of 'scale'"),
    ],
)
def test_lint_refuses_the_ptx_of_another_kernel(here, capsys, names, says):
    head, body = PTX.split(".visible")
    (here.root / "k.ptx").write_text(head + "".join(f".visible{body}".format(name=name, body="") for name in names))
    assert gpuemu(["lint", "-k", "scale", "--ptx", "k.ptx"]) == 2
    assert says in capsys.readouterr().out


@pytest.mark.parametrize("name", ["scale", "_Z5scalePfPKfi", "_Z5scalePdPKdi"])
def test_lint_finds_the_kernel_by_its_name_or_mangled_name(here, capsys, name):
    here.write(toml=(here.root / "gpuemu.toml").read_text() + CHECKS.format(limit=64, patterns="[]"))
    (here.root / "k.ptx").write_text(PTX.format(name=name, body=""))
    assert gpuemu(["lint", "-k", "scale", "--ptx", "k.ptx"]) == 0
    assert "Result: PASS" in capsys.readouterr().out


@pytest.mark.parametrize("body", ["  bogus.f32 %f1;\n", "  add.u32 %r1, %r2, 1;\n  sub.u32 1, 2;\n", "  mov.u32 ;;[\n"])
def test_errors_in_a_ptx_file_are_on_their_line(here, capsys, body):
    (here.root / "k.ptx").write_text(PTX.format(name="scale", body="\n" + body))
    assert gpuemu(["lint", "-k", "scale", "--ptx", "k.ptx"]) == 2
    text = capsys.readouterr().out
    assert "k.ptx:7:3: " in text
    assert "line 7" in text


def test_lint_emits_ptx(here, capsys):
    assert gpuemu(["lint", "-k", "scale", "--emit-ptx", "out.ptx"]) == 0
    assert "Kernel: scale" in capsys.readouterr().out
    written = (here.root / "out.ptx").read_text()
    assert ".version" in written and ".entry" in written
    assert gpuemu(["lint", "-k", "scale", "--emit-ptx", "-"]) == 0
    assert capsys.readouterr().out == written
    assert gpuemu(["lint", "-k", "scale", "--emit-ptx", "no/such/folder.ptx"]) == 2
    assert gpuemu(["lint", "-k", "scale", "--emit-ptx", "a.ptx", "--ptx", "out.ptx"]) == 2
    assert "--emit-ptx" in capsys.readouterr().err


def test_lint_of_a_ptx_file_needs_a_kernel(here, capsys):
    toml = (here.root / "gpuemu.toml").read_text()
    here.write(toml=toml + "\n" + toml.replace('"scale"', '"second"\nentry = "scale"'))
    assert gpuemu(["lint", "--ptx", "k.ptx"]) == 2
    assert "--kernel" in capsys.readouterr().err


def test_status(here, capsys):
    assert gpuemu(["test", "--quick"]) == 1
    capsys.readouterr()
    assert gpuemu(["status"]) == 0
    rows = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert re.match(r"\d+\.\d+", rows["NVRTC"])
    assert re.match(r"\d+\.\d+", rows["LLVM"])
    assert rows["Project"].endswith("1 kernel")
    assert re.search(r"[1-9]\d* failing cases?$", rows["Store"])


@pytest.mark.parametrize("verb", ["debug", "artifacts", "version"])
def test_unknown_verbs_are_rejected(capsys, verb):
    assert gpuemu([verb]) == 2
    assert "invalid choice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wish", "terminal", "environment", "expected"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", True, {"GPUEMU_NO_COLOR": "1"}, False),
        ("auto", False, {"FORCE_COLOR": "1"}, True),
        ("always", False, {"NO_COLOR": "1"}, True),
        ("never", True, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_wants_colour(monkeypatch, wish, terminal, environment, expected):
    for name in ("NO_COLOR", "GPUEMU_NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(wish, terminal) is expected
