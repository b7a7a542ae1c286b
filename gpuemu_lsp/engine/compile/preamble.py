"""What stands before the user's first line, and the standard headers that NVRTC lacks.

A program is a fixed prefix, a ``#line`` back to the user's file, and the user's text. The prefix holds our prelude and
the CUDA headers that the text includes anyway: NVRTC keeps it as a precompiled header, which takes cooperative groups
from half a second to a few milliseconds. Including them early changes nothing but the macros they see; a file that
configures them by macro is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpuemu_lsp.engine.compile.include_closure import IncludeClosure
from gpuemu_lsp.engine.compile.toolchain import cuda_include_dirs

PRELUDE = "gpuemu/prelude.h"
_HOST = "gpuemu/host.h"
_RANDOM = "curand.h"

_HOISTED = re.compile(
    r"^(?:cooperative_groups(?:\.h|/.+)|cuda/.+|cub/.+|nv/target|mma\.h|cuda_(?:fp16|bf16|fp8|fp6|fp4)\.h"
    r"|cuda_pipeline(?:_primitives)?\.h|cuda_awbarrier(?:_primitives)?\.h|cuComplex\.h|curand_\w+\.h)$"
)
_LONG_LONG = re.compile(r"^(?:cooperative_groups|cuda/|cub/|thrust/|cuda_pipeline|cuda_awbarrier|curand_)")
_COSTLY = re.compile(r"^(?:cooperative_groups|cuda/|cub/|curand_)")
_CONFIGURES = re.compile(r"^_*(?:CUB|THRUST|CCCL|LIBCUDACXX|CG|CUDA|CUDACC)_")
_BRIDGES: Mapping[str, tuple[str, str]] = {
    "tuple": ("cuda/std/tuple", "tuple make_tuple get tie apply"),
    "complex": ("cuda/std/complex", "complex real imag norm conj polar arg"),
}
_BRIDGED = re.compile(r"\bstd::(" + "|".join(_BRIDGES) + r")\b")


@dataclass(frozen=True, slots=True)
class Preamble:
    """The lines before the ``#line``, and the in-memory headers, by the name an ``#include`` writes.

    ``costly`` says that reading the prefix takes NVRTC half a second, not milliseconds.
    """

    text: str
    headers: Mapping[str, str]
    costly: bool


_SHIMS = Path(__file__).parent / "shims"


@cache
def prelude() -> str:
    """Return the text of our prelude."""
    return (_SHIMS / "prelude.h").read_text(encoding="utf-8")


@cache
def stand_ins() -> tuple[str, ...]:
    """Return the names of the headers that are empty here: of the standard library, and of libraries for the host."""
    return tuple((_SHIMS / "empty_headers.txt").read_text(encoding="utf-8").split())


@cache
def shims() -> Mapping[str, str]:
    """Return the headers that stand in for what NVRTC lacks or rejects, by the name an ``#include`` writes.

    Standard and host-library headers are empty: for device code the prelude has all they could give, and a user's
    header may include them for the host's sake. cuRAND's device headers need types of its host header, which is left
    alone where it is installed.
    """
    empty = [*stand_ins()]
    if any((Path(folder) / _RANDOM).is_file() for folder in cuda_include_dirs()):
        empty.remove(_RANDOM)
    cub = (_SHIMS / "cub.h").read_text(encoding="utf-8")
    host = (_SHIMS / "host.h").read_text(encoding="utf-8")
    fft = dict.fromkeys(("cufft.h", "cufftXt.h"), (_SHIMS / "cufft.h").read_text(encoding="utf-8"))
    return {PRELUDE: prelude(), _HOST: host, "cub/cub.cuh": cub, **fft, **dict.fromkeys(empty, "")}


def preamble(found: IncludeClosure, *, long_long: bool = False, bare: bool = False) -> Preamble:
    """Choose the prefix for a source and its headers.

    ``long_long`` makes ``int64_t`` a ``long long`` also where no CUDA header asks for it. ``bare`` leaves the prelude
    out, for sources that define what it has.
    """
    targets = [(directive.target, directive.unconditional) for directive, _ in found.foreign]
    bridged = {match for text in found.texts.values() for match in _BRIDGED.findall(text)}
    bridges = sorted(bridged | {"complex" for target, _ in targets if target == "thrust/complex.h"})
    configures = any(_CONFIGURES.match(macro) for macro in found.macros)
    hoisted = {target for target, unconditional in targets if unconditional and _HOISTED.match(target)}
    hoisted = set() if configures else {target for target in hoisted if is_cuda_header(target)}
    hoisted |= {_BRIDGES[name][0] for name in bridges}
    later = any(_LONG_LONG.match(target) and target not in hoisted for target, _ in targets)
    wide = long_long or any(_LONG_LONG.match(target) for target in (*hoisted, *(target for target, _ in targets)))
    lines = [
        *(["#define GPUEMU_LONG_LONG"] if wide else []),
        *([] if bare else [f"#include <{PRELUDE}>"]),
        *(f"#include <{target}>" for target in sorted(hoisted)),
        *(_bridge(name) for name in bridges),
        *([] if bare or later else [f"#include <{_HOST}>"]),
    ]
    headers = {name: text for name, text in shims().items() if name not in found.own_names}
    return Preamble("\n".join(lines) + "\n#pragma nv_hdrstop\n", headers, any(map(_COSTLY.match, hoisted)))


def is_cuda_header(target: str) -> bool:
    """Return whether ``#include <target>`` finds one of CUDA's own headers."""
    return any((Path(folder) / target).is_file() for folder in cuda_include_dirs())


def _bridge(name: str) -> str:
    return "namespace std { " + " ".join(f"using cuda::std::{item};" for item in _BRIDGES[name][1].split()) + " }"
