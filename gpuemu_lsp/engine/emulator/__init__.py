"""Runs PTX on the CPU: PTX to LLVM to machine code, warps as vectors, with memory and synchronisation checkers.

``Emulator`` implements :class:`gpuemu_lsp.engine.execution.Executor`. The way of a kernel through this room:
``flatten`` (one graph of blocks), ``graph`` (order and dominators), ``liveness``, ``uniformity`` (what is the same for
all lanes), ``codegen`` (LLVM IR; what single instructions compute is in ``ops``), ``jit``; then ``setup`` lays out
memory, ``scheduler`` runs, and ``events`` says what was seen.
"""

from gpuemu_lsp.engine.emulator.executor import Emulator

__all__ = ["Emulator"]
