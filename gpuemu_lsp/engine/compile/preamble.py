"""Text before the user's first line, and in-memory headers for those that NVRTC lacks.

A program is a preamble, a ``#line`` back to the user's file, and the user's text. The preamble includes the prelude and
the CUDA headers that the text includes unconditionally. NVRTC keeps it as a precompiled header, which reduces
cooperative groups from half a second to a few milliseconds. Including a header earlier changes only the macros it sees,
so nothing is hoisted in a file that defines configuration macros of these headers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from gpuemu_lsp.engine.compile.include_closure import IncludeClosure
from gpuemu_lsp.engine.compile.toolchain import cuda_include_dirs
from gpuemu_lsp.engine.source.headers.known_headers import is_torch_header

_SHIMS = Path(__file__).parent / "shims"
OURS = "gpuemu/"
"""The folder of the headers that each compilation includes, as it appears in messages."""
PRELUDE = f"{OURS}prelude.h"
_TORCH = f"{OURS}torch.h"
_HOST = f"{OURS}host.h"
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
    **{
        name: (f"cuda/std/{header}", name)
        for header, *names in map(str.split, (_SHIMS / "libcudacxx_names.txt").read_text(encoding="utf-8").splitlines())
        for name in names
    },
}
"""Names of the standard library that the prelude lacks; the header of libcu++ that has each, and what to declare."""
_BRIDGED = re.compile(r"\bstd\s*::\s*(" + "|".join(_BRIDGES) + r")\b")


@dataclass(frozen=True, slots=True)
class Preamble:
    """The lines before the ``#line``, and the in-memory headers by include target.

    A ``costly`` preamble takes NVRTC half a second, others milliseconds.
    """

    text: str
    headers: Mapping[str, str]
    costly: bool


@cache
def prelude() -> str:
    """Return the text of the prelude."""
    return (_SHIMS / "prelude.h").read_text(encoding="utf-8")


@cache
def stub_headers() -> tuple[str, ...]:
    """Return the targets of headers that are empty stubs: standard library and host libraries."""
    return tuple((_SHIMS / "empty_headers.txt").read_text(encoding="utf-8").split())


@cache
def in_memory_headers() -> Mapping[str, str]:
    """Return replacements of headers that NVRTC lacks or rejects, by include target.

    Headers of the standard library and of host libraries are empty: the prelude has their device-usable part, and a
    user's header may include them for host code. cuRAND's device headers need types of its host header ``curand.h``,
    which is not replaced where it is installed.
    """
    empty = [*stub_headers()]
    if any((Path(folder) / _RANDOM).is_file() for folder in cuda_include_dirs()):
        empty.remove(_RANDOM)
    cub = (_SHIMS / "cub.h").read_text(encoding="utf-8")
    host = (_SHIMS / "host.h").read_text(encoding="utf-8")
    fft = dict.fromkeys(("cufft.h", "cufftXt.h"), (_SHIMS / "cufft.h").read_text(encoding="utf-8"))
    torch = (_SHIMS / "torch.h").read_text(encoding="utf-8")
    # The second halves of these headers, which NVRTC has as a library since 12.3 and cannot compile.
    halves = {f"cuda_{name}.hpp": f"#include <cuda_{name}.h>\n" for name in ("fp16", "bf16")}
    return {
        **halves,
        PRELUDE: prelude(),
        _HOST: host,
        _TORCH: torch,
        "cub/cub.cuh": cub,
        **fft,
        **dict.fromkeys(empty, ""),
    }


def preamble(found: IncludeClosure, *, pytorch: bool = False, long_long: bool = False, bare: bool = False) -> Preamble:
    """Return the preamble for a source and its headers.

    ``pytorch`` declares PyTorch's names also where the source includes none of its headers. ``long_long`` defines
    ``int64_t`` as ``long long`` also without a CUDA header that does. ``bare`` omits the prelude, for sources that
    define the same names.
    """
    targets = [(directive.target, directive.unconditional) for directive, _ in found.foreign]
    bridged = frozenset[str]().union(*map(_bridged, found.texts.values()))
    bridges = sorted(bridged | {"complex" for target, _ in targets if target == "thrust/complex.h"})
    configures = any(_CONFIGURES.match(macro) for macro in found.macros)
    hoisted = {target for target, unconditional in targets if unconditional and _HOISTED.match(target)}
    hoisted = set() if configures else {target for target in hoisted if is_cuda_header(target)}
    hoisted |= {_BRIDGES[name][0] for name in bridges}
    torch = {target for target, _ in targets if is_torch_header(target)}
    # host.h defines __GNUC__ and others, under which CUDA's headers would include the host's: it comes after them all.
    later = any(_LONG_LONG.match(target) and target not in hoisted for target, _ in targets)
    wide = long_long or any(_LONG_LONG.match(target) for target in (*hoisted, *(target for target, _ in targets)))
    lines = [
        *(["#define GPUEMU_LONG_LONG"] if wide else []),
        *([] if bare else [f"#include <{PRELUDE}>"]),
        *(f"#include <{target}>" for target in sorted(hoisted)),
        *(_bridge(name) for name in bridges),
        *([f"#include <{_TORCH}>"] if torch or pytorch else []),
        *([] if bare or later else [f"#include <{_HOST}>"]),
    ]
    # Its names are declared before the first line, so that the headers themselves are empty.
    headers = {**dict.fromkeys(torch, ""), **in_memory_headers()}
    headers = {name: text for name, text in headers.items() if name not in found.user_targets}
    return Preamble("\n".join(lines) + "\n#pragma nv_hdrstop\n", headers, any(map(_COSTLY.match, hoisted)))


# Every kernel of a file is compiled from the same texts, of which each may have thousands of lines.
@lru_cache(maxsize=16)
def _bridged(text: str) -> frozenset[str]:
    return frozenset(_BRIDGED.findall(text))


def is_cuda_header(target: str) -> bool:
    """Return whether ``#include <target>`` resolves to a header of CUDA."""
    return any((Path(folder) / target).is_file() for folder in cuda_include_dirs())


def _bridge(name: str) -> str:
    return "namespace std { " + " ".join(f"using cuda::std::{item};" for item in _BRIDGES[name][1].split()) + " }"
