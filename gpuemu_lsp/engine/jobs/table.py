"""Table of the job functions, and what the fork server of a pool loads for them.

It imports nothing, so that a front end can start a pool first and import its own modules meanwhile.
"""

_PACKAGE = "gpuemu_lsp.engine.jobs"
_TARGETS = {
    "functions": (
        "check",
        "measure",
        "reproduce",
        "why",
        "compare",
        "export",
        "minimize",
        "lint",
        "describe",
        "self_check",
    ),
    "files.checks": ("check_file", "programs"),
    "stored.failures": ("failures", "failure"),
    "debug_job": ("debug",),
    "disassembly": ("disassemble",),
    "registration": ("registration",),
    "stored.save_comparison": ("changes", "accept"),
}
FUNCTIONS = {name: f"{_PACKAGE}.{module}:{name}" for module, names in _TARGETS.items() for name in names}
"""Job name to ``module:function``, as :class:`~gpuemu_lsp.engine.workers.Pool` expects it."""

PRELOAD = (
    "numpy",
    "ml_dtypes",
    "llvmlite.binding",
    "gpuemu_lsp.engine.compile.cupy_cuda",
    "gpuemu_lsp.engine.check.pipeline",
    "gpuemu_lsp.engine.emulator",
    "gpuemu_lsp.engine.baseline.records",
    "gpuemu_lsp.engine.jobs.stored.history",
    "gpuemu_lsp.engine.jobs.files.checks",
)
"""Modules that the fork server imports before it forks the first worker."""
WARM_UP = ("gpuemu_lsp.engine.compile.compiler:warm_up", f"{_PACKAGE}.warm_up:warm_up")
"""Generators that the fork server steps through while it is idle; workers forked later inherit the warm state."""
