"""Which opcodes need more than arithmetic: they wait for other lanes or threads, leave the block, or touch memory."""

from __future__ import annotations

from gpuemu_lsp.engine.ptx.model import Instruction

_SIZES = {"pred": 1, "f16x2": 4, "bf16x2": 4, "b128": 16}

VECTOR_LENGTHS = {"v2": 2, "v4": 4, "v8": 8}

BARRIER_RESULT = "%barrier_result"
"""Not PTX: takes what ``bar.red`` reduced, once the barrier is behind the thread."""

PUSH, POP, COPY = "%push", "%pop", "%copy"
"""Not PTX: save what a recursive call would overwrite, take it back, and hand a parameter over."""

BUILTIN_CALLS = frozenset({"vprintf", "__assertfail", "malloc", "free"})
"""Device runtime functions that have no PTX body; the emulator provides them."""


def type_bytes(name: str) -> int:
    """Return the size in bytes of a fundamental PTX type (section 5.2)."""
    return _SIZES.get(name) or int(name.lstrip("busfe")) // 8


def is_barrier(instruction: Instruction) -> bool:
    """Whether the instruction is a barrier of the thread block (section 9.7.13.1)."""
    return instruction.opcode in ("bar", "barrier") and not {"warp", "cluster"} & set(instruction.modifiers)


def is_collective(instruction: Instruction) -> bool:
    """Whether the lanes its mask names must run the instruction together (``.sync``, sections 9.7.9 and 9.7.13)."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in ("shfl", "vote", "match", "redux", "elect", "mma", "wmma", "ldmatrix", "stmatrix", "movmatrix"):
        return "sync" in modifiers
    return opcode in ("bar", "barrier") and "warp" in modifiers


def memory_space(instruction: Instruction) -> str:
    """Return the state space an access names; ``generic`` when it names none (section 5.1)."""
    for modifier in instruction.modifiers:
        if modifier in ("global", "shared", "local", "const", "param"):
            return modifier
        if modifier.startswith("shared::"):
            return "shared"
        if modifier.startswith("param::"):
            return "param"
    return "generic"


def access_type(instruction: Instruction) -> str:
    """Return the element type of a memory access: its last modifier."""
    return instruction.modifiers[-1]


def vector_length(instruction: Instruction) -> int:
    """Return how many elements one thread moves: 1, 2, 4 or 8."""
    return next((VECTOR_LENGTHS[m] for m in instruction.modifiers if m in VECTOR_LENGTHS), 1)
