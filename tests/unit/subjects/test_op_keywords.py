"""``[ops.kwargs]``: keyword arguments that the op and its reference get as they are written."""

from __future__ import annotations

import numpy as np
import pytest

from gpuemu import Client
from tests.unit.subjects.test_op_interpreters import environment, project  # noqa: F401 - fixtures
from tests.unit.subjects.test_ops import checked, write

ENTRY = """
[[ops]]
name = "reduce"
op = "mylib:reduce"
reference = "ref.py"
[ops.dims]
rows = { max = 9 }
cols = { max = 20 }
[ops.args]
x = { in = ["rows", "cols"] }
[ops.kwargs]
mode = "mean"
axis = [0, 1]
keep = true
bias = 0.5
"""
OP = """
import numpy as np


def reduce(x, *, mode, axis, keep=False, bias=0.0):
    assert (type(mode), type(axis), type(keep), type(bias)) == (str, tuple, bool, float)
    return getattr(np, mode)(x, axis=axis, keepdims=keep) + x.dtype.type(bias)
"""
REFERENCE = """
def reference(inputs, mode, axis, keep, bias):
    return getattr(inputs["x"], mode)(axis=axis, keepdims=keep) + bias
"""
SCRIPT = """
import base64, json, sys
import numpy as np
document = json.load(sys.stdin)
given, x = document["kwargs"], document["inputs"]["x"]
array = np.frombuffer(base64.b64decode(x["data"]), x["dtype"]).reshape(x["shape"])
axis, keep = tuple(json.loads(given["axis"])), given["keep"] == "true"
result = getattr(array, given["mode"])(axis=axis, keepdims=keep) + array.dtype.type(given["bias"])
data = base64.b64encode(result.tobytes()).decode()
print(json.dumps({"shape": result.shape, "dtype": result.dtype.name, "data": data}))
"""


def test_both_get_them(tmp_path):
    write(tmp_path, ENTRY, OP, REFERENCE)
    report, findings = checked(tmp_path)
    assert (report.status, findings) == ("passed", [])
    write(tmp_path, ENTRY, OP.replace("type(bias)\n", "type(2 * bias)\n"), REFERENCE)
    assert {one.rule for one in checked(tmp_path)[1]} == {"numeric/tolerance-exceeded"}


def test_in_another_interpreter(project):  # noqa: F811
    write(project, ENTRY, OP, REFERENCE)
    report, findings = checked(project)
    assert (report.status, findings) == ("passed", [])


@pytest.mark.parametrize("reference", [REFERENCE, SCRIPT])
def test_scripts_get_them_as_text(tmp_path, reference):
    write(tmp_path, ENTRY.replace('op = "mylib:reduce"', 'op_script = "op.py"'), OP, reference)
    (tmp_path / "op.py").write_text(SCRIPT)
    report, findings = checked(tmp_path)
    assert (report.status, findings) == ("passed", [])


def test_one_that_the_op_does_not_have_is_an_error(tmp_path):
    write(tmp_path, ENTRY + 'other = "x"\n', OP, REFERENCE)
    report, findings = checked(tmp_path)
    assert report.status == "failed"
    assert "unexpected keyword argument 'other'" in findings[0].message


def test_results_of_a_client_are_judged_with_them(tmp_path):
    write(tmp_path, ENTRY, OP, REFERENCE)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    client = Client(tmp_path)
    assert client.validate_op("reduce", {"x": x}, np.full((1, 1), 3.0, np.float32)).passed
    assert not client.validate_op("reduce", {"x": x}, np.full((1, 1), 2.5, np.float32)).passed
    assert client.fuzz_op("reduce", seed=1, iterations=4).passed == 4


SCALARS = """
[[ops]]
name = "clamp"
op = "mylib:clamp"
reference = "ref.py"
[ops.dims]
n = { max = 30 }
[ops.args]
x = { in = ["n"] }
low = -0.5
high = { value = 2, as = "top" }
size = "n + 1"
"""
CLAMP = (
    "import numpy as np\n\n\ndef clamp(x, low, high, size):\n    return np.clip(x, low, high) * x.dtype.type(size)\n"
)
CLAMP_REFERENCE = """
import numpy as np


def reference(inputs, low, top):
    assert inputs["low"] == low
    return np.clip(inputs["x"], low, top) * inputs["size"]
"""


def test_scalars_of_the_entry_reach_ops_and_references_of_a_client(tmp_path):
    write(tmp_path, SCALARS, CLAMP, CLAMP_REFERENCE)
    assert checked(tmp_path)[0].status == "passed"
    client, x = Client(tmp_path), np.linspace(-3, 3, 9, dtype=np.float32)
    right = np.clip(x, np.float32(-0.5), np.float32(2)) * np.float32(10)
    assert client.fuzz_op("clamp", seed=1, iterations=4).passed == 4
    assert client.validate_op("clamp", {"x": x}, right).passed
    assert not client.validate_op("clamp", {"x": x}, right * np.float32(1.01)).passed
    assert np.allclose(client.reference("clamp", {"x": x}), right)
