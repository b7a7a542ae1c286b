"""Validation of operations against the references of gpuemu.toml, and shapes, dtypes and layouts to try."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from gpuemu.results import ValidationError
from gpuemu.rng import SeededRng, derive_seed
from gpuemu_lsp.engine.fuzz.values import draw

if TYPE_CHECKING:
    from gpuemu.client import Client

Shape = tuple[int, ...]
_DTYPES = ("float32", "float16")
_LAYOUTS = ("contiguous", "strided", "transposed")


@contextmanager
def validate_op(
    client: Client,
    op_name: str,
    inputs: Mapping[str, Any] | None = None,
    raise_on_failure: bool = True,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    **kwargs: Any,
) -> Iterator[dict[str, Any]]:
    """Validate what the block stores in ``ctx["output"]``; ``ctx["result"]`` is the result afterwards.

    Raises
    ------
    ValidationError
        If it fails, unless ``raise_on_failure`` is False.
    ValueError
        If the block stores no output: nothing was validated.
    """
    context: dict[str, Any] = {"inputs": dict(inputs or {})}
    # Copied first: the operation may change its inputs in place.
    given = {name: _copied(value) for name, value in context["inputs"].items()}
    yield context
    if "output" not in context:
        raise ValueError(f"nothing was validated: the block did not set ctx[\"output\"] of '{op_name}'")
    context["result"] = client.validate_op(op_name, given, context["output"], atol=atol, rtol=rtol, **kwargs)
    if raise_on_failure and not context["result"].passed:
        raise ValidationError(context["result"])


def fuzz_shapes(**dims: Sequence[int]) -> Iterator[Shape]:
    """Yield every combination of the sizes, in the order of the arguments."""
    yield from itertools.product(*dims.values())


def fuzz_dtypes(dtypes: Sequence[str] = _DTYPES) -> Iterator[str]:
    """Yield the dtypes."""
    yield from dtypes


def fuzz_layouts(
    shape: Sequence[int],
    include_contiguous: bool = True,
    include_strided: bool = True,
    include_transposed: bool = True,
) -> Iterator[tuple[Shape, Shape]]:
    """Yield pairs of the shape and strides in elements; :func:`with_strides` makes an array with them.

    A transposed layout has the same shape: two neighbouring dimensions are exchanged in memory only. A strided one has
    a gap after each element, and needs twice the memory.
    """
    extents = tuple(int(extent) for extent in shape)
    if include_contiguous:
        yield extents, _contiguous(extents)
    if include_transposed:
        for axis in range(len(extents) - 1):
            order = list(range(len(extents)))
            order[axis], order[axis + 1] = order[axis + 1], order[axis]
            steps = _contiguous(tuple(extents[place] for place in order))
            yield extents, tuple(steps[order.index(place)] for place in range(len(extents)))
    if include_strided:
        yield extents, tuple(2 * step for step in _contiguous(extents))


def with_strides(array: npt.NDArray[Any], strides: Sequence[int]) -> npt.NDArray[Any]:
    """Return the values of an array in memory of their own with these strides, in elements."""
    from gpuemu.verifier.values import laid_out

    return laid_out(array, tuple(step * array.itemsize for step in strides))


def generate_random_tensor(
    seed: int, shape: Sequence[int], dtype: str = "float32", domain: str = "data"
) -> npt.NDArray[Any]:
    """Return values drawn for a seed and a label, as the fuzzer draws them: floats from [-10, 10)."""
    return draw("uniform", SeededRng(seed).derive(domain)._rng, dtype, tuple(shape))


@dataclass(frozen=True, slots=True)
class FuzzConfig:
    """What :class:`SeededFuzzer` draws from."""

    seed: int = field(default_factory=lambda: random.SystemRandom().getrandbits(64))
    batch_sizes: Sequence[int] = (1, 2, 4, 8, 16, 32)
    seq_lengths: Sequence[int] = (1, 64, 128, 256, 512, 1024)
    hidden_dims: Sequence[int] = (256, 512, 768, 1024)
    edge_shapes: Sequence[Shape] = ((1,), (1, 1), (1, 1, 1))
    edge_case_probability: float = 0.1
    dtypes: Sequence[str] = _DTYPES
    layouts: Sequence[str] = _LAYOUTS

    def to_dict(self) -> dict[str, Any]:
        """Return the fields."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class TestCase:
    """A drawn shape, dtype and layout."""

    __test__ = False  # pytest collects classes of this name

    seed: int
    shape: Shape
    dtype: str
    layout: str

    def generate_input(self, name: str = "input") -> npt.NDArray[Any]:
        """Return an array for an input, in memory of the layout."""
        array = generate_random_tensor(self.seed, self.shape, self.dtype, name)
        if self.layout == "strided":
            return with_strides(array, [2 * step for step in _contiguous(self.shape)])
        if self.layout == "transposed" and len(self.shape) > 1:
            *outer, rows, columns = _contiguous((*self.shape[:-2], self.shape[-1], self.shape[-2]))
            return with_strides(array, (*outer, columns, rows))
        return array


class SeededFuzzer:
    """A sequence of cases that depends on the configuration only."""

    def __init__(self, config: FuzzConfig) -> None:
        self.config = config
        self._index = 0

    def next(self) -> TestCase:
        """Return the next case."""
        seed = derive_seed(self.config.seed, f"iter_{self._index}")
        self._index += 1
        own, config = SeededRng(seed), self.config
        dtype = own.derive("dtype").choice(config.dtypes)
        layout = own.derive("layout").choice(config.layouts)
        sizes = own.derive("shape")
        if config.edge_shapes and sizes.gen_bool(config.edge_case_probability):
            shape = tuple(sizes.choice(config.edge_shapes))
        else:
            shape = tuple(sizes.choice(one) for one in (config.batch_sizes, config.seq_lengths, config.hidden_dims))
        return TestCase(seed, shape, dtype, layout)

    def iterator(self, max_iterations: int = 1000) -> Iterator[TestCase]:
        """Yield the next cases."""
        for _ in range(max_iterations):
            yield self.next()

    def reset(self) -> None:
        """Begin again with the first case."""
        self._index = 0


def fuzz_shapes_seeded(seed: int, count: int = 100, **options: Any) -> Iterator[Shape]:
    """Yield drawn shapes; ``options`` are fields of :class:`FuzzConfig`."""
    return (case.shape for case in SeededFuzzer(FuzzConfig(seed=seed, **options)).iterator(count))


def fuzz_dtypes_seeded(seed: int, dtypes: Sequence[str] = _DTYPES, count: int = 100) -> Iterator[str]:
    """Yield drawn dtypes."""
    return (case.dtype for case in SeededFuzzer(FuzzConfig(seed=seed, dtypes=dtypes)).iterator(count))


def fuzz_layouts_seeded(seed: int, shape: Sequence[int], count: int = 100) -> Iterator[tuple[Shape, Shape]]:
    """Yield drawn layouts of a shape."""
    own, layouts = SeededRng(seed).derive("layout"), list(fuzz_layouts(shape))
    return (own.choice(layouts) for _ in range(count))


def _contiguous(shape: Shape) -> Shape:
    steps, step = [], 1
    for extent in reversed(shape):
        steps.append(step)
        step *= max(extent, 1)
    return tuple(reversed(steps))


def _copied(value: Any) -> Any:
    from gpuemu.verifier.values import snapshot

    return snapshot(value)


__all__ = [
    "FuzzConfig",
    "SeededFuzzer",
    "TestCase",
    "ValidationError",
    "fuzz_dtypes",
    "fuzz_dtypes_seeded",
    "fuzz_layouts",
    "fuzz_layouts_seeded",
    "fuzz_shapes",
    "fuzz_shapes_seeded",
    "generate_random_tensor",
    "validate_op",
    "with_strides",
]
