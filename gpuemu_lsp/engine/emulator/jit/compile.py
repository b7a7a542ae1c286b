"""LLVM IR to object code, and object code into this process.

Compilation and loading are separate steps because object files are cached (:mod:`.disk_cache`): a kernel that any
process of this user has compiled before is only loaded.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite
from llvmlite import binding, ir

from gpuemu_lsp.engine.emulator import ops


@dataclass(frozen=True, slots=True)
class LoadedCode:
    """Machine code in this process: the execution engine that owns it, and the address of each requested function."""

    engine: Any
    addresses: dict[str, int]


@cache
def _initialise() -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


@cache
def vector_lanes() -> int:
    """Return the number of 32-bit lanes in the host's widest vector: 16, 8 or 4."""
    features = binding.get_host_cpu_features()
    if features.get("avx512f") and features.get("avx512bw") and features.get("avx512vl"):
        return 16
    return 8 if features.get("avx2") else 4


def _target_machine(level: int) -> Any:
    _initialise()
    features = binding.get_host_cpu_features()
    if vector_lanes() == 16:
        # LLVM prefers 256-bit vectors on CPUs whose clock drops under 512-bit ones, and would split every vector.
        features["prefer-256-bit"] = False
    return binding.Target.from_default_triple().create_target_machine(
        opt=level, cpu=binding.get_host_cpu_name(), features=features.flatten(), jit=True
    )


def compile_object(module: ir.Module, level: int = 2) -> bytes:
    """Compile a module to an object file; see :func:`compile_text`."""
    return compile_text(str(module), level)


def compile_text(text: str, level: int) -> bytes:
    """Compile the text of a module to an object file.

    Level 0 compiles in a fraction of the time of level 1, and its code takes about twice as long to run.

    Raises
    ------
    RuntimeError
        If LLVM rejects the module, which is a bug of the translator.
    """
    machine = _target_machine(level)
    parsed = binding.parse_assembly(text)
    parsed.verify()
    if level:
        _optimise(parsed, machine, level)
    code: bytes = machine.emit_object(parsed)
    return code


def load_object(code: bytes, names: tuple[str, ...]) -> LoadedCode:
    """Load an object file; external functions it calls must have been passed to :func:`define`."""
    # An empty module as the engine's own: the module that was compiled is many times larger than its machine code, and
    # nothing needs it any more.
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target_machine(1))
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return LoadedCode(engine, {name: engine.get_function_address(name) for name in names})


def define(name: str, address: int) -> None:
    """Make a function of this process callable by name from code that is loaded later."""
    binding.add_symbol(name, address)


def _optimise(module: Any, machine: Any, level: int) -> None:
    """Run a short pass pipeline.

    NVRTC has optimised the PTX already; what is left is what translation itself introduces: stack slots for registers
    (SROA), single-predecessor blocks (SimplifyCFG), and masks and addresses computed more than once (GVN). The standard
    pipelines cost more time than they save, and compilation is part of every check.
    """
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=level))
    passes = binding.create_new_function_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_new_gvn_pass()
    passes.add_simplify_cfg_pass()
    for one in module.functions:
        if not one.is_declaration:
            passes.run(one, builder)


def function(address: int, *arguments: Any, result: Any = ctypes.c_int) -> Any:
    """Return a Python callable for the machine code at ``address``; it releases the GIL while it runs."""
    return ctypes.CFUNCTYPE(result, *arguments)(address)


@cache
def target_description() -> str:
    """Return the compiler's versions and the host CPU, which decide machine code, as a part of cache keys."""
    features = binding.get_host_cpu_features().flatten()
    return f"{llvmlite.__version__}/{binding.llvm_version_info}/{binding.get_host_cpu_name()}/{features}/{ops.host()}"
