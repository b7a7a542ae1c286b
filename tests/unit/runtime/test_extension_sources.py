"""What a build of an extension compiles: commands, local headers, and the lines of strings."""

from __future__ import annotations

import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gpuemu_lsp.engine.runtime.inline_sources import inline_origin
from gpuemu_lsp.engine.runtime.toolchain import torch_library
from gpuemu_lsp.engine.runtime.toolchain.compile_command import compile_command
from gpuemu_lsp.engine.runtime.toolchain.host_compiler import host_compiler
from gpuemu_lsp.engine.runtime.toolchain.light_headers import write_light_headers
from gpuemu_lsp.engine.runtime.toolchain.local_headers import expanded_source
from gpuemu_lsp.engine.runtime.toolchain.object_cache import HostObjects
from gpuemu_lsp.engine.runtime.toolchain.precompiled_headers import included_first
from gpuemu_lsp.engine.runtime.toolchain.torch_library import TorchBuild, installed_torch, torch_toolkit


def test_options_are_for_the_host_for_the_device_or_for_both():
    words = "-MD -MF k.o.d -I/a -isystem /b -DX=1 --expt-relaxed-constexpr --compiler-options '-fPIC' -std=c++20 -c k.cu -o k.o"
    command = compile_command(words.split())
    assert command is not None
    assert (command.source, command.target, command.dependencies) == (Path("k.cu"), Path("k.o"), Path("k.o.d"))
    assert command.shared == ("-I/a", "-isystem", "/b", "-DX=1", "-std=c++20")
    assert command.host == ("-fPIC",)
    assert command.device == ("--expt-relaxed-constexpr",)
    assert command.folders == (Path("/a"), Path("/b"))


@pytest.mark.parametrize("words", ["k.cu -o k", "-c a.cu b.cu -o k.o", "-c k.cu", "--version"])
def test_a_command_that_makes_no_single_object_is_not_touched(words):
    assert compile_command(words.split()) is None


def test_local_headers_are_put_in_place_once_with_their_lines(tmp_path):
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "shared.cuh").write_text("#pragma once\nint shared;\n")
    (tmp_path / "own.h").write_text('#include "shared.cuh"\nint own;\n')
    source = tmp_path / "k.cu"
    source.write_text('#include <torch/extension.h>\n#include "own.h"\n#include <shared.cuh>\nint last;\n')
    text, headers = expanded_source(source, [tmp_path / "include"])
    assert headers == (tmp_path / "own.h", tmp_path / "include" / "shared.cuh")
    assert text.count("int shared;") == 1
    assert "#include <torch/extension.h>" in text
    lines = text.splitlines()
    assert lines[lines.index("int own;") + 1] == f'#line 3 "{source}"'
    assert lines[lines.index("int last;") - 1] == ""


def test_light_headers_have_what_a_source_names(tmp_path):
    includes = tmp_path / "include"
    for name in ("ATen/core/Tensor.h", "ATen/ops/empty_like_ops.h", "torch/csrc/utils/pybind.h"):
        (includes / name).parent.mkdir(parents=True, exist_ok=True)
        (includes / name).write_text("")
    folder = tmp_path / "light"
    assert write_light_headers("torch::empty_like(x); torch::unknown(x); PYBIND11_MODULE(a, m)", includes, folder)
    content = (folder / "gpuemu_light.h").read_text()
    assert "ATen/ops/empty_like.h" in content and "unknown" not in content
    assert "torch/csrc/utils/pybind.h" in content
    assert "gpuemu_light.h" in (folder / "torch" / "extension.h").read_text()
    assert not write_light_headers("torch::nn::Linear(1, 2)", includes, folder)


def test_an_object_is_kept_by_its_source_and_options(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / "cache"))
    source, built, target = tmp_path / "k.cu", tmp_path / "k.o", tmp_path / "again.o"
    built.write_bytes(b"code")
    cache = HostObjects()
    key = cache.key("text", source, ["-O2"], ["1"])
    assert not cache.restore(key, target)
    cache.store(key, built)
    assert cache.restore(key, target)
    assert target.read_bytes() == b"code"
    others = [("other", source, ["-O2"], ["1"]), ("text", tmp_path / "b.cu", ["-O2"], ["1"])]
    others += [("text", source, ["-O3"], ["1"]), ("text", source, ["-O2"], ["2"])]
    assert not any(cache.restore(cache.key(*other), target) for other in others)


def test_headers_are_compiled_ahead_once_some_sources_have_the_same_options(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / "cache"))
    version, source, target = tmp_path / "torch" / "version.h", tmp_path / "main.cpp", tmp_path / "main.o"
    version.parent.mkdir()
    version.write_text("")
    source.write_text("int two() { return ONE + ONE; }\n")
    words = ["-DTORCH_EXTENSION_NAME=first", "-std=c++17", "-fPIC", "-c", str(source), "-o", str(target)]

    def first(words, text="enum { ONE = 1 };\n"):
        command = compile_command(words)
        assert command is not None
        return included_first(command, tmp_path, text, command.device)

    others = [word.replace("first", "second") for word in words]
    assert [first(words), first(others)] == [[], []]
    include, header = first(words)
    assert (include, Path(f"{header}.gch").is_file()) == ("-include", True)
    assert first(others) == [include, header]
    assert first([*words, "-march=native"]) == first(words, "enum { ONE = 2 };\n") == []
    # g++ warns of a file that it cannot use, and the text is not read where it can.
    Path(header).write_text("not read")
    subprocess.run([host_compiler(), include, header, "-Winvalid-pch", "-Werror", *words], check=True)


SCRIPT = '''import torch

CUDA = """
__global__ void first(float* x, int n) {
    int i = threadIdx.x;
    if (i < LIMIT) x[i] = 1;
    x[i] += another_value;
}
"""
load_inline(CUDA.replace("LIMIT", "n"))
'''


def test_a_line_of_a_written_source_is_that_of_the_string(tmp_path):
    script, folder = tmp_path / "script.py", tmp_path / "build"
    script.write_text(SCRIPT)
    folder.mkdir()
    (folder / "build.ninja").write_text("")
    written = folder / "cuda.cu"
    text = SCRIPT.split('"""')[1].replace("LIMIT", "n")
    written.write_text(f"#include <torch/types.h>\n#include <cuda.h>\n{text}\n#define MORE\n")
    lines = written.read_text().splitlines()
    for wanted in (
        "__global__ void first(float* x, int n) {",
        "    if (i < n) x[i] = 1;",
        "    x[i] += another_value;",
    ):
        path, line = inline_origin(str(written), lines.index(wanted) + 1, str(script))
        assert path == str(script)
        assert SCRIPT.splitlines()[line - 1].replace("LIMIT", "n") == wanted
    assert inline_origin(str(written), 2, str(script)) is None
    test = tmp_path / "test_script.py"
    test.write_text("import script\n")
    assert inline_origin(str(written), lines.index("    x[i] += another_value;") + 1, str(test))[0] == str(script)
    (folder / "build.ninja").unlink()
    assert inline_origin(str(folder / "main.cpp"), 3, str(script)) is None


@pytest.mark.parametrize(
    ("text", "version", "cuda"),
    [
        ("__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\n", "2.13.0+cpu", None),
        ("__version__ = '2.9.1'\ncuda: Optional[str] = '12.8'\n", "2.9.1", "12.8"),
    ],
)
def test_the_build_of_pytorch_is_read_from_its_version_file(text, version, cuda, tmp_path, monkeypatch):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('it is not imported')")
    (tmp_path / "torch" / "version.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    torch = installed_torch()
    assert torch is not None
    assert (torch.folder, torch.version, torch.cuda) == (tmp_path / "torch", version, cuda)


def test_two_runs_at_once_build_the_device_once(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / "cache"))
    toolkit = tmp_path / "toolkit"
    for part in ("bin", "include", "lib64"):
        (toolkit / part).mkdir(parents=True)
    builds, said = list[Path](), list[str]()

    def build(torch: TorchBuild, folder: Path, target: Path) -> None:
        builds.append(target)
        time.sleep(0.2)
        target.write_bytes(b"library")

    monkeypatch.setattr(torch_library, "toolkit_folder", lambda: toolkit)
    monkeypatch.setattr(torch_library, "_build", build)
    torch = TorchBuild(tmp_path, "2.13.0", None)
    with ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(torch_toolkit, torch, said.append) for _ in range(2))
        assert first.result(30) == second.result(30)
    assert len(builds) == len(said) == 1
    assert (first.result() / "lib64" / "libtorch_cuda.so").read_bytes() == b"library"
