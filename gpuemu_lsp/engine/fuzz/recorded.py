"""Cases of recorded launches: the launches themselves, then other values, then other sizes.

The key of such a case has the launch's digest and the kind of its values as strategy; its contents are read from the
recording. Other values are the recorded ones in another order, which keeps what they have in common, such as that all
are valid indices; sorted integers, which may be offsets of rows, keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import prod

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.execution import Argument, Buffer, StructArgument
from gpuemu_lsp.engine.fuzz.dtypes import is_float, numpy_dtype
from gpuemu_lsp.engine.fuzz.geometry import CaseGeometry, ImpossibleError, evaluate_plan
from gpuemu_lsp.engine.fuzz.model import Array, Case, CaseKey, PlanError
from gpuemu_lsp.engine.fuzz.rng import Rng, derive_seed
from gpuemu_lsp.engine.fuzz.strategies import Recipe
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, evaluate
from gpuemu_lsp.engine.recordings.cases import (
    PERMUTED,
    SAME,
    SIZED,
    UNIFORM,
    RecordedCase,
    RecordedLaunches,
    RecordedMemory,
    strategy,
    strategy_parts,
)
from gpuemu_lsp.engine.recordings.model import RecordingError
from gpuemu_lsp.engine.recordings.reader import read_contents

_OTHER_SIZES = ("small", "ragged", "medium", "below")
_UNINITIALISED = 0xA5
_HEX = 16

Choose = Callable[[int, Recipe], Mapping[str, int]]
"""Sizes that are drawn from a seed and a recipe."""


def recorded_cases(
    plan: Plan, recorded: RecordedLaunches, master_seed: int, count: int, choose: Choose
) -> Iterator[Case]:
    """Yield up to ``count`` cases: launches, the smallest first, then variations of the first of them.

    Raises
    ------
    PlanError
        If the contents of a launch cannot be read.
    """
    launches = sorted(recorded.cases, key=lambda one: one.threads)
    keys = [CaseKey(_seed(one), strategy(one.digest, SAME), dict(one.dims)) for one in launches]
    first = launches[0]
    for kind in (PERMUTED, UNIFORM):
        seed = derive_seed(master_seed, f"recorded_{kind}")
        keys.append(CaseKey(seed, strategy(first.digest, kind), dict(first.dims)))
    if recorded.sizes:
        for sizes in _OTHER_SIZES:
            seed = derive_seed(master_seed, f"recorded_{sizes}")
            try:
                dims = choose(seed, Recipe(sizes, "uniform"))
            except ImpossibleError:
                continue
            nearest = _nearest(launches, dims)
            keys.append(CaseKey(seed, strategy(nearest.digest, SIZED), dict(dims)))
    seen = set[tuple[object, ...]]()
    for key in keys[:count]:
        identity = key.strategy, tuple((key.dims or {}).items())
        if identity not in seen:
            seen.add(identity)
            yield recorded_case(plan, recorded, key)


def recorded_case(plan: Plan, recorded: RecordedLaunches, key: CaseKey) -> Case:
    """Return the case of a key.

    At other sizes than those of the launch its values are cut off or repeated.

    Raises
    ------
    PlanError
        If the recording no longer has the launch, or the sizes cannot be launched.
    """
    digest, kind = strategy_parts(key.strategy) or ("", "")
    launch = recorded.case(digest)
    if launch is None:
        raise PlanError("the recording no longer has this launch")
    dims = dict(launch.dims) if key.dims is None else {name: int(value) for name, value in key.dims.items()}
    try:
        if dims == dict(launch.dims):
            layout = _layout(plan, launch.offsets)
            geometry = CaseGeometry(launch.shapes, dims, layout, launch.grid, launch.block, launch.shared_bytes)
        else:
            geometry = evaluate_plan(plan, dims, None)
    except ImpossibleError as error:
        raise PlanError(f"the case cannot be launched: {error}") from error
    rng = Rng(key.seed).derive("data")
    tensors: dict[str, Array] = {}
    outputs: dict[str, tuple[int, ...]] = {}
    scalars: dict[str, np.generic] = {}
    for arg in plan.args:
        if isinstance(arg, ScalarArg):
            scalars[arg.param] = _scalar(arg, launch, dims)
        elif arg.direction == "out":
            outputs[arg.param] = geometry.shapes[arg.param]
        else:
            values = _resized(_recorded(recorded, launch, arg), geometry.shapes[arg.param], arg, dims)
            if kind in (PERMUTED, UNIFORM) and arg.param not in recorded.fixed and arg.shares is None:
                values = _varied(values, kind, rng.derive(arg.param), launch.tensors[arg.param])
            tensors[arg.param] = values
    for arg in plan.args:
        if isinstance(arg, TensorArg) and arg.shares in tensors and arg.param in tensors:
            shared = np.ascontiguousarray(tensors[arg.shares]).reshape(-1).view(np.uint8)
            own = tensors[arg.param]
            tensors[arg.param] = np.resize(shared, own.nbytes).view(own.dtype).reshape(own.shape)
    return Case(
        key=replace(key, dims=dims),
        dtype=plan.dtype,
        dims=dims,
        tensors=tensors,
        scalars=scalars,
        outputs=outputs,
        grid=geometry.grid,
        block=geometry.block,
        shared_bytes=geometry.shared_bytes,
        values=kind,
        finite=all(_is_finite(value) for value in tensors.values()),
        extra=geometry.layout,
    )


def with_recorded_memory(
    recorded: RecordedLaunches, case: Case, arguments: tuple[Argument, ...]
) -> tuple[Argument, ...]:
    """Return the arguments of a case with what the launch's memory has besides values.

    That is which bytes are initialised, and the addresses of the program in it.
    """
    launch = _launch_of(recorded, case)
    if launch is None:
        return arguments

    def completed(buffer: Buffer) -> Buffer:
        memory = launch.tensors.get(buffer.name)
        if memory is None:
            return buffer
        known = _mask(recorded.path, memory, buffer.data.size) if buffer.initialized else None
        return replace(
            buffer,
            initialized=buffer.initialized and known is None,
            initialized_bytes=known,
            host_address=memory.address,
            holds_addresses=memory.addresses and buffer.alias_of is None,
        )

    def each(argument: Argument) -> Argument:
        if isinstance(argument, Buffer):
            return completed(argument)
        if isinstance(argument, StructArgument):
            return replace(argument, pointers=tuple((at, completed(one)) for at, one in argument.pointers))
        return argument

    return tuple(map(each, arguments))


def reachable_buffers(plan: Plan, case: Case) -> tuple[Buffer, ...]:
    """Return the buffers of a recorded launch that are not arguments: variables, and what memory points to."""
    recorded = plan.recorded
    launch = None if recorded is None else _launch_of(recorded, case)
    if recorded is None or launch is None:
        return ()
    found = []
    for number, memory in enumerate(launch.reachable):
        data = _contents(recorded.path, memory)
        known = _mask(recorded.path, memory, memory.size)
        found.append(
            Buffer(
                name=f"allocation {number + 1} ({memory.description})" if memory.variable is None else memory.variable,
                data=data,
                initialized=known is None,
                initialized_bytes=known,
                element_size=1,
                variable=memory.variable,
                host_address=memory.address,
                holds_addresses=memory.addresses,
            )
        )
    return tuple(found)


def _launch_of(recorded: RecordedLaunches, case: Case) -> RecordedCase | None:
    parts = strategy_parts(case.key.strategy)
    return None if parts is None else recorded.case(parts[0])


def _seed(launch: RecordedCase) -> int:
    return int(launch.digest[:_HEX], 16)


def _nearest(launches: list[RecordedCase], dims: Mapping[str, int]) -> RecordedCase:
    return min(launches, key=lambda one: abs(prod(one.dims.values()) - prod(dims.values())))


def _layout(plan: Plan, offsets: Mapping[str, int]) -> dict[str, str]:
    layout = {f"pointer:{name}": str(offset) for name, offset in offsets.items() if offset}
    shared = {f"alias:{arg.param}": arg.shares for arg in plan.args if isinstance(arg, TensorArg) and arg.shares}
    return {**layout, **shared}


def _scalar(arg: ScalarArg, launch: RecordedCase, dims: Mapping[str, int]) -> np.generic:
    dtype = numpy_dtype(arg.dtype)
    if isinstance(arg.value, Expression):
        sized: np.generic = dtype.type(evaluate(arg.value, dims))
        return sized
    recorded: np.generic = np.frombuffer(bytes.fromhex(launch.scalars[arg.param]), dtype)[0]
    return recorded


def _recorded(recorded: RecordedLaunches, launch: RecordedCase, arg: TensorArg) -> Array:
    """Return the values of a tensor, whole elements only."""
    memory, dtype = launch.tensors[arg.param], numpy_dtype(arg.dtype)
    raw = _contents(recorded.path, memory)
    count = max(raw.size // dtype.itemsize, 1)
    raw = np.resize(raw, count * dtype.itemsize) if raw.size < dtype.itemsize else raw[: count * dtype.itemsize]
    return raw.view(dtype).reshape(launch.shapes[arg.param])


def _resized(values: Array, shape: tuple[int, ...], arg: TensorArg, dims: Mapping[str, int]) -> Array:
    """Return values with another shape: cut off, or repeated; indices stay below a size that bounds them."""
    if values.shape == shape:
        return values
    if values.ndim == len(shape):
        for axis, extent in enumerate(shape):
            values = np.take(values, np.arange(extent) % values.shape[axis], axis=axis)
    else:
        values = np.resize(values, shape)
    if arg.range is not None and isinstance(arg.range[1], Expression):
        bound = evaluate(arg.range[1], dims)
        values = np.where(values < bound, values, values % max(bound, 1)).astype(values.dtype)
    return np.ascontiguousarray(values)


def _varied(values: Array, kind: str, rng: Rng, memory: RecordedMemory) -> Array:
    """Return other values of the same kind."""
    if memory.addresses or memory.initialised is not None or memory.before is None or values.dtype == np.bool_:
        return values
    flat = values.reshape(-1)
    if not is_float(values.dtype.name):
        if flat.size > 1 and bool((flat[1:] >= flat[:-1]).all()):
            return values
        return flat[_order(flat.size, rng)].reshape(values.shape)
    if kind == PERMUTED:
        return flat[_order(flat.size, rng)].reshape(values.shape)
    wide = flat.astype(np.float64)
    if not np.isfinite(wide).all() or wide.min() == wide.max():
        return values
    drawn = wide.min() + rng.f64_array(flat.size) * (wide.max() - wide.min())
    if bool((wide == np.rint(wide)).all()):
        drawn = np.rint(drawn)
    with np.errstate(over="ignore"):
        other: Array = drawn.astype(values.dtype).reshape(values.shape)
        return other


def _order(size: int, rng: Rng) -> npt.NDArray[np.int64]:
    return np.argsort(rng.u64_array(size), kind="stable")


def _mask(path: str, memory: RecordedMemory, size: int) -> npt.NDArray[np.bool_] | None:
    """Return which of the first ``size`` bytes are initialised, None if all are."""
    if memory.before is None:
        return np.zeros(size, np.bool_)
    if memory.initialised is None:
        return None
    mask = np.frombuffer(_stored(path, memory.initialised), np.uint8).astype(np.bool_)
    return np.resize(mask, size) if mask.size else np.zeros(size, np.bool_)


def _contents(path: str, memory: RecordedMemory) -> npt.NDArray[np.uint8]:
    if memory.before is None:
        return np.full(memory.size, _UNINITIALISED, np.uint8)
    raw = np.frombuffer(_stored(path, memory.before), np.uint8)
    if raw.size != memory.size:
        raise PlanError(f"{path} is damaged: contents have {raw.size} bytes in place of {memory.size}")
    return raw.copy()


@lru_cache(maxsize=64)
def _stored(path: str, digest: str) -> bytes:
    try:
        return read_contents(path, digest)
    except RecordingError as error:
        raise PlanError(str(error)) from error


def _is_finite(values: Array) -> bool:
    return values.dtype.kind in "biu" or bool(np.isfinite(values.astype(np.float64)).all())


def after_launch(recorded: RecordedLaunches, case: Case, param: str) -> Array | None:
    """Return the bytes that a recorded launch left in the memory of a tensor; None for a case with other inputs."""
    launch, parts = _launch_of(recorded, case), strategy_parts(case.key.strategy)
    if launch is None or parts is None or parts[1] != SAME or dict(case.dims) != dict(launch.dims):
        return None
    memory = launch.tensors.get(param)
    digest = None if memory is None else memory.after or memory.before
    if digest is None:
        return None
    return np.frombuffer(_stored(recorded.path, digest), np.uint8)


def known_before(recorded: RecordedLaunches, case: Case, param: str) -> npt.NDArray[np.bool_]:
    """Return which bytes of a tensor's memory are initialised before a recorded launch."""
    launch = _launch_of(recorded, case)
    memory = None if launch is None else launch.tensors.get(param)
    if memory is None:
        return np.zeros(0, np.bool_)
    mask = _mask(recorded.path, memory, memory.size)
    return np.ones(memory.size, np.bool_) if mask is None else mask
