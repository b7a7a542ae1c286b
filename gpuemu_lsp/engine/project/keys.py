"""Every key of gpuemu.toml: its kind, default, documentation and an example. The one place to add a key.

Keys marked in the documentation of the original ("gpuemu") keep their meaning; its examples load unchanged.
"""

from __future__ import annotations

from gpuemu_lsp.engine.project.kinds import (
    Arch,
    Boolean,
    Dtype,
    Either,
    Formula,
    Integer,
    Key,
    Options,
    PathTo,
    Real,
    Sequence,
    Table,
    Tables,
    Text,
)

_U32 = 2**32 - 1

_TOLERANCE = Key(
    "float32",
    Either(
        (
            Real(minimum=0.0),
            Table(
                (
                    Key("atol", Real(minimum=0.0), "Absolute part.", example=1e-6, default=0.0),
                    Key("rtol", Real(minimum=0.0), "Part relative to the reference.", example=1e-5, default=0.0),
                ),
                some=True,
            ),
        )
    ),
    "Tolerance for outputs of this dtype: a number `t` accepts `|out - ref| <= t + t * |ref|`; a table sets "
    "`atol + rtol * |ref|`. Without one, the tolerance is derived per case from the rounding the kernel cannot avoid. "
    "One that is tighter than that is obeyed, and what it finds says so.",
    example=1e-5,
)
TOLERANCES = Table(free=_TOLERANCE, names="dtype")

INVARIANTS = Table(
    (
        Key("no_nan", Boolean(), "No output element is NaN.", example=True, default=False),
        Key("no_inf", Boolean(), "No output element is infinite.", example=True, default=False),
        Key("non_negative", Boolean(), "No output element is below zero.", example=True, default=False),
        Key("shape_preserved", Boolean(), "The output has the first input's shape.", example=True, default=False),
    )
)

_DTYPE_LIST = Sequence(Dtype(), single=True)
_STRINGS = Sequence(Text(), minimum=0, single=True)

_PROJECT = Table(
    (
        Key("name", Text(), "Name of the project, for reports.", example="my-kernels", default="unnamed"),
        Key("version", Text(), "Version of the project, for reports.", example="0.1.0"),
        Key("framework", Text(), "Framework the kernels belong to, for reports and templates.", example="pytorch"),
    )
)

_VALIDATION = Table(
    (
        Key(
            "dtypes",
            _DTYPE_LIST,
            "Values of `{T}` for kernels whose `entry` uses it and that set no `dtypes` of their own.",
            example=["float32", "float16"],
        ),
        Key("check_nan", Boolean(), "NaN in an output must agree with the reference.", example=True, default=True),
        Key("check_inf", Boolean(), "Infinity in an output must agree with the reference.", example=True, default=True),
        Key("seed", Integer(0, 2**64 - 1), "Master seed of the cases; the same seed gives the same cases.", example=42),
        Key("tolerances", TOLERANCES, "Tolerances per dtype for every kernel and op; their own tables come first."),
        Key(
            "executor",
            Text(("auto", "emulator", "gpu")),
            "Where kernels run: `auto` is the emulator, which alone has the memory and sync checkers.",
            example="emulator",
            default="auto",
        ),
    )
)

_DIM = Key(
    "rows",
    Either(
        (
            Integer(1),
            Sequence(Integer(1), single=False),
            Table(
                (
                    Key("min", Integer(1), "Smallest size.", example=1, default=1),
                    Key("max", Integer(1), "Largest size; by default 1024, less where a case would get too large.", 64),
                    Key("include", Sequence(Integer(1)), "Sizes that are always tried.", example=[1025]),
                    Key("multiple_of", Integer(1), "Only multiples of this are tried.", example=8, default=1),
                )
            ),
        )
    ),
    "A symbolic size. A table bounds what the fuzzer chooses, an integer fixes it, a list has the only sizes to try.",
    example={"min": 1, "max": 64},
)

_SHAPE = Sequence(Formula(minimum=1))
_SCALAR = Either((Formula(), Real(infinite=True), Boolean()))
_AS = Key("as", Text(), "The name under which the reference sees the argument.", example="logits")
ARGUMENT = Table(
    (
        Key("in", _SHAPE, "The kernel reads this buffer; the value is its shape.", example=["rows", "cols"]),
        Key("out", _SHAPE, "The kernel writes every element of this buffer; the value is its shape.", example=["rows"]),
        Key("inout", _SHAPE, "The kernel reads and writes this buffer; the value is its shape.", example=["rows"]),
        Key("value", _SCALAR, "A by-value argument, where `as` is wanted too.", example="cols"),
        _AS,
        Key(
            "range",
            Sequence(Either((Formula(), Real())), minimum=2, maximum=2, single=False),
            'Bounds of the values: half-open for integers (`[0, "cols"]` is a valid index), closed for floats, which '
            "also keeps NaN and Inf out.",
            example=[0, "cols"],
        ),
        Key("dtype", Dtype(), "Element type, where the C type does not say (`void*`).", example="float16"),
        Key("align", Integer(1, 256), "Try bases aligned to only this many bytes (a power of two).", example=16),
        Key("strided", Boolean(), "Try non-contiguous layouts too.", example=True, default=False),
        Key("may_alias", Text(), "Another pointer argument that may be the same buffer; that is tried too.", "x"),
    )
)
_ARGUMENT = Key(
    "x",
    Either((ARGUMENT, _SCALAR)),
    "An argument, by the name of the C parameter. Pointers say direction and shape; scalars are a number or an "
    "expression over dims.",
    example={"in": ["rows", "cols"]},
)

_LAUNCH = Table(
    (
        Key("grid", Sequence(Formula(minimum=1), 1, 3), "Blocks: 1 to 3 expressions.", example=["ceil_div(n, 256)"]),
        Key("block", Sequence(Formula(minimum=1), 1, 3), "Threads per block: 1 to 3 expressions.", example=[256]),
        Key("shared", Formula(minimum=0), "Dynamic shared memory in bytes.", example="4 * 256", default=0),
    )
)

_ARTIFACT_CHECKS = Table(
    (
        Key("max_registers", Integer(0, _U32), "Most registers per thread, as ptxas counts them.", 32, 64),
        Key("max_spills", Integer(0, _U32), "Most bytes of spill stores plus spill loads.", 0, 0),
        Key("max_local_memory", Integer(0, _U32), "Most bytes of stack (local memory) per thread.", 0, 0),
        Key(
            "required_patterns",
            _STRINGS,
            "Instructions, called or inlined functions, or intrinsics that must be there.",
            example=["fma.rn.f32"],
            default=[],
        ),
        Key(
            "forbidden_patterns",
            _STRINGS,
            "Instructions, called or inlined functions, or intrinsics that must not be there.",
            example=["printf"],
            default=[],
        ),
    )
)

KERNEL = Table(
    (
        Key("name", Text(), "Unique name of the kernel.", example="softmax", required=True),
        Key(
            "like",
            Text(what="the name of another kernel"),
            "The name of another `[[kernels]]` entry of this file, before or after this one. Every key but `name` that "
            "is not set here is taken from it. Tables are merged key by key: with `[kernels.dims] n = 64` only `n` "
            "differs, and an inline table such as an argument is replaced as a whole. An inherited key cannot be "
            "removed.",
            example="softmax_fp32",
        ),
        Key(
            "source",
            PathTo(),
            "The .cu or .cuh file, relative to gpuemu.toml.",
            example="kernels/softmax.cu",
            required=True,
            unless="like",
        ),
        Key(
            "reference",
            PathTo(function=True),
            "Python file with `reference(inputs: dict, **kwargs)`, or `file.py:function`. Without one the kernel runs "
            "under the memory and sync checkers only.",
            example="kernels/ref_softmax.py",
        ),
        Key(
            "entry",
            Text(what="a C++ name"),
            "The `__global__` function; `{T}` stands for each of `dtypes`. Default: the only one in the file, else the "
            "one called like `name`.",
            example="softmax_rows<{T}>",
        ),
        Key("dtypes", _DTYPE_LIST, "Values of `{T}`. Default: from the pointer types.", example=["float32", "float16"]),
        Key("arch", Sequence(Arch()), "Architecture to compile for, or a list.", example=["sm_80"], default="sm_80"),
        Key("compile_options", Options(), "NVRTC options.", example=["--use_fast_math"], default=[]),
        Key(
            "include_dirs",
            Sequence(PathTo(folder=True), minimum=0),
            "Folders for `#include`, relative to gpuemu.toml.",
            example=["include"],
            default=[],
        ),
        Key("dims", Table(free=_DIM, names="identifier"), "Symbolic sizes; the fuzzer chooses them."),
        Key("args", Table(free=_ARGUMENT, names="identifier"), "The arguments, by C parameter name, in any order."),
        Key("launch", _LAUNCH, "Grid, block and dynamic shared memory."),
        Key("tolerances", TOLERANCES, "Tolerances per dtype, before those of `[validation]`."),
        Key("invariants", INVARIANTS, "Claims about every output."),
        Key("artifact_checks", _ARTIFACT_CHECKS, "Limits on the compiled kernel; absent: shown, never a finding."),
    )
)

OP = Table(
    (
        Key("name", Text(), "Unique name of the op.", example="flash_attention", required=True),
        Key(
            "reference",
            PathTo(function=True),
            "Python file with `reference(inputs: dict, **kwargs)`, or `file.py:function`.",
            example="scripts/ref_flash_attention.py",
            required=True,
        ),
        Key("module", Text(), "Python module the op comes from.", example="flash_attn"),
        Key("op_script", PathTo(), "Script that runs the op, for `script_based`.", example="scripts/op.py"),
        Key("input_names", _STRINGS, "Names of the inputs.", example=["q", "k", "v"], default=[]),
        Key(
            "execution_mode",
            Text(("client_side", "daemon_orchestrated", "script_based")),
            "Who runs the op.",
            example="client_side",
            default="client_side",
        ),
        Key("frameworks", _STRINGS, "Frameworks the op exists for.", example=["pytorch"], default=[]),
        Key("tolerances", TOLERANCES, "Tolerances per dtype, before those of `[validation]`."),
        Key("invariants", INVARIANTS, "Claims about the output."),
    )
)

_POLICIES = Table(
    (
        Key("fail_on_regression", Boolean(), "A regression against the baseline fails.", example=True, default=True),
        Key("warn_threshold", Real(minimum=0.0), "Relative growth that is worth a warning.", example=0.1, default=0.1),
    )
)

_CI = Table(
    (
        Key(
            "quick_dtypes",
            _DTYPE_LIST,
            "Dtypes of `gpuemu ci --quick`. A kernel that has none of them, and without this key every kernel, is "
            "checked in all of its own.",
            example=["float32"],
        ),
        Key(
            "thorough_timeout",
            Integer(1),
            "Seconds after which `gpuemu ci --thorough` begins no more cases; every kernel runs at least one.",
            example=3600,
            default=3600,
        ),
        Key("parallel_jobs", Integer(1, 1024), "Workers of `gpuemu ci --parallel 0`.", example=4, default=4),
    )
)

ROOT = Table(
    (
        Key("project", _PROJECT, "About the project."),
        Key("validation", _VALIDATION, "What holds for every kernel and op."),
        Key("kernels", Tables(KERNEL), "A kernel to check."),
        Key("ops", Tables(OP), "An op of a library, checked against a reference by a client."),
        Key("policies", _POLICIES, "What a comparison with a baseline does."),
        Key("ci", _CI, "Settings of `gpuemu ci`."),
    )
)
"""The whole file."""
