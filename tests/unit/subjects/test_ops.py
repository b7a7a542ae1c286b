"""Ops: functions in Python, called with fuzzed arrays and compared with a reference."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

ENTRY = """
[[ops]]
name = "softmax"
op = "mylib:softmax"
reference = "ref.py"
[ops.dims]
rows = { max = 9 }
cols = { max = 200 }
[ops.args]
x = { in = ["rows", "cols"] }
y = { out = ["rows", "cols"] }
"""
SOFTMAX = """
import numpy as np


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
"""
REFERENCE = """
import numpy as np


def reference(inputs):
    e = np.exp(inputs["x"] - inputs["x"].max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)
"""


def write(folder: Path, entry: str = ENTRY, op: str = SOFTMAX, reference: str = REFERENCE) -> None:
    for name, text in (("gpuemu.toml", entry), ("mylib.py", op), ("ref.py", reference)):
        (folder / name).write_text(text, encoding="utf-8")


def checked(folder: Path, options: CheckOptions | None = None) -> tuple[KernelReport, list[Finding]]:
    project = load(folder / "gpuemu.toml")
    assert not project.findings, project.findings
    (spec,) = project.kernels
    request = CheckRequest(spec, options or CheckOptions(), project.validation, root=project.root)
    events = list(check_kernel(request))
    assert isinstance(events[-1], KernelReport)
    return events[-1], [event for event in events if isinstance(event, Finding)]


def test_a_correct_op_passes(tmp_path):
    write(tmp_path)
    report, findings = checked(tmp_path)
    assert (report.status, report.executor, report.cases.passed, findings) == ("passed", "python", 16, [])


WRONG = {
    "sign": SOFTMAX.replace("x - x.max", "x + x.max"),
    "scale": SOFTMAX.replace("return e /", "return 1.001 * e /"),
    "tail": SOFTMAX.replace("    return", "    e[:, 32 * (x.shape[1] // 32):] = 0\n    return"),
    "nan": SOFTMAX.replace("return e /", "return np.where(x == x.max(), np.nan, e) /"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_op_is_found_on_its_name(tmp_path, name):
    write(tmp_path, op=WRONG[name])
    report, findings = checked(tmp_path)
    assert report.status == "failed"
    assert {finding.rule for finding in findings} <= {"numeric/tolerance-exceeded", "numeric/nan", "numeric/inf"}
    assert {(Path(one.place.path).name, one.place.range.start.line) for one in findings} == {("mylib.py", 4)}


FAULTS = {
    "raises": (SOFTMAX.replace("x.max(", "x.maximum("), "op/error", "AttributeError"),
    "exits": (SOFTMAX.replace("    return", "    raise SystemExit(0)\n    return"), "op/error", "SystemExit"),
    "nothing": (SOFTMAX.replace("return e", "e"), "op/wrong-result", "returned nothing"),
    "short": (SOFTMAX.replace("keepdims=True))\n    return", "keepdims=True))\n    e = e[:-1]\n    return"),
              "numeric/shape-mismatch", "declared"),
    "float64": (SOFTMAX.replace("return e /", "return e.astype(np.float64) /"), "numeric/dtype-mismatch", "float64"),
    "object": (SOFTMAX.replace("return e", 'return "e" or e'), "op/wrong-result", "not an array"),
    "in place": (SOFTMAX.replace("np.exp(x", "np.exp(x, out=x) if 0 else x.__setitem__(0, 0) or np.exp(x"),
                 "numeric/input-modified", "x"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_result_that_is_not_as_declared_has_its_own_message(tmp_path, name):
    text, rule, words = FAULTS[name]
    entry = ENTRY.replace('y = { out = ["rows", "cols"]', 'y = { out = ["rows", "cols"], dtype = "float32"')
    write(tmp_path, entry, text)
    report, findings = checked(tmp_path)
    found = [finding for finding in findings if finding.rule == rule]
    assert report.status == "failed", findings
    assert found, findings
    assert words in found[0].message


def test_an_exception_is_on_its_line(tmp_path):
    write(tmp_path, op=FAULTS["raises"][0])
    _, findings = checked(tmp_path)
    assert [(Path(one.place.path).name, one.place.range.start.line) for one in findings] == [("mylib.py", 5)]


def test_an_op_that_does_not_return_is_ended(tmp_path):
    write(tmp_path, op=SOFTMAX.replace("    e = ", "    while True: pass\n    e = "))
    report, findings = checked(tmp_path, CheckOptions(case_seconds=0.3))
    assert report.status == "failed"
    assert [finding.rule for finding in findings] == ["op/error"]
    assert "did not return within 0.3 s" in findings[0].message


NOT_RUN = {
    "client side": (ENTRY.replace('op = "mylib:softmax"', 'module = "mylib"'), 'add op = "mylib:function"'),
    "daemon": (
        ENTRY.replace('op = "mylib:softmax"', 'execution_mode = "daemon_orchestrated"'),
        "it is daemon_orchestrated",
    ),
    "script": (ENTRY.replace('op = "mylib:softmax"', 'execution_mode = "script_based"'), "no `op_script`"),
    "not installed": (ENTRY.replace("mylib:softmax", "no_such_library:softmax"), "pip install no_such_library"),
}


@pytest.mark.parametrize("name", NOT_RUN)
def test_an_op_that_cannot_run_is_not_executed(tmp_path, name):
    entry, words = NOT_RUN[name]
    write(tmp_path, entry=entry)
    report, (finding,) = checked(tmp_path)
    assert (report.status, report.cases.run, finding.rule) == ("not-executed", 0, "engine/not-executed")
    assert words in finding.message
    assert Path(finding.place.path).name == "gpuemu.toml"


def test_nothing_is_imported_where_the_workspace_is_not_trusted(tmp_path):
    write(tmp_path, op="raise SystemExit(1)")
    report, (finding,) = checked(tmp_path, CheckOptions(execute=False))
    assert (report.status, finding.rule) == ("not-executed", "engine/not-executed")
    assert "not trusted" in finding.message


def test_a_function_that_the_module_lacks_is_a_mistake_in_the_configuration(tmp_path):
    write(tmp_path, entry=ENTRY.replace("mylib:softmax", "mylib:soft"))
    report, (finding,) = checked(tmp_path)
    assert (report.status, finding.rule, finding.severity) == ("error", "config/bad-value", Severity.ERROR)
    assert "has no function 'soft'" in finding.message


def test_a_module_that_raises_is_found_on_its_line(tmp_path):
    write(tmp_path, op="import numpy\n1 / 0\n" + SOFTMAX)
    report, (finding,) = checked(tmp_path)
    assert (report.status, finding.rule) == ("error", "op/error")
    assert (Path(finding.place.path).name, finding.place.range.start.line) == ("mylib.py", 1)


def test_an_edited_module_is_imported_again(tmp_path):
    write(tmp_path)
    assert checked(tmp_path)[0].status == "passed"
    write(tmp_path, op=WRONG["scale"])
    assert checked(tmp_path)[0].status == "failed"


def test_an_installed_function_is_placed_on_its_name_in_the_configuration(tmp_path):
    write(tmp_path, entry=ENTRY.replace("mylib:softmax", "numpy:tanh"))
    _, findings = checked(tmp_path)
    assert {finding.rule for finding in findings} == {"numeric/tolerance-exceeded"}
    assert {Path(finding.place.path).name for finding in findings} == {"gpuemu.toml"}


def test_memory_that_is_not_contiguous_is_tried(tmp_path):
    """The op ignores the strides of its input."""
    op = (
        "import numpy as np\n\n\ndef double(x):\n    start = x.__array_interface__['data'][0]\n"
        "    memory = (np.ctypeslib.ctypes.c_float * x.size).from_address(start)\n"
        "    return 2 * np.frombuffer(memory, np.float32).reshape(x.shape)\n"
    )
    entry = ENTRY.replace("mylib:softmax", "mylib:double")
    reference = "def reference(inputs):\n    return 2 * inputs['x']\n"
    write(tmp_path, entry=entry, op=op, reference=reference)
    report, findings = checked(tmp_path)
    assert report.status == "failed"
    assert any("depends on the strides of the inputs, here x [" in finding.message for finding in findings)
    write(tmp_path, entry=entry.replace('reference = "ref.py"', 'reference = "ref.py"\nlayouts = ["contiguous"]'), op=op,
          reference=reference)  # fmt: skip
    assert checked(tmp_path)[0].status == "passed"
    # An op may refuse memory that is not contiguous.
    refusing = op.replace("    start", "    assert x.flags.c_contiguous\n    start")
    write(tmp_path, entry=entry, op=refusing, reference=reference)
    assert checked(tmp_path)[0].status == "passed"


def test_options_of_the_emulator_do_not_matter(tmp_path):
    write(tmp_path)
    thorough = CheckOptions(unoptimized=True, counters=True, coverage=True, verdicts="reuse", cases=4)
    assert checked(tmp_path, thorough)[0].status == "passed"
    assert checked(tmp_path, replace(thorough, executor="gpu"))[0].status == "passed"


SCRIPT = """
import base64, json, sys
import numpy as np

payload = json.load(sys.stdin)
given = payload["inputs"]["x"]
x = np.frombuffer(base64.b64decode(given["data"]), given["dtype"]).reshape(given["shape"])
y = x * float(payload["kwargs"]["factor"]) if payload["kwargs"]["negate"] == "false" else -x
print(json.dumps({"shape": y.shape, "dtype": str(y.dtype), "data": base64.b64encode(y.tobytes()).decode()}))
"""
SCRIPT_ENTRY = """
[[ops]]
name = "scale"
execution_mode = "script_based"
op_script = "op.py"
reference = "ref.py"
[ops.dims]
n = { max = 40 }
[ops.args]
x = { in = ["n"] }
factor = 2.5
negate = false
y = { out = ["n"] }
"""
FACTOR = "def reference(inputs, factor):\n    return inputs['x'] * factor\n"


def scripts(folder: Path, op: str, reference: str = FACTOR) -> None:
    write(folder, SCRIPT_ENTRY, reference=reference)
    (folder / "op.py").write_text(op)


@pytest.mark.parametrize("reference", [FACTOR, SCRIPT])
@pytest.mark.parametrize("op", [SCRIPT, "def op(inputs, factor, **kwargs):\n    return inputs['x'] * 2.5\n"])
def test_scripts_and_functions_are_interchangeable(tmp_path, op, reference):
    options = CheckOptions(cases=3)
    scripts(tmp_path, op, reference)
    report, findings = checked(tmp_path, options)
    assert (report.status, findings) == ("passed", [])
    scripts(tmp_path, op.replace("2.5", "2.6").replace("float(", "1.01 * float("), reference)
    assert checked(tmp_path, options)[0].status == "failed"


SCRIPT_FAULTS = {
    "short": (SCRIPT.replace("y.tobytes()", "y.tobytes()[:-4]"), "elements ("),
    "no output": (SCRIPT.replace("print(", "str("), "wrote no JSON object"),
    "text": (SCRIPT + "print('done')\n", "wrote no JSON object"),
    "raises": (SCRIPT.replace('["inputs"]["x"]', '["inputs"]["z"]'), "exit code 1: KeyError: 'z'"),
    "not base64": (SCRIPT.replace(".decode()}", ".decode()[:-1] + '!'}"), "is not a tensor"),
}


@pytest.mark.parametrize("name", SCRIPT_FAULTS)
def test_an_output_that_is_not_a_tensor_is_an_error(tmp_path, name):
    text, words = SCRIPT_FAULTS[name]
    scripts(tmp_path, text)
    report, findings = checked(tmp_path, CheckOptions(cases=2))
    assert report.status == "failed"
    assert {finding.rule for finding in findings} == {"op/error"}
    assert words in findings[0].message
    scripts(tmp_path, SCRIPT, text)
    report, findings = checked(tmp_path, CheckOptions(cases=2))
    assert report.status == "error"
    assert {finding.rule for finding in findings} == {"reference/error"}


def test_a_script_that_does_not_return_is_killed_with_its_children(tmp_path):
    child = "import subprocess, sys, time\nopen('pid', 'w').write(str(subprocess.Popen(['sleep', '600']).pid))\n"
    scripts(tmp_path, f"# stdin\n{child}time.sleep(600)\n")
    report, findings = checked(tmp_path, CheckOptions(cases=1, case_seconds=1.0))
    assert report.status == "failed"
    assert "did not return within 1 s" in findings[0].message
    pid = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 10.0
    while _runs(pid) and time.monotonic() < until:
        time.sleep(0.05)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


ATTENTION = """
import numpy as np


def op(inputs, **kwargs):
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    s = np.zeros((q.shape[0], k.shape[0]), np.float32)
    for i in range(q.shape[1]):
        s += q[:, i : i + 1] * k[:, i]
    s *= np.float32(1.4426950408889634)
    e = np.exp2(s - s.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) @ v
"""
ATTENTION_SCRIPT = """
import base64, json, sys
import numpy as np

payload = json.load(sys.stdin)["inputs"]
given = [payload[name] for name in "qkv"]
q, k, v = (np.frombuffer(base64.b64decode(one["data"]), one["dtype"]).reshape(one["shape"]) for one in given)
s = q @ k.T
e = np.exp(s - s.max(axis=1, keepdims=True))
y = e / e.sum(axis=1, keepdims=True) @ v
print(json.dumps({"shape": y.shape, "dtype": str(y.dtype), "data": base64.b64encode(y.tobytes()).decode()}))
"""
ATTENTION_ENTRY = """
[[ops]]
name = "attention"
execution_mode = "script_based"
op_script = "op.py"
reference = "ref.py"
[ops.dims]
m = 8
n = 16
d = 64
[ops.args]
q = { in = ["m", "d"], range = [-30.0, 30.0] }
k = { in = ["n", "d"] }
v = { in = ["n", "d"] }
y = { out = ["m", "d"] }
"""


def test_errors_of_intermediate_results_of_a_script_are_allowed_for(tmp_path):
    """The arguments of the exponential are in the hundreds, and their rounding is not simulated in a script."""
    write(tmp_path, ATTENTION_ENTRY, reference=ATTENTION_SCRIPT)
    (tmp_path / "op.py").write_text(ATTENTION)
    report, findings = checked(tmp_path, CheckOptions(cases=2))
    assert (report.status, findings) == ("passed", [])
    assert report.worst is not None and report.worst < 0.03
