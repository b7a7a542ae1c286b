"""Which programs of Python get PyTorch's CUDA device, and what is said where it cannot be had."""

from __future__ import annotations

import pytest

from gpuemu_lsp.cli.commands import python_programs, run
from gpuemu_lsp.cli.commands.python_programs import PythonProgram, UnusableTorchError, uses_runtime
from gpuemu_lsp.cli.commands.run import run_python_program
from gpuemu_lsp.cli.gpuemu import main
from gpuemu_lsp.engine.runtime.program import RunLimits
from gpuemu_lsp.engine.runtime.toolchain import torch_library
from gpuemu_lsp.engine.runtime.toolchain.torch_library import TorchBuild

FILES = {
    "extension.py": "import triton\nfrom torch.utils.cpp_extension import load_inline\n",
    "kernels.py": "import torch, os\nimport triton\n",
    "uses_kernels.py": "import torch\nimport helpers.more\n",
    "helpers/more.py": "from kernels import k\n",
    "plain.py": "import torch\nx = torch.ones(3, device='cuda')\n",
    "without.py": "import cupy\n",
    "loops.py": "import kernels\nfrom numba import cuda\n",
    "sessions.py": "import kernels\nimport gpuemu.triton\n",
    "tests/test_plain.py": "import plain\ntorch = 1\n",
    "mixed/test_triton.py": "import torch\nfrom triton import jit\n",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(python_programs, "installed_torch", lambda: TorchBuild(tmp_path, "2.13.0", None))
    monkeypatch.setattr(python_programs, "has_nvcc", lambda: True)
    monkeypatch.setattr(python_programs, "serves_triton", lambda: True)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "module", "uses"),
    [
        (("extension.py",), False, True),
        (("kernels.py",), False, True),
        (("uses_kernels.py",), False, True),
        (("loops.py",), False, False),
        (("sessions.py",), False, False),
        (("plain.py",), False, True),
        (("without.py",), False, False),
        (("pytest", "tests/test_plain.py::test_one"), True, True),
        (("pytest", "mixed"), True, True),
        (("pytest", "--gpuemu-triton", "mixed"), True, False),
        (("pytest",), True, True),
    ],
)
def test_programs_of_pytorch_and_triton_get_the_device(folder, words, module, uses):
    assert uses_runtime(PythonProgram(words, module)) is uses


def test_without_pytorch_or_compilers_nothing_changes(folder, monkeypatch):
    monkeypatch.setattr(python_programs, "has_nvcc", lambda: False)
    assert not uses_runtime(PythonProgram(("plain.py",), False))
    assert uses_runtime(PythonProgram(("extension.py",), False))
    monkeypatch.setattr(python_programs, "installed_torch", lambda: None)
    assert not uses_runtime(PythonProgram(("extension.py",), False))
    assert python_programs.python_environment() == {}


def test_launches_of_triton_are_replaced_where_the_device_cannot_be_built(folder, monkeypatch):
    triton, plain = PythonProgram(("kernels.py",), False), PythonProgram(("plain.py",), False)
    monkeypatch.setattr(python_programs, "serves_triton", lambda: False)
    assert not uses_runtime(triton) and uses_runtime(plain)


@pytest.mark.parametrize("lacks", ["a CPU build", "nvcc", "a compiler for C", "nothing"])
def test_what_triton_needs_for_the_device(monkeypatch, tmp_path, lacks):
    cuda = "12.8" if lacks == "a CPU build" else None
    monkeypatch.setattr(torch_library, "installed_torch", lambda: TorchBuild(tmp_path, "2.9.1", cuda))
    monkeypatch.setattr(torch_library, "has_nvcc", lambda: lacks != "nvcc")
    monkeypatch.setattr(torch_library.shutil, "which", lambda _: None if lacks == "a compiler for C" else "cc")
    monkeypatch.setattr(torch_library.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    (tmp_path / "Python.h").touch()
    assert torch_library.serves_triton() is (lacks == "nothing")


def test_a_build_for_cuda_is_refused_with_the_command_for_another(folder, monkeypatch):
    monkeypatch.setattr(python_programs, "installed_torch", lambda: TorchBuild(folder, "2.9.1+cu128", "12.8"))
    with pytest.raises(UnusableTorchError, match=r"is a build for CUDA 12.8.*pip install torch==2.9.1\+cpu"):
        python_programs.python_environment()


def test_a_program_without_the_device_is_not_recorded(folder, capsys):
    assert run_python_program(PythonProgram(("loops.py",), False), RunLimits(1), "text", None, record="") == 2
    assert "gpuemu: --record needs PyTorch's CUDA device" in capsys.readouterr().err
    assert not (folder / ".gpuemu").exists()


@pytest.mark.parametrize(
    ("words", "seconds"),
    [(["setup.py", "--", "build"], 3600), (["plain.py"], 600), (["--timeout", "7", "setup.py"], 7)],
)
def test_builds_may_take_longer(monkeypatch, words, seconds):
    limits = []
    monkeypatch.setattr(run, "run_python_program", lambda program, given, *_, **__: limits.append(given) or 0)
    assert main(["run", *words]) == 0
    assert limits[0].seconds == seconds
