"""Launches of TileLang in the program's process: its own compiler, code generator and launcher, on our runtime.

TileLang writes a kernel as CUDA C++, compiles it with the nvcc that it finds (``CUDA_HOME``, ours), and loads and
launches it by functions of the driver, which it looks for by name. What is replaced is what it asks nvcc for: PTX in
place of machine code. Where a line of the written code is from is a comment on that line.

- :mod:`.on_device`: what is replaced in TileLang when the program imports it
- :mod:`.statement_marks`: marks in a module before it is written
- :mod:`.written_code`: the code that TileLang writes, with the lines of Python, and its PTX
"""

from pathlib import Path
from typing import Final

from gpuemu_lsp.engine.runtime.python_process.language import LaunchingLanguage

CODE_VARIABLE: Final = "GPUEMU_TILELANG_CODE"
"""Environment variable with the folder for the code that TileLang writes, and its PTX."""


def _environment(library: Path) -> dict[str, str]:
    """Return the variables by which TileLang compiles each kernel again: what it keeps has the lines of another text.

    The PTX is kept, which takes most of the time.
    """
    return {
        CODE_VARIABLE: str(library.parents[1] / "tilelang"),
        "TILELANG_DISABLE_CACHE": "1",
        "TILELANG_AUTO_TUNING_DISABLE_CACHE": "1",
        "TILELANG_ENABLE_IR_SPAN": "1",
    }


LANGUAGE: Final = LaunchingLanguage(
    key="tilelang",
    name="TileLang",
    imported="tilelang",
    distribution="tilelang",
    package="tilelang",
    tried="0.1.15",
    extra="tilelang",
    architecture="sm_90a",
    symbol="_kernel(?:_\\d+)?",
    environment=_environment,
)
