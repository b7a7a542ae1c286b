"""``[build]`` of gpuemu.toml, precedence, and missing headers."""

from __future__ import annotations

from pathlib import Path

from gpuemu_lsp.engine.build.context import build_context
from gpuemu_lsp.engine.build.model import BuildContext
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.subjects.request import CheckOptions


def _write(root: Path, files: dict[str, str]) -> None:
    (root / ".git").mkdir(exist_ok=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def _context(root: Path, source: str = "k.cu") -> BuildContext:
    config = root / "gpuemu.toml"
    project = load(config) if config.exists() else None
    return build_context((root / source).as_posix(), (root / source).read_text(), project)


def test_the_table_takes_precedence_over_build_files(tmp_path: Path) -> None:
    _write(
        tmp_path,
        {
            "k.cu": "",
            "own/a.h": "",
            "other/b.h": "",
            "compile_flags.txt": "-Iother\n-DN=1\n-DM=1\n-std=c++17\n--cuda-gpu-arch=sm_86\n",
            "gpuemu.toml": '[build]\ninclude_dirs = ["own"]\ncompile_options = ["-DN=2", "-std=c++20"]\narch = ["sm_70"]\n',
        },
    )
    context = _context(tmp_path)
    assert context.include_dirs == ((tmp_path / "own").as_posix(), (tmp_path / "other").as_posix())
    assert context.options == ("-DN=2", "-std=c++20", "-DM=1")
    assert context.arch == ("sm_70",)


def test_without_detection_only_the_table_counts(tmp_path: Path) -> None:
    _write(tmp_path, {"k.cu": "", "compile_flags.txt": "-DM=1\n", "gpuemu.toml": "[build]\ndetect = false\n"})
    assert _context(tmp_path).settings == ()


def test_a_registered_kernel_keeps_its_options_and_gets_those_of_the_table(tmp_path: Path) -> None:
    _write(
        tmp_path,
        {
            "k.cu": "__global__ void a(float* x) {}\n__global__ void b(float* x) {}\n",
            "compile_flags.txt": "-DDETECTED\n",
            "gpuemu.toml": '[build]\ncompile_options = ["-DTABLE", "-DN=1"]\n'
            '[[kernels]]\nname = "a"\nsource = "k.cu"\ncompile_options = ["-DN=2"]\n'
            '[[kernels]]\nname = "b"\nsource = "k.cu"\n',
        },
    )
    targets = collect([], CheckOptions(), tmp_path)
    options = {request.spec.name: request.spec.compile_options for request in targets.requests}
    assert options == {"a": ("-DTABLE", "-DN=2"), "b": ("-DTABLE", "-DN=1", "-DDETECTED")}


def test_headers_in_the_projects_python_are_found_by_their_files(tmp_path: Path) -> None:
    packages = ".venv/lib/python3.12/site-packages"
    _write(
        tmp_path,
        {
            "csrc/k.cu": "#include <cutlass/array.h>\n#include <curand_kernel.h>\n",
            f"{packages}/cutlass_library/source/include/cutlass/array.h": "",
            f"{packages}/nvidia/curand/include/curand_kernel.h": "",
        },
    )
    context = _context(tmp_path, "csrc/k.cu")
    assert context.include_dirs == (
        (tmp_path / packages / "cutlass_library/source/include").as_posix(),
        (tmp_path / packages / "nvidia/curand/include").as_posix(),
    )
    assert not context.missing


def test_the_configured_interpreter_is_used(tmp_path: Path) -> None:
    _write(
        tmp_path,
        {
            "k.cu": "#include <cutlass/array.h>\n",
            "envs/a/bin/python": "",
            "envs/a/lib/python3.11/site-packages/cutlass_library/source/include/cutlass/array.h": "",
            "gpuemu.toml": '[build]\npython = "envs/a/bin/python"\n',
        },
    )
    assert [Path(folder).parts[-4:-1] for folder in _context(tmp_path).include_dirs] == [
        ("site-packages", "cutlass_library", "source")
    ]


def test_a_header_elsewhere_in_the_project_is_found_if_there_is_one(tmp_path: Path) -> None:
    _write(
        tmp_path,
        {"src/k.cu": '#include "deep/x.h"\n#include "twice.h"\n', "third/party/deep/x.h": "", "a/twice.h": "",
         "b/twice.h": ""},
    )  # fmt: skip
    context = _context(tmp_path, "src/k.cu")
    assert context.include_dirs == ((tmp_path / "third/party").as_posix(),)
    assert [item.target for item in context.missing] == ["twice.h"]


def test_a_missing_header_names_the_package_that_contains_it(tmp_path: Path) -> None:
    _write(tmp_path, {"k.cu": "#include <cutlass/array.h>\n#include <own/x.h>\n"})
    remedies = {item.target: item.remedy for item in _context(tmp_path).missing}
    assert remedies["cutlass/array.h"] == "pip install nvidia-cutlass into the project's Python"
    assert "[build]" in remedies["own/x.h"]


def test_an_include_that_an_if_excludes_is_not_missing(tmp_path: Path) -> None:
    text = "#ifdef USE_HIP\n#include <hip/hip_bf16.h>\n#else\n#include <own/x.h>\n#endif\n"
    _write(tmp_path, {"k.cu": text, "h.cu": text, "compile_flags.txt": "-DUSE_HIP\n"})
    assert [item.target for item in _context(tmp_path).missing] == ["hip/hip_bf16.h"]
    (tmp_path / "compile_flags.txt").unlink()
    assert [item.target for item in _context(tmp_path).missing] == ["own/x.h"]
