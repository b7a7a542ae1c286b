"""compile_commands.json, compile_flags.txt and .clangd."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuemu_lsp.engine.build.context import build_context
from gpuemu_lsp.engine.build.model import BuildContext, SettingKind

KERNEL = "__global__ void k(float* x) { x[0] = N; }\n"


def _context(folder: Path, name: str = "k.cu", text: str = KERNEL) -> BuildContext:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return build_context(path.as_posix(), text)


def _database(folder: Path, *entries: dict[str, object], place: str = "compile_commands.json") -> None:
    (folder / ".git").mkdir(exist_ok=True)
    target = folder / place
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(entries))


def test_an_nvcc_command_gives_folders_macros_standard_and_architecture(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    command = "nvcc -c -O3 -Iinc -DN=4 -D M -std=c++20 -gencode arch=compute_90,code=sm_90 --use_fast_math k.cu -o k.o"
    _database(
        tmp_path, {"directory": str(tmp_path), "file": "k.cu", "command": command}, place="build/compile_commands.json"
    )
    context = _context(tmp_path)
    assert context.include_dirs == ((tmp_path / "inc").as_posix(),)
    assert context.options == ("-DN=4", "-DM", "-std=c++20", "--use_fast_math")
    assert context.arch == ("sm_90",)


def test_a_clang_command_as_a_list_and_what_nvrtc_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "sys").mkdir()
    words = ["clang++", "-x", "cuda", "--cuda-gpu-arch=sm_75", "-isystem", "sys", "-march=native", "-Wall", "k.cu"]
    _database(tmp_path, {"directory": str(tmp_path), "file": "k.cu", "arguments": words})
    context = _context(tmp_path)
    assert context.include_dirs == ((tmp_path / "sys").as_posix(),)
    assert context.options == ()
    assert context.arch == ()
    assert [setting.value for setting in context.of(SettingKind.IGNORED)] == ["-march=native", "-Wall"]


def test_a_response_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "inc").mkdir()
    (tmp_path / "includes.rsp").write_text('-I"inc" -DFROM_FILE\n')
    command = "nvcc --options-file includes.rsp -c k.cu"
    _database(tmp_path, {"directory": str(tmp_path), "file": "k.cu", "command": command})
    context = _context(tmp_path)
    assert context.include_dirs == ((tmp_path / "inc").as_posix(),)
    assert context.options == ("-DFROM_FILE",)


def test_a_header_is_compiled_as_the_source_that_includes_it(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("int unrelated;\n")
    (tmp_path / "b.cu").write_text('#include "k.cuh"\n')
    entries = [
        {"directory": str(tmp_path), "file": f"{name}.cu", "command": f"nvcc -D{name.upper()} -c {name}.cu"}
        for name in "ab"
    ]
    _database(tmp_path, *entries)
    assert _context(tmp_path, "k.cuh").options == ("-DB",)


def test_a_file_that_the_database_does_not_list_has_no_settings(tmp_path: Path) -> None:
    _database(tmp_path, {"directory": str(tmp_path), "file": "other.cu", "command": "nvcc -DOTHER other.cu"})
    assert _context(tmp_path).settings == ()


@pytest.mark.parametrize("content", ["", "{}", "[1, {}]", '[{"file": 3}]', "not json"])
def test_a_damaged_database_is_not_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "compile_commands.json").write_text(content)
    assert _context(tmp_path).settings == ()


def test_compile_flags_and_clangd(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "inc").mkdir()
    (tmp_path / "compile_flags.txt").write_text("-Iinc\n-DOLD\n-DKEPT=1\n")
    (tmp_path / ".clangd").write_text(
        "# for CUDA\nCompileFlags:\n  Add: [-DADDED, '-DVALUE=2']\n  Remove:\n    - -DOLD\n    - -W*\n"
        "---\nIf:\n  PathMatch: .*\\.cpp\nCompileFlags:\n  Add: -DONLY_CPP\n"
    )
    context = _context(tmp_path)
    assert context.include_dirs == ((tmp_path / "inc").as_posix(),)
    assert context.options == ("-DKEPT=1", "-DADDED", "-DVALUE=2")


def test_settings_name_their_origin(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "compile_flags.txt").write_text("-DN=1\n")
    (setting,) = _context(tmp_path).settings
    assert str(setting.origin) == (tmp_path / "compile_flags.txt").as_posix()
