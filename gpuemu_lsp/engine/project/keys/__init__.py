"""The keys of gpuemu.toml: kind, default, documentation and example of each. New keys are added here only.

Keys of the original ``gpuemu`` have the same meaning; its examples load unchanged.
"""

from __future__ import annotations

from gpuemu_lsp.engine.project.keys.kernel_keys import ARGUMENT, DTYPE_LIST, INVARIANTS, KERNEL, TOLERANCES
from gpuemu_lsp.engine.project.keys.op_keys import OP
from gpuemu_lsp.engine.project.value_kinds import (
    Arch,
    Boolean,
    ConfigKey,
    Integer,
    Options,
    PathTo,
    Real,
    Sequence,
    String,
    Table,
    Tables,
)

__all__ = ["ARGUMENT", "INVARIANTS", "KERNEL", "OP", "ROOT", "TOLERANCES"]

_PROJECT = Table(
    (
        ConfigKey("name", String(), "Name of the project, for reports.", example="my-kernels", default="unnamed"),
        ConfigKey("version", String(), "Version of the project, for reports.", example="0.1.0"),
        ConfigKey(
            "framework", String(), "Framework the kernels belong to, for reports and templates.", example="pytorch"
        ),
    )
)

_VALIDATION = Table(
    (
        ConfigKey(
            "dtypes",
            DTYPE_LIST,
            "Values of `{T}` for kernels whose `entry` contains it and that do not set `dtypes`.",
            example=["float32", "float16"],
        ),
        ConfigKey("check_nan", Boolean(), "Compare NaN in outputs with the reference.", example=True, default=True),
        ConfigKey(
            "check_inf", Boolean(), "Compare infinities in outputs with the reference.", example=True, default=True
        ),
        ConfigKey(
            "strict_fences",
            Boolean(),
            "Report every store to shared memory that `wgmma` or a bulk store reads without a `fence.proxy.async` in "
            "between (`sync/proxy-fence`), also in kernels that rely on barriers alone.",
            example=True,
            default=False,
        ),
        ConfigKey("seed", Integer(0, 2**64 - 1), "Master seed of the cases; equal seeds give equal cases.", example=42),
        ConfigKey(
            "tolerances",
            TOLERANCES,
            "Tolerances per dtype for every kernel and op; those of a kernel or op take precedence.",
        ),
        ConfigKey(
            "executor",
            String(("auto", "emulator", "gpu")),
            "Where kernels run: `auto` is the emulator. Only the emulator has the memory and sync checkers.",
            example="emulator",
            default="auto",
        ),
    )
)

_BUILD = Table(
    (
        ConfigKey(
            "include_dirs",
            Sequence(PathTo(folder=True), minimum=0),
            "Folders for `#include`, relative to gpuemu.toml, before those that are detected.",
            example=["include"],
            default=[],
        ),
        ConfigKey(
            "compile_options",
            Options(),
            "nvcc options of every source: `-D`, `-U`, `-I`, `-std`, `-include` and those of floating-point "
            "arithmetic. Other options are ignored.",
            example=["-DTILE=32"],
            default=[],
        ),
        ConfigKey(
            "arch",
            Sequence(Arch()),
            "Architecture to compile for, or a list, unless a kernel sets its own.",
            example=["sm_90"],
        ),
        ConfigKey(
            "compile_commands",
            PathTo(),
            "A `compile_commands.json`. By default one in a folder above the source, or in a build folder there.",
            example="build/compile_commands.json",
        ),
        ConfigKey(
            "python",
            PathTo(),
            "Interpreter of the environment with the packages whose headers the sources include, such as PyTorch. "
            "By default that of `.venv`, `venv` or `env` above the source, else the active one. It is not run.",
            example=".venv/bin/python",
        ),
        ConfigKey(
            "detect",
            Boolean(),
            "Read the project's build files, and search for headers that are missing.",
            example=True,
            default=True,
        ),
    )
)

_POLICIES = Table(
    (
        ConfigKey(
            "fail_on_regression",
            Boolean(),
            "A regression against the baseline is an error.",
            example=True,
            default=True,
        ),
        ConfigKey(
            "warn_threshold", Real(minimum=0.0), "Relative increase that is a warning.", example=0.1, default=0.1
        ),
    )
)

_CI = Table(
    (
        ConfigKey(
            "quick_dtypes",
            DTYPE_LIST,
            "Dtypes of `gpuemu ci --quick`. A kernel that has none of them is checked in all of its own, and so is "
            "every kernel without this key.",
            example=["float32"],
        ),
        ConfigKey(
            "thorough_timeout",
            Integer(1),
            "Seconds after which `gpuemu ci --thorough` starts no more cases; every kernel runs at least one.",
            example=3600,
            default=3600,
        ),
        ConfigKey("parallel_jobs", Integer(1, 1024), "Workers of `gpuemu ci --parallel 0`.", example=4, default=4),
    )
)

ROOT = Table(
    (
        ConfigKey("project", _PROJECT, "About the project."),
        ConfigKey("validation", _VALIDATION, "Defaults for every kernel and op."),
        ConfigKey(
            "build",
            _BUILD,
            "How the sources are compiled. Without it, the project's build files are read: see build-context.md.",
        ),
        ConfigKey(
            "kernels",
            Tables(KERNEL),
            "A kernel to check. An entry with `like` sets only the keys in which it differs from another entry.",
        ),
        ConfigKey("ops", Tables(OP), "An op of a library, compared with a reference by a client."),
        ConfigKey("policies", _POLICIES, "Policies of a comparison with a baseline."),
        ConfigKey("ci", _CI, "Settings of `gpuemu ci`."),
    )
)
"""The file."""
