"""``gpuemu ci``, ``report --signed`` and ``verify`` on a real project."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from support.passing_project import KERNEL, REFERENCE, gpuemu_output


@pytest.fixture
def here(project, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    project.write(kernel=KERNEL, reference=REFERENCE)
    monkeypatch.chdir(project.root)
    return project


def test_ci_makes_a_regression_an_error(here, capsys):
    assert gpuemu_output(capsys, "ci", "--quick", "--baseline", "v1")[0] == 2
    assert gpuemu_output(capsys, "baseline", "v1", "--cases", "8")[0] == 0
    assert gpuemu_output(capsys, "ci", "--baseline", "v1", "--parallel", "0")[0] == 0
    here.write(kernel=KERNEL.replace("2.0f * x[i]", "2.0f * x[i] * (1.0f + 2e-7f)"), toml=tolerant(here))
    code, text, _ = gpuemu_output(capsys, "ci", "--baseline", "v1", "--format", "sarif")
    rules = {result["ruleId"]: result for result in json.loads(text)["runs"][0]["results"]}
    assert code == 1
    assert rules["numeric/regression"]["level"] == "error"
    assert rules["numeric/regression"]["locations"][0]["physicalLocation"]["region"]["startLine"] == 4
    here.write(toml=tolerant(here) + "[policies]\nfail_on_regression = false\n")
    code, text, _ = gpuemu_output(capsys, "ci", "--baseline", "v1", "--format", "pr-comment")
    assert code == 0
    assert "max\\_rel\\_diff" in text and "regression" in text


def tolerant(here) -> str:
    """Return the configuration with a tolerance under which the worse kernel passes."""
    text = (here.root / "gpuemu.toml").read_text()
    return text if "tolerances" in text else text + "[kernels.tolerances]\nfloat32 = 1e-3\n"


def test_a_report_shows_a_regression_without_failing(here, capsys):
    assert gpuemu_output(capsys, "baseline", "v1", "--cases", "8")[0] == 0
    here.write(kernel=KERNEL.replace("2.0f * x[i]", "2.0f * x[i] * (1.0f + 2e-7f)"), toml=tolerant(here))
    code, text, _ = gpuemu_output(capsys, "report", "--include-artifacts", "v1")
    assert code == 0
    assert "Against the baseline 'v1': 1 regressed." in text


def test_a_signed_report_is_verified(here, capsys):
    code, _, errors = gpuemu_output(capsys, "report", "--quick", "--signed", "--format", "html", "--output", "r.html")
    assert code == 0
    assert "created the key" in errors
    code, text, _ = gpuemu_output(capsys, "verify", "r.html")
    assert code == 0
    assert "PASSED" in text and "The report is genuine." in text
    envelope = json.loads((here.root / "r.html.intoto.json").read_text())
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    here.write(kernel=KERNEL + "// more\n")
    code, text, _ = gpuemu_output(capsys, "verify", "r.html")
    assert code == 1
    assert "changed since: scale.cu" in text
    here.write(kernel=KERNEL)
    (here.root / "r.html").write_text((here.root / "r.html").read_text().replace("passed", "PASSED"))
    code, text, _ = gpuemu_output(capsys, "verify", "r.html")
    assert code == 1
    assert "NOT VERIFIED" in text


def test_a_failing_report_is_signed_as_failed(here, capsys):
    here.write(kernel=KERNEL.replace("2.0f", "2.5f"))
    assert gpuemu_output(capsys, "report", "--quick", "--signed", "--format", "json", "--output", "r.json")[0] == 1
    code, text, _ = gpuemu_output(capsys, "verify", "r.json")
    assert code == 0
    assert "result:    FAILED" in text


@pytest.mark.parametrize("case", ["partial", "not run", "empty", "config"])
def test_incomplete_runs_are_not_signed(here, capsys, case):
    toml = (here.root / "gpuemu.toml").read_text()
    second = toml.replace('name = "scale"', 'name = "again"\nentry = "scale"')
    arguments: list[str] = []
    if case == "partial":
        here.write(toml=toml + second)
        arguments = ["again"]
    elif case == "not run":
        bare = '[[kernels]]\nname = "scale"\nsource = "scale.cu"\nreference = "ref.py"\n'
        here.write(toml=bare, kernel=KERNEL.replace("int n", "int n, int m, int k"))
    elif case == "empty":
        here.write(toml='[project]\nname = "nothing"\n')
    else:
        here.write(toml=toml + '[[kernels]]\nname = "half"\n')
    output = ["--signed", "--quick", "--format", "json", "--output", "r.json"]
    code, _, errors = gpuemu_output(capsys, "report", *arguments, *output)
    assert code == 2
    assert "was not signed" in errors
    assert not (here.root / "r.json.intoto.json").exists()


def test_signing_needs_a_file(here, capsys):
    code, _, errors = gpuemu_output(capsys, "report", "--signed")
    assert code == 2
    assert "--output" in errors


def test_verify_without_an_attestation_or_key(here, capsys):
    (here.root / "r.json").write_text("{}")
    assert gpuemu_output(capsys, "verify", "r.json")[0] == 2
    (here.root / "r.json.intoto.json").write_text("{}")
    code, _, errors = gpuemu_output(capsys, "verify", "r.json")
    assert code == 2
    assert "--key" in errors


@pytest.mark.parametrize("arguments", [["report", "--signed", "--output", "r.json"], ["verify", "r.json"]])
def test_signing_without_cryptography_names_the_extra(here, arguments):
    (here.root / "r.json").write_text("{}")
    (here.root / "r.json.intoto.json").write_text("{}")
    script = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from gpuemu_lsp.cli.gpuemu import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, *arguments]
    result = subprocess.run(command, cwd=here.root, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert "pip install 'gpuemu-lsp[sign]'" in result.stderr
    assert "Traceback" not in result.stderr
    assert (here.root / "r.json").read_text() == "{}"


def test_an_unsigned_report_needs_no_cryptography(here):
    script = (
        "import sys; sys.modules['cryptography'] = None\n"
        "from gpuemu_lsp.cli.gpuemu import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, "report", "--cases", "1", "--output", "r.json", "--format", "json"]
    result = subprocess.run(command, cwd=here.root, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert len(json.loads((here.root / "r.json").read_text())["kernels"]) == 1


@pytest.mark.parametrize("verb", [["test"], ["ci"], ["report"], ["lint"], ["fuzz"], ["baseline", "v1"]])
def test_ops_alone_were_not_checked(here, capsys, verb):
    here.write(toml='[[ops]]\nname = "flash_attention"\nmodule = "flash_attn"\nreference = "ref.py"\n')
    code, text, _ = gpuemu_output(capsys, *verb)
    assert code == 2
    assert 'To run it here, add op = "flash_attn:function"' in text
    assert gpuemu_output(capsys, "fuzz", "--op", "flash_attention")[0] == 2


@pytest.fixture
def with_op(here):
    ops = '[[ops]]\nname = "flash_attention"\nmodule = "flash_attn"\nreference = "ref.py"\n'
    here.write(toml=ops + (here.root / "gpuemu.toml").read_text())
    return here


@pytest.mark.parametrize(
    "command",
    [["test", "--quick"], ["ci", "--quick"], ["report", "--quick"], ["lint"], ["coverage"], ["baseline", "v1"]],
    ids=lambda command: command[0],
)
def test_an_op_that_did_not_run_is_not_clean(with_op, capsys, command):
    assert gpuemu_output(capsys, *command)[0] == 2


def test_an_error_counts_more_than_an_op_that_did_not_run(with_op, capsys):
    with_op.write(kernel=KERNEL.replace("2.0f", "2.5f"))
    assert gpuemu_output(capsys, "ci", "--quick")[0] == 1


def test_a_kernel_is_checked_alone_whatever_ops_there_are(with_op, capsys):
    assert gpuemu_output(capsys, "fuzz", "--op", "scale", "--iterations", "2")[0] == 0


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ("text", "warning[engine/not-executed]"),
        ("json", '"rule": "engine/not-executed"'),
        ("junit", '<error type="engine/not-executed"'),
        ("sarif", '"ruleId": "engine/not-executed"'),
        ("gitlab", '"check_name": "engine/not-executed"'),
        ("github", "gpuemu engine/not-executed (flash_attention)"),
        ("pr-comment", "1 not executed"),
        ("html", "not-executed"),
    ],
)
def test_every_format_shows_an_op_that_did_not_run(with_op, capsys, form, expected):
    code, text, _ = gpuemu_output(capsys, "ci", "--quick", "--format", form)
    assert code == 2
    assert expected in text
    assert "flash_attention" in text.replace("\\_", "_")


def test_a_report_about_an_op_that_did_not_run_is_not_signed(with_op, capsys):
    code, _, errors = gpuemu_output(capsys, "report", "--quick", "--signed", "--output", "r.txt")
    assert code == 2
    assert "not signed: flash_attention did not run" in errors
    assert not (with_op.root / "r.txt.intoto.json").exists()


TYPED = """\
#include <cuda_fp16.h>
template <typename T> __global__ void scale(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = T(2.0f * float(x[i]));
}
"""


@pytest.mark.parametrize(
    ("ci", "quick"),
    [("", 16), ('[ci]\nquick_dtypes = "float16"\n', 8), ('[ci]\nquick_dtypes = ["float64"]\n', 16)],
    ids=["all", "one", "none of its own"],
)
def test_a_quick_ci_run_checks_the_configured_dtypes(here, capsys, ci, quick):
    toml = (here.root / "gpuemu.toml").read_text()
    typed = toml.replace(
        'reference = "ref.py"\n', 'reference = "ref.py"\nentry = "scale<{T}>"\ndtypes = ["float32", "float16"]\n'
    )
    here.write(kernel=TYPED, toml=typed + ci)
    code, text, err = gpuemu_output(capsys, "ci", "--quick", "--format", "json")
    assert (code, json.loads(text)["kernels"][0]["cases"]["run"]) == (0, quick), err


def test_a_thorough_ci_run_ends_after_its_time_limit(here, capsys):
    slow = REFERENCE.replace("    return", "    import time; time.sleep(0.2)\n    return")
    here.write(reference=slow, toml=(here.root / "gpuemu.toml").read_text() + "[ci]\nthorough_timeout = 1\n")
    code, text, _ = gpuemu_output(capsys, "ci", "--thorough", "--format", "json")
    assert code == 0 and 1 <= json.loads(text)["kernels"][0]["cases"]["run"] < 100


def test_a_case_runs_again_on_another_architecture(here, capsys):
    here.write(kernel=KERNEL.replace("2.0f", "2.5f"))
    assert gpuemu_output(capsys, "test", "--quick")[0] == 1
    case = json.loads(gpuemu_output(capsys, "failures", "--format", "json")[1])["failures"][0]["case"]
    assert gpuemu_output(capsys, "reproduce", case, "--arch", "sm_90", "--ptx", "out.ptx")[0] == 1
    assert ".target sm_90" in (here.root / "out.ptx").read_text()
    assert gpuemu_output(capsys, "minimize", case, "--arch", "sm_89", "--strategy", "binary-search-dims")[0] == 1
    assert gpuemu_output(capsys, "reproduce", case, "--arch", "volta")[0] == 2


def test_shards_partition_the_kernels(here, capsys):
    names = [f"k{number}" for number in range(5)]
    toml = (here.root / "gpuemu.toml").read_text()
    kernels = "".join(KERNEL.replace("scale", name) for name in names)
    here.write(kernel=kernels, toml="".join(toml.replace('"scale"', f'"{name}"') for name in names))
    found = []
    for part in ("1/2", "2/2"):
        code, text, err = gpuemu_output(capsys, "test", "--cases", "1", "--shard", part, "--format", "json")
        assert code == 0, err
        found.append([kernel["name"] for kernel in json.loads(text)["kernels"]])
    assert found == [["k0", "k2", "k4"], ["k1", "k3"]]
    code, _, err = gpuemu_output(capsys, "ci", "--cases", "1", "--shard", "6/6")
    assert code == 2 and "shard 6/6 is empty" in err
    flags = ("--signed", "--output", str(here.root / "part.html"), "--format", "html")
    code, _, err = gpuemu_output(capsys, "report", "--cases", "1", "--shard", "1/2", *flags)
    assert code == 2 and "not signed" in err
    assert gpuemu_output(capsys, "test", "--shard", "0/2")[0] == gpuemu_output(capsys, "test", "--shard", "3")[0] == 2
