"""LLVM IR to machine code in this process."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite
from llvmlite import binding, ir

from gpuemu_lsp.engine.emulator import ops


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code kept alive: the address of each function asked for."""

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
        # Without this LLVM prefers 256-bit vectors on CPUs where 512-bit ones once cost clock speed.
        features["prefer-256-bit"] = False
    return binding.Target.from_default_triple().create_target_machine(
        opt=level, cpu=binding.get_host_cpu_name(), features=features.flatten(), jit=True
    )


def compile_object(module: ir.Module, level: int = 2) -> bytes:
    """Return a module as an object file, optimised as ``level`` says: 0 is quick to make, and runs half as fast.

    Raises
    ------
    RuntimeError
        If LLVM refuses the module, which is a bug of the translator.
    """
    machine = _target_machine(level)
    parsed = binding.parse_assembly(str(module))
    parsed.verify()
    if level:
        _optimise(parsed, machine, level)
    code: bytes = machine.emit_object(parsed)
    return code


def load_object(code: bytes, names: tuple[str, ...]) -> Compiled:
    """Load an object file of ours; functions it lacks must have been given to :func:`define`.

    Only the machine code stays: LLVM's own form of it, which is gone here, is many times larger.
    """
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _target_machine(1))
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return Compiled(engine, {name: engine.get_function_address(name) for name in names})


def define(name: str, address: int) -> None:
    """Give loaded code a function of this process by name."""
    binding.add_symbol(name, address)


def _optimise(module: Any, machine: Any, level: int) -> None:
    """Run the few passes that pay here: NVRTC has optimised already, and translation time is part of every check."""
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
    """Return a callable for the machine code at ``address``; the GIL is released while it runs."""
    return ctypes.CFUNCTYPE(result, *arguments)(address)


@cache
def target_description() -> str:
    """Return what makes the code and what it is made for, as a part of cache keys."""
    features = binding.get_host_cpu_features().flatten()
    return f"{llvmlite.__version__}/{binding.llvm_version_info}/{binding.get_host_cpu_name()}/{features}/{ops.host()}"
