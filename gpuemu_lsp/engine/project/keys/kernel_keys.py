"""The keys of ``[[kernels]]``, and those that ops have too."""

from __future__ import annotations

from gpuemu_lsp.engine.project.value_kinds import (
    Arch,
    Boolean,
    ConfigKey,
    Constexpr,
    Dtype,
    Either,
    Formula,
    Integer,
    Options,
    PathTo,
    Real,
    Sequence,
    String,
    Table,
)

_U32 = 2**32 - 1

_TOLERANCE = ConfigKey(
    "float32",
    Either(
        (
            Real(minimum=0.0),
            Table(
                (
                    ConfigKey("atol", Real(minimum=0.0), "Absolute part.", example=1e-6, default=0.0),
                    ConfigKey("rtol", Real(minimum=0.0), "Part relative to the reference.", example=1e-5, default=0.0),
                ),
                some=True,
            ),
        )
    ),
    "Tolerance for outputs of this dtype: a number `t` accepts `|out - ref| <= t + t * |ref|`; a table sets "
    "`atol + rtol * |ref|`. By default, the tolerance is derived per case from the unavoidable rounding errors. A "
    "tighter explicit tolerance is honoured; findings then note that rounding alone may cause them.",
    example=1e-5,
)
TOLERANCES = Table(free=_TOLERANCE, names="dtype")

INVARIANTS = Table(
    (
        ConfigKey("no_nan", Boolean(), "No output element is NaN.", example=True, default=False),
        ConfigKey("no_inf", Boolean(), "No output element is infinite.", example=True, default=False),
        ConfigKey("non_negative", Boolean(), "No output element is below zero.", example=True, default=False),
        ConfigKey("shape_preserved", Boolean(), "The output has the first input's shape.", example=True, default=False),
    )
)

DTYPE_LIST = Sequence(Dtype(), single=True)
STRINGS = Sequence(String(), minimum=0, single=True)

DIM = ConfigKey(
    "rows",
    Either(
        (
            Integer(1),
            Sequence(Integer(1), single=False),
            Table(
                (
                    ConfigKey("min", Integer(1), "Smallest size.", example=1, default=1),
                    ConfigKey(
                        "max", Integer(1), "Largest size; by default 1024, or less if a case would be too large.", 64
                    ),
                    ConfigKey("include", Sequence(Integer(1)), "Sizes that are always tried.", example=[1025]),
                    ConfigKey("multiple_of", Integer(1), "All sizes are multiples of this.", example=8, default=1),
                )
            ),
        )
    ),
    "A symbolic size. A table has bounds for the fuzzer, an integer is the only size, a list has all sizes to try.",
    example={"min": 1, "max": 64},
)

_SHAPE = Sequence(Formula(minimum=1))
_SCALAR = Either((Formula(), Real(infinite=True), Boolean()))
_AS = ConfigKey("as", String(), "Name of the argument in the reference's inputs.", example="logits")
ARGUMENT = Table(
    (
        ConfigKey("in", _SHAPE, "The kernel reads this buffer; the value is its shape.", example=["rows", "cols"]),
        ConfigKey(
            "out", _SHAPE, "The kernel writes every element of this buffer; the value is its shape.", example=["rows"]
        ),
        ConfigKey(
            "inout", _SHAPE, "The kernel reads and writes this buffer; the value is its shape.", example=["rows"]
        ),
        ConfigKey("value", _SCALAR, "Value of a by-value argument, if `as` is needed too.", example="cols"),
        _AS,
        ConfigKey(
            "range",
            Sequence(Either((Formula(), Real())), minimum=2, maximum=2, single=False),
            'Bounds of the values: half-open for integers (`[0, "cols"]` for an index), closed for floats. A range '
            "excludes NaN and Inf.",
            example=[0, "cols"],
        ),
        ConfigKey("dtype", Dtype(), "Element type, if the C type does not determine it (`void*`).", example="float16"),
        ConfigKey(
            "align",
            Integer(1, 256),
            "Also try base addresses aligned to only this many bytes (a power of two).",
            example=16,
        ),
        ConfigKey(
            "compare",
            Either((Boolean(), String(("sorted", "set")))),
            "How an output is compared with the reference: `true` element by element, `false` not at all (a workspace "
            'or hash table, which the reference need not return), `"sorted"` in any order within each row (an output '
            'placed by atomic counters), `"set"` in any order and number of repetitions. With `"sorted"` and `"set"` '
            "the reference may return fewer values than the shape has, as a stream compaction does; the kernel may "
            "leave the rest unwritten. Memory and races are checked for every output.",
            example="sorted",
            default=True,
        ),
        ConfigKey("strided", Boolean(), "Also try non-contiguous layouts.", example=True, default=False),
        ConfigKey(
            "may_alias", String(), "Another pointer argument that may be the same buffer, which is also tried.", "x"
        ),
    )
)
ARGUMENT_VALUE = ConfigKey(
    "x",
    Either((ARGUMENT, _SCALAR)),
    "An argument, by the name of the C parameter. A pointer has a direction and a shape; a scalar is a number or an "
    "expression over dims. A struct that is passed by value is given by its fields: `p.x`, `p.inner.n`, `p.v.x` for a "
    "vector such as float4, and `p.w` or `p.w[0]` for all or one of the elements of an array. A pointer in a struct "
    "may be `0`, the null pointer.",
    example={"in": ["rows", "cols"]},
)

_LAUNCH = Table(
    (
        ConfigKey(
            "grid",
            Sequence(Formula(minimum=1), 1, 3),
            "Blocks, or programs of Triton: 1 to 3 expressions.",
            example=["ceil_div(n, 256)"],
        ),
        ConfigKey("block", Sequence(Formula(minimum=1), 1, 3), "Threads per block: 1 to 3 expressions.", example=[256]),
        ConfigKey("shared", Formula(minimum=0), "Dynamic shared memory in bytes.", example="4 * 256", default=0),
        ConfigKey(
            "num_warps",
            Sequence(Integer(1, 32)),
            "Warps of a Triton program, a power of two, or a list of values to try. By default that of Triton, or of "
            "the autotuner's configuration.",
            example=4,
        ),
        ConfigKey(
            "num_stages",
            Sequence(Integer(1, 16)),
            "Stages of software pipelining in a Triton kernel, or a list of values to try.",
            example=3,
        ),
    )
)

_CONSTEXPR = ConfigKey(
    "BLOCK",
    Sequence(Constexpr()),
    "A compile-time value: a number, `true` or `false`, an expression over dims, or Python text: `'sum'` in single "
    "quotes, `None`, a type such as `tl.float16`. A list has values that are all tried. The name can be used in "
    "the grid, if the value is an integer.",
    example="next_pow2(cols)",
)

_ARTIFACT_CHECKS = Table(
    (
        ConfigKey("max_registers", Integer(0, _U32), "Most registers per thread, as reported by ptxas.", 32, 64),
        ConfigKey("max_spills", Integer(0, _U32), "Most bytes of spill stores plus spill loads.", 0, 0),
        ConfigKey("max_local_memory", Integer(0, _U32), "Most bytes of stack (local memory) per thread.", 0, 0),
        ConfigKey(
            "required_patterns",
            STRINGS,
            "Instructions, called or inlined functions, or intrinsics that the kernel must contain.",
            example=["fma.rn.f32"],
            default=[],
        ),
        ConfigKey(
            "forbidden_patterns",
            STRINGS,
            "Instructions, called or inlined functions, or intrinsics that the kernel must not contain.",
            example=["printf"],
            default=[],
        ),
    )
)

KERNEL = Table(
    (
        ConfigKey("name", String(), "Unique name of the kernel.", example="softmax", required=True),
        ConfigKey(
            "like",
            String(what="the name of another kernel"),
            "The name of another `[[kernels]]` entry of this file, before or after this one. Every key but `name` that "
            "is not set here is taken from it. Tables are merged key by key: with `[kernels.dims] n = 64` only `n` "
            "differs, and an inline table such as an argument is replaced as a whole. An inherited key cannot be "
            "removed.",
            example="softmax_fp32",
        ),
        ConfigKey(
            "source",
            PathTo(function=True),
            "The .cu, .cuh, .hip or .ptx file, relative to gpuemu.toml; a .py with Triton kernels, which a worker "
            "imports to compile them; or a .py with CUDA code in strings, `model.py:NAME` where several strings have a "
            "kernel of this name. `NAME` is the variable with the CUDA code, or the one with the compiled kernel, "
            "module or extension. For CUDA code the .py is read, never imported.",
            example="kernels/softmax.cu",
            required=True,
            unless="like",
        ),
        ConfigKey(
            "language",
            String(("cuda", "triton", "pyptx")),
            "Language of the kernel. By default a `.py` file that has a function with `@triton.jit` is Triton's, and "
            "one with `@pyptx.kernel` is pyptx's.",
            example="triton",
        ),
        ConfigKey(
            "reference",
            PathTo(function=True),
            "Python file with `reference(inputs: dict, **kwargs)`, or `file.py:function`. Without one only the memory "
            "and sync checkers apply.",
            example="kernels/ref_softmax.py",
        ),
        ConfigKey(
            "entry",
            String(what="a C++ name"),
            "The `__global__` function, as `scale`, `scale<{T}>`, `scale(float*, int)` or `scale<{T}>({T}*, int)`; "
            "`{T}` is replaced by each of `dtypes`. Default: the function named `name`, "
            "else the only one in the file.",
            example="softmax_rows<{T}>",
        ),
        ConfigKey(
            "dtypes", DTYPE_LIST, "Values of `{T}`. Default: from the pointer types.", example=["float32", "float16"]
        ),
        ConfigKey(
            "arch", Sequence(Arch()), "Architecture to compile for, or a list.", example=["sm_80"], default="sm_80"
        ),
        ConfigKey("compile_options", Options(), "NVRTC options.", example=["--use_fast_math"], default=[]),
        ConfigKey(
            "include_dirs",
            Sequence(PathTo(folder=True), minimum=0),
            "Folders for `#include`, relative to gpuemu.toml.",
            example=["include"],
            default=[],
        ),
        ConfigKey("dims", Table(free=DIM, names="identifier"), "Symbolic sizes, chosen by the fuzzer."),
        ConfigKey(
            "constexprs",
            Table(free=_CONSTEXPR, names="identifier"),
            "Values of the `tl.constexpr` parameters of a Triton kernel, by name. A parameter that is not given has "
            "the default of the function.",
        ),
        ConfigKey(
            "args", Table(free=ARGUMENT_VALUE, names="argument"), "The arguments, by C parameter name, in any order."
        ),
        ConfigKey("launch", _LAUNCH, "Grid, block and dynamic shared memory."),
        ConfigKey("tolerances", TOLERANCES, "Tolerances per dtype; they take precedence over those of `[validation]`."),
        ConfigKey("invariants", INVARIANTS, "Claims about every output."),
        ConfigKey(
            "artifact_checks",
            _ARTIFACT_CHECKS,
            "Limits on the compiled kernel. Without this table resources are reported but never a finding.",
        ),
    )
)
