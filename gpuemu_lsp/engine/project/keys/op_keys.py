"""The keys of ``[[ops]]``."""

from __future__ import annotations

from gpuemu_lsp.engine.project.keys.kernel_keys import ARGUMENT_VALUE, DIM, DTYPE_LIST, INVARIANTS, STRINGS, TOLERANCES
from gpuemu_lsp.engine.project.value_kinds import ConfigKey, Literal, PathTo, Sequence, String, Table

OP = Table(
    (
        ConfigKey("name", String(), "Unique name of the op.", example="flash_attention", required=True),
        ConfigKey(
            "reference",
            PathTo(function=True),
            "Python file with `reference(inputs: dict, **kwargs)`, or `file.py:function`; or a script that reads the "
            "inputs as JSON from its standard input and writes the output.",
            example="scripts/ref_flash_attention.py",
            required=True,
        ),
        ConfigKey(
            "op",
            String(what="`module:function`"),
            "The function to check, as `module:function`. The module is imported in a worker, from the folder of "
            "gpuemu.toml, its `src` folder, or the installed packages.",
            example="flash_attn:flash_attn_func",
        ),
        ConfigKey(
            "run",
            PathTo(function=True),
            "Python file with `run(inputs: dict, **kwargs)`, or `file.py:function`. Triton kernels that it launches "
            "run in the emulator.",
            example="kernels/softmax.py:run",
        ),
        ConfigKey(
            "op_script",
            PathTo(),
            "Script that runs the op, for `script_based`: it has a function `op(inputs: dict, **kwargs)`, or reads the "
            "inputs as JSON from its standard input and writes the output.",
            example="scripts/op.py",
        ),
        ConfigKey(
            "python",
            PathTo(),
            "Interpreter of `op` and of scripts. Default: that of `.venv` or `venv` of the project, else of the active "
            "environment, else the one that gpuemu-lsp runs in.",
            example=".venv/bin/python",
        ),
        ConfigKey("module", String(), "Package of the op; baselines record its version.", example="flash_attn"),
        ConfigKey(
            "op_schema",
            PathTo(),
            "JSON file with the `dims`, `candidates`, `inputs` and `output` of the op, in place of `dims` and `args`.",
            example="kernels/meta.json",
        ),
        ConfigKey(
            "input_names",
            STRINGS,
            "Names of the inputs, for an op without `args`.",
            example=["q", "k", "v"],
            default=[],
        ),
        ConfigKey(
            "dtypes",
            DTYPE_LIST,
            "Dtypes of the inputs. Default: those of `[validation]`, else float32.",
            example=["float32", "float16"],
        ),
        ConfigKey(
            "layouts",
            Sequence(String(("contiguous", "strided", "transposed"))),
            "Memory layouts of the inputs that are tried. Default: all of them for `op`, which is given arrays or "
            "tensors; `contiguous` for `run` and `op_script`.",
            example=["contiguous", "transposed"],
        ),
        ConfigKey(
            "execution_mode",
            String(("client_side", "daemon_orchestrated", "script_based")),
            "Runner of the op. `client_side` and `daemon_orchestrated` need `op` or `run` to be checked here.",
            example="client_side",
            default="client_side",
        ),
        ConfigKey("frameworks", STRINGS, "Frameworks that have the op.", example=["pytorch"], default=[]),
        ConfigKey("dims", Table(free=DIM, names="identifier"), "Symbolic sizes, chosen by the fuzzer."),
        ConfigKey(
            "args",
            Table(free=ARGUMENT_VALUE, names="argument"),
            "The arguments by parameter name, in the order of the function. A tensor that the op returns is `out`; one "
            "that it changes in place is `inout`.",
        ),
        ConfigKey(
            "kwargs",
            Table(
                free=ConfigKey(
                    "causal",
                    Literal(),
                    "A keyword argument of the op and of its reference, by name. Text is text here, and no expression "
                    "over dims. A list is passed as a tuple. A script that reads JSON gets all of them as text.",
                    example=True,
                ),
                names="identifier",
            ),
            "Keyword arguments that are the same in every case.",
        ),
        ConfigKey("tolerances", TOLERANCES, "Tolerances per dtype; they take precedence over those of `[validation]`."),
        ConfigKey("invariants", INVARIANTS, "Claims about the output."),
    )
)
