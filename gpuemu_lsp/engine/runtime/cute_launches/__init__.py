"""Launches of CuTe DSL in the program's process: its own compiler and launcher, on our runtime.

CuTe DSL compiles the host code of a ``@cute.jit`` function to machine code that calls the CUDA runtime, in a library
that it loads: ours. What is replaced is the machine code of its kernels, by their PTX.

- :mod:`.on_device`: what is replaced in its compiler when the program imports it
- :mod:`.ptx_text`: its PTX, as the emulator takes it
"""

import hashlib
import importlib.util
import os
from pathlib import Path
from typing import Final

from gpuemu_lsp.engine.runtime.python_process.language import LaunchingLanguage

_PACKAGE = "nvidia_cutlass_dsl"


def _environment(library: Path) -> dict[str, str]:
    """Return the variables by which CuTe DSL calls our runtime, and knows the lines of its kernels.

    Its own library is searched after ours: for what is about packages of Python, and not about CUDA. It keeps compiled
    modules, with what this package has put into them: each version of the package has a folder of its own.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    folders = spec.submodule_search_locations if spec is not None else None
    own = sorted(path for folder in folders or () for path in Path(folder).glob("cu*/lib/libcute_dsl_runtime.so"))
    sources = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return {
        "CUTE_DSL_LIBS": os.pathsep.join(map(str, (library, *own[-1:]))),
        "CUTE_DSL_LINEINFO": "1",
        "CUTE_DSL_CACHE_DIR": str(library.parents[1] / f"cute-{hashlib.blake2b(sources, digest_size=8).hexdigest()}"),
    }


LANGUAGE: Final = LaunchingLanguage(
    key="cute",
    name="CuTe DSL",
    imported="cutlass",
    distribution="nvidia-cutlass-dsl",
    package=_PACKAGE,
    tried="4.8.",
    extra="cute",
    # Many of its functions need it.
    architecture="sm_90a",
    environment=_environment,
)
