"""Simulated rounding of NumPy operations: which operations round, by how much, and how errors of sums grow."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
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
"""Ufuncs whose result is one of their operands, or always representable."""

_ROUNDED_ONCE = frozenset(["add", "subtract", "multiply", "divide", "true_divide", "sqrt", "square", "reciprocal"])
"""IEEE 754 operations, rounded to half an ulp. Every other ufunc counts as a mathematical function."""

_FUNCTION_ERROR = 4.0
"""Error of exp, tanh, pow and similar in unit roundoffs. The CUDA programming guide documents 1 to 2 ulp (2 to 4 unit
roundoffs) for nearly all fp32 functions."""

_MAX_OPERATIONS = 30_000
_MAX_ELEMENTS = 1 << 28
"""Limits of one traced run, a few seconds of work."""
_POOL = 1 << 20
"""Random errors drawn once per process; operations take consecutive slices of them from a random start."""
_EQUAL_TERMS = 1e-4
"""Relative difference up to which neighbouring terms count as equal: traced terms have differing errors."""


class TraceLimitError(BaseException):
    """A traced run exceeds its limits: a loop that ends on convergence need not end with errors in its values.

    Not an Exception, so that exception handlers of the reference do not catch it.
    """


class MonteCarloArithmetic:
    """Rounding errors to inject into one traced run.

    Parameters
    ----------
    unit
        Relative size of one rounding error, a multiple of the unit roundoff of the kernel's arithmetic.
    function_unit
        The same for functions such as ``exp``.
    form
        Format whose range applies: magnitudes above its largest number become infinite, those below its smallest zero.
    seed
        Seed of the errors.
    sign
        -1.0 negates every error of the seed. The two runs of a seed move each element once in either direction.

    Attributes
    ----------
    operations
        Number of perturbed operations.
    leaks
        Number of traced values that were read as Python numbers, and so escaped the trace.
    ends
        Deadline on the clock of :func:`time.thread_time`, which does not run while other processes do.
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
        self._seed = seed
        self._random = np.random.default_rng(seed)

    def settings(self) -> dict[str, Any]:
        """Return the arguments of an arithmetic for another process, as JSON; each call of it draws other errors."""
        seed, form = self._seed + self.operations, asdict(self.form)
        return {"unit": self.unit, "function_unit": self.function_unit, "form": form, "seed": seed, "sign": self.sign}

    def errors(self, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return random errors of magnitude 0.5 to 1 and random sign; the caller multiplies by ``sign``."""
        size = int(np.prod(shape, dtype=np.int64))
        start = int(self._random.integers(_POOL))
        pool = _pool()
        if size <= pool.size - start:
            return pool[start : start + size].reshape(shape)
        return np.resize(pool, size + start)[start:].reshape(shape)

    def perturb(self, values: Array, scale: Any) -> None:
        """Add errors of absolute size ``scale`` to each element in place, then apply the format's range.

        Real and imaginary parts of complex numbers are perturbed separately.

        Raises
        ------
        TraceLimitError
            If the run exceeds its limits.
        """
        if values.dtype.kind == "c":
            self.perturb(values.real, scale)
            self.perturb(values.imag, scale)
            return
        self.operations += 1
        self._elements += values.size
        # Operations and elements are counted so that the limit is the same on every machine; the deadline is only for
        # operations that are slow in themselves.
        spent = self.operations > _MAX_OPERATIONS or self._elements > _MAX_ELEMENTS
        if spent or time.thread_time() > self.ends:
            raise TraceLimitError("the traced run does not end")
        errors = np.asarray(self.errors(values.shape) * scale)
        # The scale of an infinite or NaN result is not finite; such a result has no rounding error.
        errors[~np.isfinite(errors)] = 0.0
        values += self.sign * errors
        self.clip(values)

    def clip(self, values: Array) -> None:
        """Apply overflow to infinity and underflow to zero to each element in place."""
        magnitude = np.abs(values)
        values[magnitude > self.form.largest] *= np.inf
        values[magnitude < self.form.smallest] = 0.0


@dataclass(frozen=True, slots=True)
class UfuncCall:
    """One call of a NumPy ufunc: its name, method (``__call__``, ``reduce``, ...), plain operands and options.

    ``magnitude``, of the shape of the first operand, is the size of the values that cancelled to give it, None if
    unknown; see :func:`~gpuemu_lsp.engine.oracle.trace.magnitude_of`. ``products`` are the operands that are products;
    see :func:`~gpuemu_lsp.engine.oracle.trace.is_product`.
    """

    name: str
    method: str
    operands: tuple[Any, ...]
    options: dict[str, Any]
    magnitude: Array | None = None
    products: tuple[Array, ...] = ()


def rounded(arithmetic: MonteCarloArithmetic, call: UfuncCall, result: Array) -> Array:
    """Return the elements of a ufunc call's result with rounding errors; ``result`` is modified if it owns its data."""
    name = call.name
    if result.dtype == object:
        return _rounded_objects(arithmetic, result)
    if result.dtype.kind not in "fc" or (name in _EXACT and not _is_modulus(call)):
        return result
    # A view may share its data with an operand, which must keep its value.
    if not result.flags.writeable or result.base is not None:
        result = np.array(result)
    if name in ("matmul", "vecdot", "matvec", "vecmat"):
        # |fl(AB) - AB| <= gamma_n |A||B| (Higham, section 3.5): the scale is the product of the magnitudes, which is
        # much larger than the result where terms cancel.
        left, right = (np.abs(np.asarray(value)) for value in call.operands[:2])
        scale = np.asarray(getattr(np, name)(left, right, **{k: v for k, v in call.options.items() if k != "out"}))
        arithmetic.perturb(result, arithmetic.unit * growth(left.shape[-1] if left.ndim else 1) * scale)
    elif call.method in ("reduce", "accumulate", "reduceat"):
        _perturb_reduction(arithmetic, call, result)
    elif name in _ROUNDED_ONCE:
        scale = np.abs(result)
        if name in ("add", "subtract"):
            # The rounding error of a product that fma does not round.
            scale = scale + sum(np.abs(product) for product in call.products)
        arithmetic.perturb(result, arithmetic.unit * scale)
    else:
        arithmetic.perturb(result, arithmetic.function_unit * np.abs(result))
    return result


def _is_modulus(call: UfuncCall) -> bool:
    """Return whether the call is ``abs`` of a complex number, which takes a square root."""
    return call.name == "absolute" and np.iscomplexobj(call.operands[0])


def _perturb_reduction(arithmetic: MonteCarloArithmetic, call: UfuncCall, result: Array) -> None:
    """Perturb the result of a reduction; a sum by a multiple of the sum of its terms' magnitudes."""
    first = call.operands[0] if call.magnitude is None else call.magnitude
    source, others = np.asarray(first), call.operands[1:]
    terms = max(source.shape, default=1) if call.method == "accumulate" else source.size / max(1, result.size)
    if call.name != "add":
        arithmetic.perturb(result, arithmetic.unit * growth(terms) * np.abs(result))
        return
    # `out` would overwrite the result; `initial` is one more exact term, and its sign is unknown.
    options = {key: value for key, value in call.options.items() if key not in ("out", "initial")}
    scale = np.asarray(getattr(np.add, call.method)(np.abs(source), *others, **options))
    errors = arithmetic.unit * growth(terms) * scale
    axis = call.options.get("axis", others[0] if others else 0)
    if call.method == "reduce" and isinstance(axis, int) and source.ndim and source.shape[axis] > 1:
        errors = errors + _systematic(arithmetic, np.abs(source), axis, scale)
    arithmetic.perturb(result, errors)


def _systematic(arithmetic: MonteCarloArithmetic, terms: Array, axis: int, total: Array) -> Array:
    """Return the errors of a sequential sum along ``axis`` that do not average out.

    Equal terms round in the same direction each time, so their errors add up linearly; terms below the last place of
    the running sum are absorbed, all of them. The square-root growth of independent errors covers neither.
    """
    alike = np.count_nonzero(np.abs(np.diff(terms, axis=axis)) <= _EQUAL_TERMS * _without_last(terms, axis), axis=axis)
    sums = total.reshape(np.shape(alike))
    absorbed = np.sum(terms, axis=axis, where=terms < arithmetic.unit / 4 * np.expand_dims(sums, axis))
    # `unit` is SPREAD = 8 unit roundoffs: one of them per equal term. Absorbed terms count twice, as the running sum
    # that absorbs them is smaller than the total for half of the way.
    errors: Array = np.asarray(arithmetic.unit / 8 * alike * sums + 2 * absorbed)
    return errors.reshape(total.shape)


def _rounded_objects(arithmetic: MonteCarloArithmetic, array: Array) -> Array:
    """Perturb the object arrays that ``np.vectorize(math.erf)`` and similar produce internally."""
    try:
        values = array.astype(np.float64)
    except (TypeError, ValueError):
        return array
    arithmetic.perturb(values, arithmetic.function_unit * np.abs(values))
    return values.astype(object)


def growth(terms: float) -> float:
    """Return the error of a sum of ``terms`` numbers, in unit roundoffs of the sum of their magnitudes.

    Independent errors of a sequential sum grow like a random walk, with the square root of the number of terms
    (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019). A tree has smaller errors.
    """
    # A quarter of the square root, as `unit` has the factor 8 for small numbers of draws already.
    return 1.0 + float(np.sqrt(max(terms, 0.0))) / 4


@lru_cache(maxsize=1)
def _pool() -> npt.NDArray[np.float64]:
    random = np.random.default_rng(20260611)
    # Half as long again as the range of starts, so that most slices need no wrap-around.
    size = _POOL + (_POOL >> 1)
    # Magnitudes below one half are left out: an error near zero would test nothing.
    errors: npt.NDArray[np.float64] = random.uniform(0.5, 1.0, size) * random.choice((-1.0, 1.0), size)
    return errors


def _without_last(values: Array, axis: int) -> Array:
    """Return all but the last entry along an axis, aligned with the result of :func:`numpy.diff`."""
    rest: Array = np.moveaxis(np.moveaxis(values, axis, 0)[:-1], 0, axis)
    return rest
