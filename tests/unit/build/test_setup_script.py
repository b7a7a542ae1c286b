"""CUDAExtension of setup.py and pyproject.toml, read without running them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.build.context import build_context
from gpuemu_lsp.engine.build.model import BuildContext

TORCH = {"-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__", "-D__CUDA_NO_BFLOAT16_CONVERSIONS__",
         "-D__CUDA_NO_HALF2_OPERATORS__"}  # fmt: skip


def _context(root: Path, script: str, name: str = "csrc/k.cu", build_file: str = "setup.py") -> BuildContext:
    (root / ".git").mkdir(exist_ok=True)
    (root / build_file).write_text(script)
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("__global__ void k() {}\n")
    (root / "csrc" / "include").mkdir(parents=True, exist_ok=True)
    return build_context(path.as_posix(), path.read_text())


def _own(context: BuildContext) -> list[str]:
    return [option for option in context.options if option not in TORCH]


def test_constants_paths_and_nvcc_options(tmp_path: Path) -> None:
    context = _context(
        tmp_path,
        """
import os, os.path as osp
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
raise SystemExit("never run")
here = os.path.dirname(os.path.abspath(__file__))
NVCC = ["-O3", "--use_fast_math"] + ["-DVERSION=%d" % 3]
NVCC += ["-DTILE=32"]
NVCC.append("-DLAST")
ext_modules = []
if torch.cuda.is_available():
    ext_modules.append(CUDAExtension(
        name="ext", sources=[osp.join("csrc", "k.cu")],
        include_dirs=[osp.join(here, "csrc", "include"), os.path.join(here, "csrc", "absent")],
        define_macros=[("WITH_CUDA", None), ("LEVEL", "2")],
        extra_compile_args={"cxx": ["-DHOST"], "nvcc": NVCC},
    ))
""",
    )
    assert context.include_dirs == ((tmp_path / "csrc/include").as_posix(),)
    assert _own(context) == ["-DWITH_CUDA", "-DLEVEL=2", "--use_fast_math", "-DTILE=32", "-DLAST"]
    assert set(context.options) > TORCH


def test_pytorchs_macros_are_removed_as_the_script_removes_them(tmp_path: Path) -> None:
    context = _context(
        tmp_path,
        "CUDAExtension('ext', ['csrc/k.cu'], extra_compile_args={'nvcc': ['-U__CUDA_NO_HALF_OPERATORS__']})\n",
    )
    assert "-D__CUDA_NO_HALF_OPERATORS__" not in context.options
    assert "-D__CUDA_NO_HALF_CONVERSIONS__" in context.options


def test_only_the_extension_of_the_file_gives_macros(tmp_path: Path) -> None:
    context = _context(
        tmp_path,
        """
CUDAExtension("a", ["csrc/a.cu"], include_dirs=["csrc"], extra_compile_args=["-DA"])
CUDAExtension("b", ["csrc/k.cu"], extra_compile_args=["-DB"])
""",
    )
    assert _own(context) == ["-DB"]
    assert context.include_dirs == ((tmp_path / "csrc").as_posix(),)


@pytest.mark.parametrize(
    "condition",
    [
        "os.name == 'nt'",
        "sys.platform == 'win32'",
        "torch.version.hip",
        "torch.version.hip is not None",
        "IS_HIP_EXTENSION",
        "'DEBUG' in os.environ",
        "os.environ.get('DEBUG', '0') == '1'",
        "os.getenv('DEBUG')",
    ],
)
def test_conditions_that_are_false_here(tmp_path: Path, condition: str) -> None:
    script = (
        f"args = ['-DKEPT']\nflag = {condition}\nif flag:\n    args += ['-DA']\nif {condition}:\n    args += ['-DB']\n"
    )
    context = _context(tmp_path, f"{script}CUDAExtension('e', ['csrc/k.cu'], extra_compile_args={{'nvcc': args}})\n")
    assert _own(context) == ["-DKEPT"]


def test_globbed_sources(tmp_path: Path) -> None:
    script = (
        "import glob\nCUDAExtension('e', glob.glob('csrc/*.cu'), define_macros=[('G', None)])\nCUDAExtension('f', [])\n"
    )
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc/k.cu").write_text("")
    assert _own(_context(tmp_path, script)) == ["-DG"]


@pytest.mark.parametrize(
    "script", ["def broken(:\n  CUDAExtension", "CUDAExtension(*args, **kwargs)\n", "x = CUDAExtension\n"]
)
def test_a_script_that_says_nothing_is_not_an_error(tmp_path: Path, script: str) -> None:
    assert _context(tmp_path, script).include_dirs == ()


def test_the_table_of_setuptools(tmp_path: Path) -> None:
    context = _context(
        tmp_path,
        """
[[tool.setuptools.ext-modules]]
name = "ext"
sources = ["csrc/k.cu"]
include-dirs = ["csrc/include"]
define-macros = [["N", "8"]]
extra-compile-args = ["-DM"]
""",
        build_file="pyproject.toml",
    )
    assert context.include_dirs == ((tmp_path / "csrc/include").as_posix(),)
    assert context.options == ("-DN=8", "-DM")
