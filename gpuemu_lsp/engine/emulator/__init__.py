"""Runs PTX on the CPU: PTX to LLVM IR to machine code, warps as SIMD vectors, with memory and synchronisation checkers.

``Emulator`` implements :class:`gpuemu_lsp.engine.execution.Executor`. The packages are laid out as a compiler with its
run-time system, in the order in which a kernel passes through them:

``frontend``   PTX to one flat control-flow graph (``ir``)
``analysis``   control flow, divergence, liveness, provenance, race candidates
``codegen``    LLVM IR of a kernel; ``ops`` and ``matrix`` define single instructions
``jit``        machine code, cached on disk; ``llvm`` has helpers for IR
``versions``   versions and tiers of a kernel's code
``devicelib``  functions that generated code calls: checked accesses, race detector, block scheduler
``launch``     memory, arguments, scheduling, vector clocks, and the events that are reported
``abi``        records that generated code and Python share
``executor``   the class ``Emulator``: a request in, an outcome out
"""

from gpuemu_lsp.engine.emulator.executor import Emulator

__all__ = ["Emulator"]
