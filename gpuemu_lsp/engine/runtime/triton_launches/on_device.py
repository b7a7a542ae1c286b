"""What is replaced in Triton in the process of a program, once it has imported Triton."""

from __future__ import annotations

from typing import Any

import triton
from triton._C.libtriton import nvidia
from triton.backends import backends
from triton.backends.compiler import Language
from triton.runtime.autotuner import Autotuner

from gpuemu_lsp.engine.compile.triton_backend import PtxBackend, restore_backend, with_fixed_locations
from gpuemu_lsp.engine.ptx.triton_stores import with_ordered_stores
from gpuemu_lsp.engine.ptx.triton_text import without_threads
from gpuemu_lsp.engine.runtime.triton_launches.autotuners import EqualTimes, chosen_configurations, timed_once
from gpuemu_lsp.engine.runtime.triton_launches.cublas import CublasLt


class ProgramBackend(PtxBackend):
    """Triton's CUDA backend whose binary is PTX as our runtime takes it."""

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any) -> None:
        """Add the stages up to PTX, and one in place of ptxas."""
        super().add_stages(stages, options, language)
        # In Gluon threads, shared memory and barriers are the program's; in Triton the compiler's.
        marked = str if language == Language.GLUON else without_threads
        stages["cubin"] = lambda ptx, metadata: marked(with_ordered_stores(with_fixed_locations(ptx))).encode()

    def hash(self) -> str:
        """Return the part of Triton's cache key that identifies this compiler."""
        return f"gpuemu-program-ptx-{self.target.arch}"


def install() -> None:
    """Let Triton stop at PTX, run each configuration of an autotuner once, and multiply on the CPU for cuBLAS."""
    restore_backend(ProgramBackend)
    benchmark = EqualTimes()
    Autotuner.prune_configs = chosen_configurations(Autotuner.prune_configs, "once", lambda: benchmark.ended)
    backends["nvidia"].driver.get_benchmarker = lambda driver: benchmark
    for name in ("do_bench", "do_bench_cudagraph"):
        setattr(triton.testing, name, timed_once)
    nvidia.cublas.CublasLt = CublasLt
