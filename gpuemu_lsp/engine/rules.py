"""The catalogue of rules: every name a finding can carry, its default severity and one paragraph for the user.

``--explain``, the docs page and the editors' hover all come from here. Names are ``group/rule`` and never change
meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpuemu_lsp.engine.findings import Finding, Place, Severity


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of finding. ``doc`` is a paragraph: what it means, why it matters, what to do."""

    name: str
    severity: Severity
    summary: str
    doc: str


def _rule(name: str, severity: Severity, summary: str, doc: str) -> Rule:
    return Rule(name, severity, summary, doc)


_ERROR, _WARNING, _INFO, _HINT = Severity.ERROR, Severity.WARNING, Severity.INFORMATION, Severity.HINT

_ALL = (
    # ---- config ------------------------------------------------------------------------------------------------------
    _rule(
        "config/syntax",
        _ERROR,
        "gpuemu.toml is not valid TOML",
        "The file cannot be read as TOML. Nothing in it is used until the syntax is right; the last good "
        "version stays in force in an editor.",
    ),
    _rule(
        "config/unknown-key",
        _ERROR,
        "a key that means nothing here",
        "A misspelt key would silently switch a check off, so unknown keys are errors. The message names the "
        "closest known key.",
    ),
    _rule(
        "config/bad-value",
        _ERROR,
        "a value of the wrong type or out of range",
        "The value cannot be used: a wrong type, an empty range, an unknown dtype, an expression that does "
        "not parse, a name used twice.",
    ),
    _rule(
        "config/missing-key",
        _ERROR,
        "a required key is absent",
        "A `[[kernels]]` entry needs at least `name` and `source`.",
    ),
    _rule(
        "config/missing-file",
        _ERROR,
        "a file named in gpuemu.toml does not exist or cannot be read",
        "Paths are relative to the folder of gpuemu.toml.",
    ),
    _rule(
        "config/ambiguous-signature",
        _WARNING,
        "the arguments or the launch cannot be inferred",
        "The kernel's signature allows more than one reading, so it was not run. The message shows the "
        "`[kernels.dims]`, `[kernels.args]` and `[kernels.launch]` to add.",
    ),
    _rule(
        "config/launch-inferred",
        _HINT,
        "arguments and launch were inferred",
        "No dims, args or launch are configured; the message shows what was assumed from the signature and "
        "from launches in the file.",
    ),
    # ---- compile -----------------------------------------------------------------------------------------------------
    _rule(
        "compile/error",
        _ERROR,
        "NVRTC rejects the code",
        "The compiler's own message, on its line and token.",
    ),
    _rule(
        "compile/warning",
        _WARNING,
        "NVRTC warns",
        "The compiler's own warning, on its line and token.",
    ),
    _rule(
        "compile/missing-header",
        _ERROR,
        "a header was not found",
        "Device code needs a header that is not on the include path: add its folder to `include_dirs`.",
    ),
    _rule(
        "compile/missing-entry",
        _ERROR,
        "the kernel is not in the file",
        "`entry` (or the kernel's name) matches no `__global__` function of the source; the message lists "
        "those there are.",
    ),
    # ---- numeric -----------------------------------------------------------------------------------------------------
    _rule(
        "numeric/tolerance-exceeded",
        _ERROR,
        "an output element is wrong",
        "The kernel's result differs from the fp64 reference by more than rounding explains. The finding sits "
        "on the store that wrote the worst element and names the input that shows it.",
    ),
    _rule(
        "numeric/nan",
        _ERROR,
        "NaN where the reference has none (or the reverse)",
        "NaN must agree with the reference position by position; a NaN where the reference also has one is "
        "not an error.",
    ),
    _rule(
        "numeric/inf",
        _ERROR,
        "infinity where the reference has none (or the reverse)",
        "Infinities must agree with the reference by position and sign.",
    ),
    _rule(
        "numeric/unwritten-output",
        _ERROR,
        "an output element is never written",
        "Output buffers start poisoned. An element nobody wrote keeps whatever was there before, which on a "
        "real GPU is stale data.",
    ),
    _rule(
        "numeric/input-modified",
        _ERROR,
        "an input buffer was changed",
        "An argument declared `in` must come back bit for bit as it went in.",
    ),
    _rule(
        "numeric/shape-mismatch",
        _ERROR,
        "the reference's output has another shape than the kernel's",
        "The output declared in gpuemu.toml and what the reference returned do not have the same shape.",
    ),
    _rule(
        "numeric/dtype-mismatch",
        _ERROR,
        "the output has another dtype than declared",
        "The kernel's pointer type and the declared dtype disagree.",
    ),
    _rule(
        "numeric/invariant",
        _ERROR,
        "a declared invariant does not hold",
        "`[kernels.invariants]` claims something the outputs contradict.",
    ),
    _rule(
        "numeric/nondeterministic",
        _WARNING,
        "two identical runs differ",
        "The same input gave different bits in two runs beyond what reordering of atomics explains.",
    ),
    _rule(
        "numeric/regression",
        _WARNING,
        "further from the reference than the baseline",
        "On the cases of the stored baseline the kernel fails and did not, or its error rose by more than "
        "`[policies].warn_threshold` and a unit in the last place. An error in `gpuemu ci` unless "
        "`[policies].fail_on_regression` is false.",
    ),
    # ---- memory ------------------------------------------------------------------------------------------------------
    _rule(
        "memory/out-of-bounds",
        _ERROR,
        "an access outside its buffer",
        "The kernel read or wrote outside every buffer it was given (or across the end of one). On a GPU this "
        "often stays silent and corrupts a neighbour.",
    ),
    _rule(
        "memory/misaligned",
        _ERROR,
        "a misaligned access",
        "An access of n bytes must be n-byte aligned; a GPU stops with error 716. Vector types such as float4 "
        "need 16 bytes.",
    ),
    _rule(
        "memory/uninitialized-read",
        _ERROR,
        "a read of memory nobody wrote",
        "The value read was never written: shared memory before a store or with a missing tail, an output "
        "used as an accumulator, a local array element.",
    ),
    _rule(
        "memory/null-pointer",
        _ERROR,
        "an access through a null pointer",
        "The address is in the first page.",
    ),
    _rule(
        "memory/index-overflow",
        _WARNING,
        "an index leaves 32 bits before it becomes an address",
        "At the largest sizes that `[kernels.dims]` declares, a 32-bit product or sum loses its upper bits, is widened "
        "and used as an address: the access goes somewhere else. Such sizes are too large to run; a few threads are "
        "followed by their integer arithmetic alone. Widen a factor first (`(size_t)row * cols`), or declare smaller "
        "sizes.",
    ),
    _rule(
        "memory/shared-race",
        _ERROR,
        "two threads race on shared memory",
        "Two threads of a block touch the same word, at least one writes, and nothing orders them: a "
        "`__syncthreads()` (or `__syncwarp()`) is missing.",
    ),
    _rule(
        "memory/global-race",
        _ERROR,
        "two threads race on global memory",
        "Two threads touch the same word of global memory, at least one writes, and nothing orders them. "
        "Blocks are concurrent; use an atomic.",
    ),
    # ---- sync --------------------------------------------------------------------------------------------------------
    _rule(
        "sync/barrier-divergence",
        _ERROR,
        "a barrier not reached by all threads",
        "Some threads of the block wait at this barrier while others left or wait elsewhere. On hardware this "
        "hangs or silently misorders memory.",
    ),
    _rule(
        "sync/deadlock",
        _ERROR,
        "no thread can make progress",
        "Every remaining thread waits for another one.",
    ),
    _rule(
        "sync/missing-warp-mask",
        _ERROR,
        "a warp collective with the wrong mask",
        "A `_sync` intrinsic names lanes that do not take part, or leaves out the lane that calls it.",
    ),
    _rule(
        "sync/hang",
        _ERROR,
        "the kernel does not end",
        "The step budget ran out in this loop. If the loop is right, raise the budget or shrink the dims.",
    ),
    _rule(
        "sync/trap",
        _ERROR,
        "the kernel trapped",
        "`__trap()`, a failed `assert` or an illegal instruction stopped the launch.",
    ),
    # ---- artifact ----------------------------------------------------------------------------------------------------
    _rule(
        "artifact/registers",
        _ERROR,
        "more registers than allowed",
        "`artifact_checks.max_registers`, compared with ptxas' real count.",
    ),
    _rule(
        "artifact/spills",
        _ERROR,
        "more spills than allowed",
        "`artifact_checks.max_spills`, compared with ptxas' spill stores plus loads in bytes.",
    ),
    _rule(
        "artifact/local-memory",
        _ERROR,
        "more local memory than allowed",
        "`artifact_checks.max_local_memory` bytes of stack per thread.",
    ),
    _rule(
        "artifact/required-pattern",
        _ERROR,
        "a required pattern is absent",
        "Neither an instruction, nor a called or inlined function, nor a source intrinsic matches.",
    ),
    _rule(
        "artifact/forbidden-pattern",
        _ERROR,
        "a forbidden pattern is present",
        "The instruction, function or intrinsic stands on this line.",
    ),
    _rule(
        "artifact/regression",
        _WARNING,
        "worse than the baseline",
        "Registers, spills or local memory rose against the stored baseline by more than "
        "`[policies].warn_threshold`, or from nothing. An error in `gpuemu ci` unless "
        "`[policies].fail_on_regression` is false.",
    ),
    # ---- reference ---------------------------------------------------------------------------------------------------
    _rule(
        "reference/error",
        _ERROR,
        "the reference failed",
        "The reference script raised, exited, timed out or ran out of memory; the numbers were not checked.",
    ),
    _rule(
        "reference/wrong-shape",
        _ERROR,
        "the reference returned something unusable",
        "It must return an array, a tuple or a dict with the declared output shapes.",
    ),
    _rule(
        "reference/not-deterministic",
        _ERROR,
        "the reference is not deterministic",
        "Two calls with the same inputs gave different results, so nothing can be compared with it.",
    ),
    _rule(
        "reference/low-precision",
        _WARNING,
        "the reference computes below fp64",
        "The returned array is narrower than fp64, so its own rounding counts against the kernel.",
    ),
    _rule(
        "reference/constant",
        _WARNING,
        "the reference expects the same value everywhere",
        "In every case every expected element of an output was one and the same value, although the kernel reads "
        "inputs: a kernel that ignores them would pass, so the verdict tells little. Usually the reference returns "
        "early or too few values are allowed (`range`).",
    ),
    # ---- perf --------------------------------------------------------------------------------------------------------
    _rule(
        "perf/uncoalesced",
        _HINT,
        "the lanes of a warp access global memory far apart",
        "Global memory moves sectors of 32 bytes. The warps' requests on this line take at least twice as many as "
        "could hold the bytes they ask for: neighbouring lanes should use neighbouring addresses. Counted without "
        "caches, on the largest clean case, and told only where it is at least 5 % of the kernel's traffic. Only with "
        "counters on.",
    ),
    _rule(
        "perf/bank-conflict",
        _HINT,
        "the lanes of a warp want different words of one bank of shared memory",
        "Each of the 32 banks gives one word of 4 bytes at a time, so that requests on this line take at least twice "
        "as long as they could. Pad the rows of the array by a word, or swizzle its columns. Only with counters on.",
    ),
    _rule(
        "perf/divergence",
        _HINT,
        "most lanes of a warp idle here",
        "On average at most half of the lanes that the kernel begins with run this line, and together these idle lanes "
        "are at least a tenth of the kernel's work: branch by warp rather than by lane. Only with counters on.",
    ),
    # ---- engine ------------------------------------------------------------------------------------------------------
    _rule(
        "engine/unsupported-instruction",
        _WARNING,
        "an instruction we cannot run yet",
        "The kernel was not executed past this line, so it is not verified.",
    ),
    _rule(
        "engine/timeout",
        _ERROR,
        "the check ran out of time",
        "The wall-clock limit ended the worker. Results found before that stand.",
    ),
    _rule(
        "engine/worker-crashed",
        _ERROR,
        "the worker process died",
        "The kernel or its reference killed the process it ran in; other kernels are not affected.",
    ),
    _rule(
        "engine/not-executed",
        _WARNING,
        "the kernel was not run",
        "Not run is never clean. The message says why and what to add.",
    ),
    _rule(
        "engine/not-stored",
        _WARNING,
        "failing cases cannot be kept",
        "The store beside `gpuemu.toml` cannot be read or written: failing cases of earlier checks were not run again, "
        "and `gpuemu reproduce` will not know those of this one.",
    ),
    _rule(
        "engine/no-gpu",
        _HINT,
        "no GPU was found",
        '`executor = "gpu"` was asked for, and there is none; the emulator ran instead where it could.',
    ),
    _rule(
        "engine/internal-error",
        _ERROR,
        "gpuemu-lsp itself failed",
        "This is our bug. Please report it with the debug information.",
    ),
)

RULES: dict[str, Rule] = {rule.name: rule for rule in _ALL}
"""Every rule by name."""


def make(rule: str, message: str, place: Place, **fields: Any) -> Finding:
    """Build a finding with its rule's default severity. ``fields`` are the other fields of :class:`Finding`.

    Raises
    ------
    KeyError
        If the rule is not in the catalogue: findings cannot carry names that nobody documented.
    """
    severity = fields.pop("severity", RULES[rule].severity)
    return Finding(rule=rule, message=message, place=place, severity=severity, **fields)
