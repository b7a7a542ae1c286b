"""Rounding to imitate: which operations round, by how much, and how the errors of a sum grow."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.dtypes import FloatFormat
from gpuemu_lsp.engine.fuzz.model import Array

_EXACT = frozenset(
    (
        *("negative", "positive", "absolute", "fabs", "sign", "copysign", "conjugate", "nextafter", "spacing", "ldexp"),
        *("maximum", "minimum", "fmax", "fmin", "heaviside", "clip", "modf", "frexp"),
        *("floor", "ceil", "trunc", "rint", "fmod", "remainder", "floor_divide"),
    )
)
"""Operations whose result is one of their operands, or always representable."""

_ROUNDED_ONCE = frozenset(["add", "subtract", "multiply", "divide", "true_divide", "sqrt", "square", "reciprocal"])
"""IEEE operations: half a unit in the last place. Everything else counts as a function with a few."""

_FUNCTION_ERROR = 4.0
"""Errors of exp, tanh, pow and their like in unit roundoffs: CUDA documents 1 to 2 ulp for nearly all of them."""

_MAX_OPERATIONS = 30_000
_MAX_ELEMENTS = 1 << 28
"""What one traced run may do: some seconds."""
_POOL = 1 << 20
_ALIKE = 1e-4
"""Terms this close, relatively, count as equal: disturbed ones no longer are."""


class TraceLimitError(BaseException):
    """A traced run takes too long: a loop that ends on convergence need not end with errors in it.

    Not an Exception, so that the reference's own handlers do not swallow it.
    """


class MonteCarloArithmetic:
    """The rounding to imitate.

    Parameters
    ----------
    unit
        Size of one rounding error, relative (a multiple of the unit roundoff of the kernel's arithmetic).
    function_unit
        The same for functions such as ``exp``.
    form
        The format whose range applies: beyond its largest value is infinity, below its smallest is zero.
    seed
        Chooses the errors.
    sign
        -1.0 turns every error of a seed round: of the two runs one pushes each element either way.
    """

    def __init__(self, unit: float, function_unit: float, form: FloatFormat, seed: int, sign: float = 1.0) -> None:
        self.unit = unit
        self.sign = sign
        self.function_unit = max(function_unit, _FUNCTION_ERROR * unit)
        self.form = form
        self.operations = 0
        self._elements = 0
        self.leaks = 0
        self.ends = float("inf")
        """When to give up at the latest, on the clock of :func:`time.monotonic`."""
        self._random = np.random.default_rng(seed)

    def errors(self, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return errors between half and one, of either sign; ``sign`` is for the caller to apply."""
        size = int(np.prod(shape, dtype=np.int64))
        start = int(self._random.integers(_POOL))
        pool = _pool()
        if size <= pool.size - start:
            return pool[start : start + size].reshape(shape)
        return np.resize(pool, size + start)[start:].reshape(shape)

    def perturb(self, values: Array, scale: Any) -> None:
        """Add errors of the absolute size ``scale`` in place, then apply the format's range.

        Complex numbers are disturbed in both parts.
        """
        if values.dtype.kind == "c":
            self.perturb(values.real, scale)
            self.perturb(values.imag, scale)
            return
        self.operations += 1
        self._elements += values.size
        spent = self.operations > _MAX_OPERATIONS or self._elements > _MAX_ELEMENTS
        if spent or time.monotonic() > self.ends:
            raise TraceLimitError("the traced run does not end")
        errors = np.asarray(self.errors(values.shape) * scale)
        errors[~np.isfinite(errors)] = 0.0
        values += self.sign * errors
        self.clip(values)

    def clip(self, values: Array) -> None:
        """Overflow and underflow in place."""
        magnitude = np.abs(values)
        values[magnitude > self.form.largest] *= np.inf
        values[magnitude < self.form.smallest] = 0.0


def rounded(
    arithmetic: MonteCarloArithmetic,
    name: str,
    method: str,
    operands: tuple[Any, ...],
    magnitude: Array | None,
    options: dict[str, Any],
    array: Array,
) -> Array:
    """Disturb the result of one ufunc call, in place where it is an array of its own."""
    if array.dtype == object:
        return _rounded_objects(arithmetic, array)
    if array.dtype.kind not in "fc" or (name in _EXACT and not _is_modulus(name, operands)):
        return array
    if not array.flags.writeable or array.base is not None:
        array = np.array(array)
    if name in ("matmul", "vecdot", "matvec", "vecmat"):
        left, right = (np.abs(np.asarray(value)) for value in operands[:2])
        scale = np.asarray(getattr(np, name)(left, right, **{k: v for k, v in options.items() if k != "out"}))
        arithmetic.perturb(array, arithmetic.unit * growth(left.shape[-1] if left.ndim else 1) * scale)
    elif method in ("reduce", "accumulate", "reduceat"):
        operands = (operands[0] if magnitude is None else magnitude, *operands[1:])
        _disturb_reduction(arithmetic, name, method, operands, options, array)
    elif name in _ROUNDED_ONCE:
        arithmetic.perturb(array, arithmetic.unit * np.abs(array))
    else:
        arithmetic.perturb(array, arithmetic.function_unit * np.abs(array))
    return array


def _is_modulus(name: str, operands: tuple[Any, ...]) -> bool:
    """``abs`` of a complex number is a square root."""
    return name == "absolute" and np.iscomplexobj(operands[0])


def _disturb_reduction(
    arithmetic: MonteCarloArithmetic,
    name: str,
    method: str,
    operands: tuple[Any, ...],
    options: dict[str, Any],
    array: Array,
) -> None:
    source = np.asarray(operands[0])
    terms = max(source.shape, default=1) if method == "accumulate" else source.size / max(1, array.size)
    if name != "add":
        arithmetic.perturb(array, arithmetic.unit * growth(terms) * np.abs(array))
        return
    others = {key: value for key, value in options.items() if key not in ("out", "initial")}
    scale = np.asarray(getattr(np.add, method)(np.abs(source), *operands[1:], **others))
    errors = arithmetic.unit * growth(terms) * scale
    axis = options.get("axis", operands[1] if len(operands) > 1 else 0)
    if method == "reduce" and isinstance(axis, int) and source.ndim and source.shape[axis] > 1:
        errors = errors + _systematic(arithmetic, np.abs(source), axis, scale)
    arithmetic.perturb(array, errors)


def _systematic(arithmetic: MonteCarloArithmetic, terms: Array, axis: int, total: Array) -> Array:
    """Return the errors of a sequential sum along ``axis`` that do not cancel.

    Equal terms round the same way each time, and terms below the running sum's last place are lost, each of them.
    """
    alike = np.count_nonzero(np.abs(np.diff(terms, axis=axis)) <= _ALIKE * _without_last(terms, axis), axis=axis)
    sums = total.reshape(np.shape(alike))
    lost = np.sum(terms, axis=axis, where=terms < arithmetic.unit / 4 * np.expand_dims(sums, axis))
    errors: Array = np.asarray(arithmetic.unit / 8 * alike * sums + 2 * lost)
    return errors.reshape(total.shape)


def _rounded_objects(arithmetic: MonteCarloArithmetic, array: Array) -> Array:
    """Disturb what ``np.vectorize(math.erf)`` and its like produce on their way."""
    try:
        values = array.astype(np.float64)
    except (TypeError, ValueError):
        return array
    arithmetic.perturb(values, arithmetic.function_unit * np.abs(values))
    return values.astype(object)


def growth(terms: float) -> float:
    """How the rounding errors of a sum of ``terms`` numbers grow, in unit roundoffs of the sum of magnitudes.

    The errors of a sequential sum are independent, so they add up like a random walk; a tree does better.
    """
    return 1.0 + float(np.sqrt(max(terms, 0.0))) / 4


@lru_cache(maxsize=1)
def _pool() -> npt.NDArray[np.float64]:
    random = np.random.default_rng(20260611)
    size = _POOL + (_POOL >> 1)
    errors: npt.NDArray[np.float64] = random.uniform(0.5, 1.0, size) * random.choice((-1.0, 1.0), size)
    return errors


def _without_last(values: Array, axis: int) -> Array:
    """Return all but the last entry along an axis: what :func:`numpy.diff` subtracts."""
    rest: Array = np.moveaxis(np.moveaxis(values, axis, 0)[:-1], 0, axis)
    return rest
