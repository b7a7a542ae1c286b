"""References in PyTorch: tensors or arrays, whichever the function is written for."""

from __future__ import annotations

import numpy as np
import pytest
from support.oracle_cases import drawn_cases, rows

from gpuemu_lsp.engine.oracle import ReferenceFailure, call, load

TORCH, BOTH = "import torch\n", "import numpy as np\nimport torch\n"
METHODS = "return {'y': inputs['x'].clone().mul(2).flip(-1).contiguous()}"
REFERENCES = {
    "methods": (TORCH, METHODS),
    "methods, NumPy imported": (BOTH, METHODS),
    "method of both kinds": (TORCH, "return {'y': (2 * inputs['x']).T.contiguous().T.flip(-1)}"),
    "arrays from tensors": (BOTH, "x = inputs['x'].numpy()\nreturn {'y': torch.from_numpy(x[:, ::-1] * 2)}"),
    "tensors from arrays": (BOTH, "x = torch.from_numpy(inputs['x'])\nreturn {'y': (2 * x).flip(-1).numpy()}"),
    "NumPy": (BOTH, "return {'y': np.flip(inputs['x'], -1).astype(np.float64) * 2}"),
    "methods of arrays": (BOTH, "return {'y': inputs['x'].astype(float)[:, ::-1] * 2}"),
    "arrays, with a function of PyTorch": (BOTH, "n = torch.get_num_threads()\nreturn 2 * np.flip(inputs['x'].copy(), -1)"),
    "helper": (TORCH, "double = lambda value: value.mul(2)\nreturn {'y': double(inputs['x']).flip(-1)}"),
}  # fmt: skip


@pytest.fixture
def script(tmp_path):
    def write(header, body):
        indented = "".join(f"    {line}\n" for line in body.split("\n"))
        path = tmp_path / "ref.py"
        path.write_text(f"{header}\n\ndef reference(inputs):\n{indented}")
        return load(str(path))

    return write


@pytest.mark.parametrize("name", REFERENCES)
def test_references_get_what_they_are_written_for(script, name):
    drawn = rows()
    case = drawn_cases(drawn)[1]
    output = call(script(*REFERENCES[name]), drawn, case)
    assert np.array_equal(output.arrays["y"], 2.0 * case.tensors["x"][:, ::-1])
    assert output.changed_inputs == ()


def test_a_failure_of_both_is_that_of_the_first(script):
    drawn = rows()
    reference = script(TORCH, "return {'y': inputs['x'].no_such_method()}")
    with pytest.raises(ReferenceFailure, match="'Tensor' object has no attribute 'no_such_method'"):
        call(reference, drawn, drawn_cases(drawn)[0])
