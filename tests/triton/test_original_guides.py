"""The originals' guides, block by block: each runs as printed, or docs/migration.md says what is wrong with it.

Their text is not part of this repository. ``GPUEMU_ORIGINAL_GUIDES`` names a folder with ``kernel-author.md``,
``custom-op-integrator.md`` and ``model-developer.md`` of gpuemu, and ``README.md`` of cuda-kernel-verifier.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shlex
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch

from gpuemu.client import Client
from gpuemu.frameworks.pytorch import validate_pytorch
from gpuemu.triton import emulated
from gpuemu.verifier import EquivalenceChecker
from gpuemu_lsp.cli.gpuemu import main as gpuemu
from gpuemu_lsp.engine.project import load

_FOLDER = os.environ.get("GPUEMU_ORIGINAL_GUIDES")
_BLOCK = re.compile(r"^([ ]*)```(\w+)[^\n]*\n(.*?)^\1```$", re.M | re.S)
_FILE = re.compile(r"(?:#|//) (\S+\.(?:py|h|cu))\b")
_MIGRATION = Path(__file__).resolve().parents[2] / "docs" / "migration.md"
_EXAMPLE_SEED = "8374629105"

pytestmark = [
    pytest.mark.skipif(_FOLDER is None, reason="GPUEMU_ORIGINAL_GUIDES is not set"),
    pytest.mark.timeout(1500),
]

WRONG = {
    ("kernel-author.md", "from gpuemu.validate import fuzz_layouts"): RuntimeError,
    ("custom-op-integrator.md", "# Compute in float64 for accuracy, cast output to match input dtype"): SyntaxError,
    ("model-developer.md", "results = client.fuzz_op("): ValueError,
    ("README.md", "import torch"): NameError,
}
"""Blocks that fail by their first line. Each has its reason in docs/migration.md."""


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def attention(q, k, v):
    found = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))
    return found.transpose(1, 2)


def polynomial(x):
    return x * x + 2.0 * x + 1.0


def wrong_polynomial(inputs):
    return polynomial(inputs["x"]) + 1


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def blocks(guide):
    text = (Path(_FOLDER) / guide).read_text(encoding="utf-8")
    return [(found[2], textwrap.dedent(found[3])) for found in _BLOCK.finditer(text)]


def write_files(folder, guide):
    """Write the blocks that are files."""
    for language, code in blocks(guide):
        named = _FILE.match(code)
        if named is not None and language != "bash":
            name = {"kernel.cu": "kernels/gelu_kernel.cu", "kernel_math.h": "kernels/kernel_math.h"}
            path = folder / name.get(named[1], named[1])
            path.parent.mkdir(exist_ok=True)
            path.write_text(code)


def configure(folder, guide, number=0):
    """Write the guide's entry of an op or kernel number `number` to gpuemu.toml."""
    entries = [code for language, code in blocks(guide) if language == "toml" and code.startswith("[[")]
    (folder / "gpuemu.toml").write_text(entries[number])


def outcomes(guide, namespace, only=None):
    """Run the Python blocks one after the other, and return the exceptions of those that fail by their first line."""
    found = {}
    for language, code in blocks(guide):
        first = code.splitlines()[0]
        if language != "python" or _FILE.match(code) or (only is not None and first not in only):
            continue
        needed = [name for name in ("jax", "tensorflow") if f"import {name}" in code]
        if any(importlib.util.find_spec(name) is None for name in needed):
            continue
        try:
            exec(compile(code, first, "exec", dont_inherit=True), namespace)  # noqa: S102
        except BaseException as error:
            found[first] = error
    return found


def check(guide, found):
    wrong = {first: kind for (page, first), kind in WRONG.items() if page == guide}
    assert {first: type(error) for first, error in found.items()} == wrong, found
    assert all(first in _MIGRATION.read_text(encoding="utf-8") for first in wrong)


def test_the_kernel_authors_fuzzing(project, monkeypatch):
    write_files(project, "kernel-author.md")
    configure(project, "kernel-author.md")
    assert not load(project / "gpuemu.toml").broken
    given = {"torch": torch, "fused_gelu_cuda": gelu, "client": Client(), "validate_pytorch": validate_pytorch}
    failing = given["client"].fuzz_op_client_side(
        "fused_gelu", lambda inputs: wrong_polynomial(inputs), iterations=1, seed=1
    )
    stored = failing.failures[0].seed
    texts = blocks("kernel-author.md")
    assert any(_EXAMPLE_SEED in code for _, code in texts)
    # The blocks make their own clients.
    monkeypatch.setattr(Client, "minimize", _replaying(Client.minimize, stored, wrong_polynomial))
    with emulated():
        found = outcomes("kernel-author.md", given)
    check("kernel-author.md", found)
    assert (given["results"].passed, given["results"].total) == (500, 500)
    assert given["result"].minimized_shape == (1, 1, 1)


def _replaying(method, stored, run_op):
    """Return a method in which the guides' example seed, which no project has, is that of a stored failure."""

    def called(self, seed, *args, **options):
        assert str(seed) == _EXAMPLE_SEED
        return method(self, stored, *args, run_op=run_op, **options)

    return called


def test_the_model_developers_guide(project, monkeypatch):
    write_files(project, "model-developer.md")
    configure(project, "model-developer.md")
    client = Client()
    # The blocks make their own clients.
    failing = client.fuzz_op_client_side("my_custom_op", wrong_polynomial, iterations=1, seed=1, dtypes=["float32"])
    reproduce = Client.reproduce

    def of_stored(self, seed, run_op=None):
        assert str(seed) == _EXAMPLE_SEED
        return reproduce(self, failing.failures[0].seed, wrong_polynomial)

    monkeypatch.setattr(Client, "reproduce", of_stored)
    given = {"torch": torch, "my_custom_op": polynomial, "my_custom_op_numpy": polynomial}
    found = outcomes("model-developer.md", given)
    check("model-developer.md", found)
    assert "gpuemu.toml does not say what to call" in str(found["results = client.fuzz_op("])
    assert (given["results"].passed, given["results"].total) == (100, 100)
    assert not given["repro"].result.passed

    # With what the migration page adds to the entry, the block runs.
    (project / "my_module.py").write_text("def my_custom_op(x):\n    return x * x + 2 * x + 1\n")
    text = re.sub(r"\[ops\.tolerances\]\n(.+\n)+", "", Path("gpuemu.toml").read_text())
    named = 'module = "my_module"\nop = "my_module:my_custom_op"\ninput_names = ["x"]'
    Path("gpuemu.toml").write_text(text.replace('module = "my_module"', named))
    assert outcomes("model-developer.md", given, only=["results = client.fuzz_op("]) == {}
    assert (given["results"].passed, given["results"].total) == (200, 200)


def test_the_integrators_guide(project, monkeypatch):
    write_files(project, "custom-op-integrator.md")
    configure(project, "custom-op-integrator.md")
    (project / "flash_attn.py").write_text(
        "import torch\n\n\ndef flash_attn_func(q, k, v):\n"
        "    q, k, v = (x.transpose(1, 2) for x in (q, k, v))\n"
        "    return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)\n"
    )
    q, k, v = (torch.randn(2, 16, 4, 32) for _ in range(3))
    given = {"q": q, "k": k, "v": v, "flash_attn_func": attention, "validate_pytorch": validate_pytorch}
    given |= {"client": Client(), "torch": torch}
    with emulated():
        # A baseline of the Python API is one of validated ops: the guide stores it after the fuzzing.
        first = outcomes("custom-op-integrator.md", given, only=["results = client.fuzz_op_client_side("])
        found = outcomes("custom-op-integrator.md", given)
    sys.modules.pop("flash_attn", None)
    assert not first
    check("custom-op-integrator.md", found)
    # The guide's tolerance is less than the rounding of fp32 for the largest scores; see the migration page.
    assert given["results"].total == 200
    assert given["results"].passed >= 199
    derived = re.sub(r"\[ops\.tolerances\]\n(.+\n)+", "", Path("gpuemu.toml").read_text())
    Path("gpuemu.toml").write_text(derived)
    with emulated():
        outcomes("custom-op-integrator.md", given, only=["results = client.fuzz_op_client_side("])
    assert given["results"].passed == 200
    assert given["tol"].atol > 1  # the axes of its reference_fn are wrong


def test_the_verifiers_readme(project):
    (project / "gpuemu.toml").write_text("")
    given = {"my_cuda_row_sum_kernel": lambda x: x.sum(dim=1), "my_cuda_kernel": lambda x: x.sum(dim=1)}
    with emulated():
        found = outcomes("README.md", given)
        check("README.md", found)
        assert "FailureCallbackArgs" in str(found["import torch"])
        # With the missing import it runs.
        source = next(code for language, code in blocks("README.md") if language == "python")
        source = source.replace("import equivalent,", "import FailureCallbackArgs, equivalent,")
        exec(compile(source, "README.md", "exec", dont_inherit=True), {"__name__": "guide", **given})  # noqa: S102
        EquivalenceChecker.start(execution_sample_probability=1.0)
        x = torch.randn(8, 4, requires_grad=True)
        assert given["FastRowSum"].apply(x).shape == (8,)
        assert EquivalenceChecker.stop().clean


def test_every_entry_of_an_op_is_read(project):
    for guide in ("kernel-author.md", "custom-op-integrator.md", "model-developer.md"):
        write_files(project, guide)
        for language, code in blocks(guide):
            if language != "toml" or "[[" not in code:
                continue
            for missing in re.findall(r'(?:reference|source) = "([^"]+)"', code):
                path = project / missing
                path.parent.mkdir(exist_ok=True)
                if not path.exists():
                    path.write_text("def reference(inputs, **kwargs):\n    return inputs['x']\n")
            (project / "gpuemu.toml").write_text(code)
            read = load(project / "gpuemu.toml")
            assert read.kernels
            assert not read.broken


@pytest.mark.parametrize("guide", ["kernel-author.md", "custom-op-integrator.md", "model-developer.md"])
def test_every_command_is_one(project, guide, capsys):
    """Commands of the guides are not refused as unknown; what they do is tested by sessions of our own guides."""
    write_files(project, guide)
    configure(project, guide)
    lines = [line for language, code in blocks(guide) if language == "bash" for line in code.splitlines()]
    for line in (one.split("#")[0].strip() for one in lines if one.startswith("gpuemu ")):
        with contextlib.suppress(SystemExit):
            gpuemu([one for one in shlex.split(line)[1:] if one != "<seed>"])
        error = capsys.readouterr().err
        assert "unrecognized" not in error, line
        assert "invalid choice" not in error, line


def test_every_block_of_an_op_is_known():
    """Each Python block has been run above: none is skipped for its form."""
    for guide in ("kernel-author.md", "custom-op-integrator.md", "model-developer.md", "README.md"):
        count = sum(language == "python" for language, _ in blocks(guide))
        assert (
            count
            == {
                "kernel-author.md": 5,
                "custom-op-integrator.md": 7,
                "model-developer.md": 12,
                "README.md": 3,
            }[guide]
        )
        assert np.all([code.strip() for _, code in blocks(guide)])
