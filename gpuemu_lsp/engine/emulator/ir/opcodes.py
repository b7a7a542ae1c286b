"""Classification of opcodes by what they need besides arithmetic: barriers, warp collectives, memory, calls."""

from __future__ import annotations

from gpuemu_lsp.engine.ptx.model import Instruction

_SIZES = {"pred": 1, "f16x2": 4, "bf16x2": 4, "b128": 16}

VECTOR_LENGTHS = {"v2": 2, "v4": 4, "v8": 8}

BARRIER_RESULT = "%barrier_result"
"""Pseudo-instruction: the result of ``bar.red``, which exists only once the barrier has completed."""

PUSH, POP, COPY = "%push", "%pop", "%copy"
"""Pseudo-instructions of a recursive call: save live registers, restore them, and copy a parameter."""

GROUP_BARRIER = 16
"""Number of the barrier at which the first group of four warps meets, above those that programs can name."""

GROUP_EVENT = "%wgmma"
"""Pseudo-instruction: what a warp group does, for the checks of the asynchronous proxy. Its first modifier is that of
the ``wgmma``, ``issued`` behind a product, or ``fault`` before an instruction that breaks a rule."""

CLUSTER_ADDRESS = "%cluster"
"""Pseudo-instruction: converts an address of the cluster's shared memory, as its first modifier says: to a ``generic``
one, from one to a ``shared`` one, or to the predicate whether a generic one is ``inside``."""

SEND = "%send"
"""Pseudo-instruction: ``st.async`` or ``red.async``, its first modifier; those of the instruction follow."""

TENSOR_MAP = "tensormap"
"""Opcode of changes of tensor maps."""

TENSOR_MEMORY = "tcgen05"
"""Opcode of operations on tensor memory. The front end replaces addresses in tensor memory by the registers that hold
them, and the address that ``tcgen05.alloc`` stores to by a register that is stored."""

CLUSTER_BARRIER = 32
"""Number of the barrier of all blocks of a cluster, above those of warp groups."""

GROUP_PRODUCT = "%product"
"""Pseudo-instruction: the share of a warp in a ``wgmma.mma_async``. Its modifiers are ``mma_async``, the state space of
its loads, that of A, the majors of A and B, and those of the ``mma`` for eight columns; its operands the result, A, B,
the predicate of the addend, the bits that are inverted in A, and the addend."""

BUILTIN_CALLS = frozenset({"vprintf", "__assertfail", "malloc", "free"})
"""Functions of the device runtime, which have no PTX body: the emulator implements them."""


def type_bytes(name: str) -> int:
    """Return the size in bytes of a fundamental PTX type (section 5.2)."""
    return _SIZES.get(name) or int(name.lstrip("busfe")) // 8


def is_barrier(instruction: Instruction) -> bool:
    """Whether the instruction is a barrier of the thread block (section 9.7.13.1) or of the cluster (9.7.13.4)."""
    return instruction.opcode in ("bar", "barrier") and "warp" not in instruction.modifiers


def is_bulk_copy(instruction: Instruction) -> bool:
    """Whether an instruction is a ``cp.async.bulk`` or its like, or waits for such copies."""
    if instruction.opcode == SEND:
        return True
    return instruction.opcode == "cp" and "bulk" in instruction.modifiers[:3]


def is_cluster_barrier(instruction: Instruction) -> bool:
    """Whether the instruction is a barrier of the cluster (section 9.7.13.4)."""
    return instruction.opcode == "barrier" and instruction.modifiers[:1] == ("cluster",)


def is_collective(instruction: Instruction) -> bool:
    """Whether the lanes of its member mask must execute the instruction converged (``.sync``: 9.7.9, 9.7.13)."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in (
        "shfl",
        "vote",
        "match",
        "redux",
        "elect",
        "mma",
        "wmma",
        "wgmma",
        TENSOR_MEMORY,
        "ldmatrix",
        "stmatrix",
        "movmatrix",
    ):
        return "sync" in modifiers
    return opcode in ("bar", "barrier") and "warp" in modifiers


def memory_space(instruction: Instruction) -> str:
    """Return the state space of an access; ``generic`` for a generic address (section 5.1)."""
    for modifier in instruction.modifiers:
        if modifier in ("global", "shared", "local", "const", "param"):
            return modifier
        if modifier.startswith("shared::"):
            return "shared"
        if modifier.startswith("param::"):
            return "param"
    return "generic"


def is_surface_access(instruction: Instruction) -> bool:
    """Whether the instruction reads or writes a surface (section 9.7.11)."""
    return instruction.opcode in ("suld", "sust")


def access_type(instruction: Instruction) -> str:
    """Return the element type of a memory access: its last modifier, before the boundary mode of a surface access."""
    return instruction.modifiers[-2 if is_surface_access(instruction) else -1]


def vector_length(instruction: Instruction) -> int:
    """Return the number of elements each thread accesses: 1, 2, 4 or 8."""
    return next((VECTOR_LENGTHS[m] for m in instruction.modifiers if m in VECTOR_LENGTHS), 1)
