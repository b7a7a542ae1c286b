"""Compilation of a Triton kernel for the arguments of one case.

Triton compiles a kernel again for other dtypes and compile-time values, for a pointer or an integer that is divisible
by 16, and for an integer equal to 1. Its own launcher decides which specialisation arguments need, and keeps those that
are compiled; here it is called as for a launch, without one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction

from gpuemu_lsp.engine.compile.model import Specialisation

_BASE = 1 << 20
"""Address of every tensor while a kernel is compiled: only its alignment counts. Buffers have at least 256 bytes."""
_DIVISIBILITY = "tt.divisibility"
_DIVISOR = 16
_TRITON_TYPES = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "bool": "i1",
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
_FORMATS = {
    "i1": "b",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u1": "B",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
    "fp32": "f",
    "f32": "f",
    "fp64": "d",
}
"""Format characters of :mod:`struct` by Triton's type."""


@dataclass(slots=True)
class TensorStandIn:
    """What Triton and the decorators of a kernel may ask of a tensor. ``zeroed``: a hook set all elements to zero."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    zeroed: bool = field(default=False)

    @staticmethod
    def of(dtype: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> TensorStandIn:
        """Return the stand-in of a tensor of a NumPy dtype; strides in elements, ``offset`` in bytes."""
        return TensorStandIn(_TRITON_TYPES[dtype], shape, strides, offset)

    def data_ptr(self) -> int:
        """Return an address with the alignment of the buffer."""
        return _BASE + self.offset

    def stride(self, dimension: int | None = None) -> Any:
        """Return the strides in elements, or one of them."""
        return self.strides if dimension is None else self.strides[dimension]

    def size(self, dimension: int | None = None) -> Any:
        """Return the shape, or one extent."""
        return self.shape if dimension is None else self.shape[dimension]

    def numel(self) -> int:
        """Return the number of elements."""
        return int(np.prod(self.shape))

    def dim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    def element_size(self) -> int:
        """Return the bytes of an element."""
        return {"fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2, "i1": 1, "fp8e4nv": 1, "fp8e5": 1}.get(
            self.dtype, int(self.dtype[1:]) // 8 if self.dtype[1:].isdigit() else 4
        )

    def zero_(self) -> TensorStandIn:
        """Set all elements to zero before the launch, as a hook of a configuration does."""
        self.zeroed = True
        return self


@dataclass(frozen=True, slots=True)
class TritonCode:
    """A compiled specialisation.

    ``signature`` has the type of each parameter by name; ``constexpr`` is compiled in. ``zeroed`` are the tensors that
    a hook sets to zero before the launch.
    """

    kernel: Any
    ptx: str
    name: str
    signature: Mapping[str, Any]
    warps: int
    shared_bytes: int
    scratch_bytes: tuple[int, int]
    zeroed: frozenset[str] = frozenset()


def specialisation_of(code: TritonCode) -> Specialisation:
    """Return what Triton compiled in: values by parameter, and what it assumes of the others."""
    source, metadata = code.kernel.src, code.kernel.metadata
    names = list(source.fn.arg_names)
    values = {names[path[0]]: str(value) for path, value in source.constants.items() if len(path) == 1}
    divisible = tuple(
        names[path[0]]
        for path, attributes in source.attrs.items()
        if len(path) == 1 and any(name == _DIVISIBILITY for name, _ in attributes)
    )
    return Specialisation(values, divisible, code.warps, metadata.num_stages, code.shared_bytes)


class UnsupportedKernelError(Exception):
    """A kernel that compiles, but that the emulator cannot run; the message is the reason."""


def jit_function(kernel: Any) -> JITFunction[Any] | None:
    """Return the function below the decorators of a kernel; None if there is none."""
    for _ in range(16):
        if isinstance(kernel, JITFunction):
            return kernel
        kernel = getattr(kernel, "fn", None)
    return None


def configurations(kernel: Any) -> tuple[Any, ...]:
    """Return the configurations of the autotuner of a kernel; empty without one."""
    found = (one for one in _layers(kernel) if isinstance(one, Autotuner))
    return tuple(next((one.configs for one in found), ()))


def restored_buffers(kernel: Any) -> frozenset[str] | None:
    """Return the parameters whose tensors the autotuner of a kernel restores after each of its launches.

    None without an autotuner, and for one that does not choose or has hooks of the program, which may do the same.
    """
    tuner = next((one for one in _layers(kernel) if isinstance(one, Autotuner)), None)
    if tuner is None or len(tuner.configs) < 2 or any(one.pre_hook is not None for one in tuner.configs):
        return None
    own = getattr(tuner, "user_defined_pre_hook", False) or getattr(tuner, "user_defined_post_hook", False)
    return None if own else frozenset(tuner.restore_value)


def computed_parameters(kernel: Any) -> frozenset[str]:
    """Return the parameters that heuristics compute."""
    return frozenset(name for one in _layers(kernel) if isinstance(one, Heuristics) for name in one.values)


def _layers(kernel: Any) -> list[Any]:
    """Return the decorated forms of a kernel, the outermost first."""
    found: list[Any] = []
    while not isinstance(kernel, JITFunction) and len(found) < 16 and hasattr(kernel, "fn"):
        found.append(kernel)
        kernel = kernel.fn
    return found


def compile_for(
    kernel: Any, arguments: Mapping[str, Any], configuration: Any = None, *, general: bool = False
) -> TritonCode:
    """Compile a kernel for arguments, options included.

    ``configuration`` is one of the autotuner's. ``general``: the code assumes nothing of integers, neither that one is
    1 nor that it is divisible by 16, so that it is valid for other values.

    Raises
    ------
    UnsupportedKernelError
        If the emulator cannot run the result.
    Exception
        What Triton raises.
    """
    given = dict(arguments)
    for layer in _layers(kernel):
        if isinstance(layer, Autotuner) and configuration is not None:
            given = {**configuration.all_kwargs(), **given}
            _run_hooks(layer, configuration, given)
        elif isinstance(layer, Heuristics):
            for name, compute in layer.values.items():
                if name not in arguments:
                    given[name] = compute(dict(given))
    function = jit_function(kernel)
    assert function is not None
    values = {**given, **_general(function, given)} if general else given
    compiled = function.run(grid=None, warmup=True, **values)
    metadata = compiled.metadata
    if getattr(metadata, "num_ctas", 1) > 1:
        raise UnsupportedKernelError("clusters of programs (num_ctas above 1) are not supported")
    if getattr(metadata, "tensordesc_meta", None):
        raise UnsupportedKernelError(
            "its tensor descriptors are made by the program; run its tests with `pytest --gpuemu-triton`"
        )
    ptx = compiled.asm["ptx"]
    zeroed = (name for name, value in given.items() if isinstance(value, TensorStandIn) and value.zeroed)
    return TritonCode(
        compiled,
        ptx.decode() if isinstance(ptx, bytes) else ptx,
        metadata.name,
        dict(compiled.src.signature),
        metadata.num_warps,
        metadata.shared,
        (metadata.global_scratch_size, metadata.profile_scratch_size),
        frozenset(zeroed),
    )


def _general(function: JITFunction[Any], given: Mapping[str, Any]) -> dict[str, int]:
    """Return integers of the same types that Triton assumes nothing of, for the parameters that are passed."""
    passed = {one.name for one in function.params if not one.is_constexpr}
    integers = {name: one for name, one in given.items() if name in passed and type(one) is int}
    # One more than a multiple of 16 is not a multiple, and has the same type; but the number must not become 1.
    return {name: 3 if one in (0, 1) else one + 1 for name, one in integers.items() if one == 1 or one % _DIVISOR == 0}


def _run_hooks(tuner: Any, configuration: Any, given: dict[str, Any]) -> None:
    """Run what precedes a launch with a configuration: it may set tensors to zero."""
    hooks: list[Callable[..., Any]] = [hook for hook in (configuration.pre_hook,) if hook is not None]
    for hook in hooks:
        hook(given)
    for name in tuner.reset_to_zero:
        if isinstance(given.get(name), TensorStandIn):
            given[name].zero_()


def scalar_bytes(kind: str, value: Any) -> bytes:
    """Return a scalar of one of Triton's types as little-endian bytes."""
    if kind in ("fp16", "bf16"):
        return np.asarray(value).astype(np.float16 if kind == "fp16" else ml_dtypes.bfloat16).tobytes()
    if kind not in _FORMATS:
        raise UnsupportedKernelError(f"an argument of type {kind} is not supported")
    return struct.pack(f"<{_FORMATS[kind]}", value if "f" in kind else int(value))
