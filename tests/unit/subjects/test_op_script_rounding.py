"""References that are scripts: the rounding of their steps is allowed for, and wrong results are not."""

from __future__ import annotations

import builtins
import sys
from pathlib import Path

import numpy as np
import pytest

from gpuemu import Client
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS
from gpuemu_lsp.engine.oracle.rounding import MonteCarloArithmetic
from gpuemu_lsp.engine.oracle.scripts.stdin_scripts import StdinScript
from gpuemu_lsp.engine.oracle.trace import traced
from tests.unit.subjects.test_ops import checked, write

ENTRY = """
[[ops]]
name = "normalize"
op = "mylib:normalize"
reference = "ref.py"
[ops.dims]
rows = { max = 128 }
cols = [2, 3]
[ops.args]
x = { in = ["rows", "cols"], range = [-10.0, 10.0] }
"""
OP = """
import numpy as np


def normalize(x):
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + x.dtype.type(1e-5))
"""
SCRIPT = """
import sys
import numpy as np
from tensor_json import emit, read

if __name__ == "__main__":
    x = read("x").astype(np.float64)
    emit((x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5))
    sys.exit(0)
"""
HELPER = """
import base64, json, sys
import numpy as np


def read(name):
    one = json.load(sys.stdin)["inputs"][name]
    return np.frombuffer(base64.b64decode(one["data"]), one["dtype"]).reshape(one["shape"])


def emit(y):
    data = base64.b64encode(np.ascontiguousarray(y).tobytes()).decode()
    sys.stdout.write(json.dumps({"shape": y.shape, "dtype": str(y.dtype), "data": data}))
"""


@pytest.fixture
def folder(tmp_path):
    write(tmp_path, ENTRY, OP, SCRIPT)
    (tmp_path / "tensor_json.py").write_text(HELPER)
    return tmp_path


SIGNS = np.ones((4000, 2), np.float32)
SIGNS[7, 1] = -1.0


def rows(count=4000):
    """Return rows of two close values, in which the rounding of their mean is large; row 7 has distant ones."""
    x = np.random.default_rng(3).uniform(-10.0, 10.0, (count, 1))
    x[7] = 3.0
    return (
        np.concatenate([x, x + np.random.default_rng(4).uniform(0.01, 0.1, (count, 1))], axis=1).astype(np.float32)
        * SIGNS[:count]
    )


def normalized(x):
    variance = x.var(axis=-1, keepdims=True)
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(variance + np.float32(1e-5))


def test_a_step_whose_error_another_step_undoes_in_perturbed_inputs(folder):
    client, x = Client(folder), rows()
    assert client.validate_op("normalize", {"x": x}, normalized(x)).passed
    wrong = normalized(x)
    wrong[7, 1] *= np.float32(0.999)
    assert not client.validate_op("normalize", {"x": x}, wrong).passed


def test_the_command_agrees(folder):
    report, findings = checked(folder)
    assert (report.status, findings) == ("passed", [])
    write(folder, ENTRY, OP.replace(".var(axis=-1,", ".var(axis=-1, ddof=1,"), SCRIPT)
    assert checked(folder)[0].status == "failed"


PLAIN = """
import base64, json, sys
import numpy as np

one = json.load(sys.stdin)["inputs"]["x"]
data = base64.b64decode(one["data"])
x = DECODED.reshape(one["shape"])
y = (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)
result = base64.b64encode(np.ascontiguousarray(y).tobytes()).decode()
sys.stdout.write(json.dumps({"shape": y.shape, "dtype": str(y.dtype), "data": result}))
"""
FORKS = "import os\npid = os.fork()\nif pid == 0: os._exit(0)\nos.waitpid(pid, 0)\n"
TRACED = {
    "ends its process": SCRIPT.replace("sys.exit(0)", "sys.stdout.flush()\n__import__('os')._exit(0)"),
    "threads": SCRIPT.replace("import sys\n", "import sys, threading\nthreading.Thread(target=list).start()\n", 1),
    "processes": SCRIPT.replace("import sys\n", "import sys, subprocess\nsubprocess.run(['true'])\n", 1),
    "forks": FORKS + SCRIPT,
    "struct": PLAIN.replace("DECODED", "np.array(__import__('struct').unpack(f'{len(data) // 8}d', data))"),
    "array": PLAIN.replace("DECODED", "np.asarray(__import__('array').array('d', data))"),
    "from numpy": PLAIN.replace("DECODED", "decode(data)").replace(
        "np\n", "np\nfrom numpy import frombuffer as decode\n", 1
    ),
    "iterator": PLAIN.replace("DECODED", "np.fromiter(memoryview(data).cast('d'), float)"),
}


@pytest.mark.parametrize("name", TRACED)
def test_the_operations_of_a_script_round_however_it_decodes_and_ends(folder, name):
    (folder / "ref.py").write_text(TRACED[name])
    x = rows(50).astype(np.float64)
    exact, moved, noise = both(folder, x)
    assert noise.operations > 5
    # Only the rounding of the mean, and not a perturbed input, moves the ends of a row this far.
    assert 1e-6 < np.abs(moved - exact).max() < 1.0


NOT_TRACED = {
    "fails under the trace": SCRIPT.replace("    emit(", "    assert type(x) is np.ndarray\n    emit("),
    "is killed under the trace": SCRIPT.replace(
        "    emit(", "    if type(x) is not np.ndarray: __import__('os').kill(__import__('os').getpid(), 9)\n    emit("
    ),
}


@pytest.mark.parametrize("name", NOT_TRACED)
def test_a_script_that_cannot_be_traced_is_evaluated(folder, name):
    write(folder, ENTRY, OP, NOT_TRACED[name])
    client, x = Client(folder), rows(8)[7:]
    assert client.validate_op("normalize", {"x": x}, normalized(x)).passed
    assert not client.validate_op("normalize", {"x": x}, normalized(x) * np.float32(0.99)).passed


def both(folder, x):
    """Return the exact result, one with rounding errors, and their arithmetic."""
    noise = MonteCarloArithmetic(2.0**-21, 2.0**-21, FORMATS["float32"], 1, 1.0)
    script = StdinScript(str(folder / "ref.py"), str(folder))
    return script({"x": x}), script({"x": traced(x, noise)}), noise


def test_nothing_of_the_script_stays_in_this_process(folder):
    before = (list(sys.path), Path.cwd(), np.frombuffer, sys.stdin, sys.argv, builtins.__import__)
    exact, moved, noise = both(folder, rows(50).astype(np.float64))
    assert (list(sys.path), Path.cwd(), np.frombuffer, sys.stdin, sys.argv, builtins.__import__) == before
    assert "tensor_json" not in sys.modules
    assert 1e-6 < np.abs(moved - exact).max() < 1.0
    assert noise.operations > 0
