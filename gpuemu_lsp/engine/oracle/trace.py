"""Run a reference as if its every operation were rounded: Monte Carlo arithmetic on NumPy arrays.

A correct kernel differs from the fp64 reference because each of its operations rounds. How much that may change a
result depends on the formula: ``1 + tanh(x)`` near -1 loses everything, a sum of a thousand terms loses a little per
term. So the budget is measured on the reference itself. Its arrays are replaced by :class:`Traced` ones whose
operations disturb their results by random errors of the size that rounding in the kernel's arithmetic has, and that
overflow where it would. How far the outputs move says what rounding explains. (Parker, Monte Carlo Arithmetic, 1997;
Verrou and CADNA do it to binaries.)

Values that leave NumPy arrays (``float(x[i])``, C extensions) are simply not disturbed; ``Arithmetic.leaks`` counts
those that can be seen to leave, and the caller is then more generous.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import ModuleType
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

_PRODUCTS = frozenset(["dot", "vdot", "inner", "outer", "tensordot", "einsum", "convolve", "correlate", "matmul"])
_SUMS = frozenset(["nansum", "nanmean", "trapezoid", "trapz", "norm"])
_POOL = 1 << 20
_ALIKE = 1e-4
"""Terms this close, relatively, count as equal: disturbed ones no longer are."""


class ExhaustedError(BaseException):
    """A traced run takes too long: a loop that ends on convergence need not end with errors in it.

    Not an Exception, so that the reference's own handlers do not swallow it.
    """


class Arithmetic:
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
        self.leaks = 0
        self.ends = float("inf")
        """When to give up, on the clock of :func:`time.monotonic`."""
        self._random = np.random.default_rng(seed)

    def errors(self, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """Return errors between half and one, of either sign; ``sign`` is for the caller to apply."""
        size = int(np.prod(shape, dtype=np.int64))
        start = int(self._random.integers(_POOL))
        pool = _pool()
        if size <= pool.size - start:
            return pool[start : start + size].reshape(shape)
        return np.resize(pool, size + start)[start:].reshape(shape)

    def disturb(self, values: Array, scale: Any) -> None:
        """Add errors of the absolute size ``scale`` in place, then apply the format's range."""
        self.operations += 1
        if time.monotonic() > self.ends:
            raise ExhaustedError("the traced run does not end")
        errors = np.asarray(self.errors(values.shape) * scale)
        errors[~np.isfinite(errors)] = 0.0
        values += self.sign * errors
        self.clip(values)

    def clip(self, values: Array) -> None:
        """Overflow and underflow in place."""
        magnitude = np.abs(values)
        values[magnitude > self.form.largest] *= np.inf
        values[magnitude < self.form.smallest] = 0.0


class Traced(np.ndarray[Any, Any]):
    """An array whose operations round."""

    arithmetic: Arithmetic | None
    magnitude: Array | None
    """The size of what was subtracted to make this array, where that is known; see :func:`_magnitude`."""
    counted: bool
    """Whether leaving NumPy as a Python number is a leak; a scalar argument's own value may be read freely."""

    def __array_finalize__(self, origin: Any) -> None:
        self.arithmetic = getattr(origin, "arithmetic", None)
        self.magnitude = None
        self.counted = True

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        arithmetic = _arithmetic_of((*inputs, *kwargs.get("out", ())))
        out = kwargs.pop("out", None)
        operands = tuple(plain(value) for value in inputs)
        options = {name: plain(value) for name, value in kwargs.items()}
        if out is not None:
            options["out"] = tuple(plain(value) for value in out)
        result = getattr(ufunc, method)(*operands, **options)
        if arithmetic is None or result is None or result is NotImplemented:
            return result
        results = result if isinstance(result, tuple) else (result,)
        wrapped = []
        for position, value in enumerate(results):
            array = np.asarray(value)
            magnitude = _magnitude(ufunc.__name__, method, inputs)
            array = _rounded(arithmetic, ufunc.__name__, method, inputs, options, array)
            given = out[position] if out is not None and position < len(out) else None
            wrapped.append(given if given is not None else traced(array, arithmetic))
            if isinstance(wrapped[-1], Traced):
                wrapped[-1].magnitude = magnitude
        return tuple(wrapped) if isinstance(result, tuple) else wrapped[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().__array_function__(function, types, args, kwargs)
        name = getattr(function, "__name__", "")
        arithmetic = self.arithmetic
        if arithmetic is None or not (name in _PRODUCTS or name in _SUMS) or name == "matmul":
            return result
        array = np.array(plain(result), dtype=None, copy=True)
        if array.dtype.kind == "f":
            magnitudes = [abs(plain(value)) for value in _arrays(args)]
            terms = _terms(magnitudes, array)
            if name in _PRODUCTS:
                bare = [abs(plain(v)) if isinstance(v, np.ndarray) else v for v in args]
                scale = np.abs(plain(function(*bare, **{k: plain(v) for k, v in kwargs.items()})))
            else:
                scale = np.max(np.abs(array), initial=0.0)
            arithmetic.disturb(array, arithmetic.unit * _growth(terms) * scale)
        return traced(array, arithmetic)

    def __getitem__(self, index: Any) -> Any:
        item = super().__getitem__(index)
        if isinstance(item, np.floating):
            return traced(np.asarray(item), self.arithmetic)
        return item

    def cumsum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Sum with rounding: the method of a plain array would bypass it."""
        source = self.ravel() if axis is None else self
        return np.add.accumulate(source, axis=axis or 0, dtype=dtype, out=out)

    def dot(self, *args: Any, **kwargs: Any) -> Any:
        """Multiply with rounding."""
        return np.dot(self, *args, **kwargs)

    def item(self, *args: Any) -> Any:
        """Leave the array, which is counted."""
        self._leak()
        return super().item(*args)

    def tolist(self) -> Any:
        """Leave the array, which is counted."""
        self._leak()
        return super().tolist()

    def __float__(self) -> float:
        self._leak()
        return float(plain(self))

    def _leak(self) -> None:
        if self.arithmetic is not None and self.counted:
            self.arithmetic.leaks += 1


def traced(values: Any, arithmetic: Arithmetic | None) -> Any:
    """Return a view whose operations round; anything but an array stays what it is."""
    if arithmetic is None or not isinstance(values, np.ndarray):
        return values
    view = values.view(Traced)
    view.arithmetic = arithmetic
    return view


def traced_scalar(arithmetic: Arithmetic, value: float) -> Any:
    """Return a scalar argument whose operations round: ``1 - beta ** t`` is computed in the kernel's arithmetic too."""
    scalar = traced(np.asarray(value), arithmetic)
    scalar.counted = False
    return scalar


def plain(value: Any) -> Any:
    """Return the ordinary array behind a traced one; sequences too. Anything else stays what it is."""
    if isinstance(value, Traced):
        return value.view(np.ndarray)
    if isinstance(value, list | tuple) and any(isinstance(part, Traced) for part in value):
        return type(value)(plain(part) for part in value)
    return value


@contextlib.contextmanager
def traced_globals(function: Callable[..., Any], arithmetic: Arithmetic | None) -> Iterator[None]:
    """Let ``np`` mean a NumPy whose new arrays are traced, in the function's own module, for a while.

    ``np.asarray(x)`` would otherwise strip the tracing, and ``np.arange(n)`` never have it.
    """
    namespace = getattr(function, "__globals__", None)
    if arithmetic is None or namespace is None:
        yield
        return
    names = [name for name, value in namespace.items() if value is np]
    namespace.update(dict.fromkeys(names, _TracedNumpy(arithmetic)))
    try:
        yield
    finally:
        namespace.update(dict.fromkeys(names, np))


class _TracedNumpy(ModuleType):
    """NumPy, but every array its functions make is traced."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        super().__init__("numpy")
        self._arithmetic = arithmetic

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        if isinstance(found, type | np.ufunc | ModuleType) or not callable(found):
            return found
        if name in ("asarray", "array", "ascontiguousarray", "require"):
            found = _keeping_subclass(found)

        def made(*args: Any, **kwargs: Any) -> Any:
            return traced(found(*args, **kwargs), self._arithmetic)

        return made


def _keeping_subclass(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an array constructor: lists of traced scalars are read as plain numbers, which is no leak."""

    def made(*args: Any, **kwargs: Any) -> Any:
        return function(*(plain(value) for value in args), **kwargs)

    return made


def _magnitude(name: str, method: str, inputs: tuple[Any, ...]) -> Array | None:
    """Return how large the parts of a result were that cancelled in a subtraction, as far as a sum of squares needs it.

    The variance may be computed as ``E[(x - m)**2]`` or as ``E[x**2] - m**2``, a distance by expanding its square. Both
    are right, and the second errs by roundoffs of ``x**2``: that much a sum of squared differences is disturbed.
    """
    if method != "__call__":
        return None
    if name == "subtract" and all(isinstance(value, np.ndarray) and value.ndim for value in inputs):
        sizes = np.abs(plain(inputs[0])) + np.abs(plain(inputs[1]))
        return np.asarray(sizes) if sizes.dtype.kind == "f" else None
    own: Array | None = getattr(inputs[0], "magnitude", None)
    if own is None:
        return None
    squared = name == "power" and np.ndim(inputs[1]) == 0 and inputs[1] == 2
    if squared or name == "square" or (name == "multiply" and inputs[1] is inputs[0]):
        return own * own
    return own if name in ("absolute", "fabs", "negative") else None


def _rounded(
    arithmetic: Arithmetic, name: str, method: str, inputs: tuple[Any, ...], options: dict[str, Any], array: Array
) -> Array:
    """Disturb the result of one ufunc call, in place where it is an array of its own."""
    operands = tuple(plain(value) for value in inputs)
    if array.dtype == object:
        return _rounded_objects(arithmetic, array)
    if array.dtype.kind != "f" or name in _EXACT:
        return array
    if not array.flags.writeable or array.base is not None:
        array = np.array(array)
    if name in ("matmul", "vecdot", "matvec", "vecmat"):
        left, right = (np.abs(np.asarray(value)) for value in operands[:2])
        scale = np.asarray(getattr(np, name)(left, right, **{k: v for k, v in options.items() if k != "out"}))
        arithmetic.disturb(array, arithmetic.unit * _growth(left.shape[-1] if left.ndim else 1) * scale)
    elif method in ("reduce", "accumulate", "reduceat"):
        terms = getattr(inputs[0], "magnitude", None)
        operands = (operands[0] if terms is None else terms, *operands[1:])
        _disturb_reduction(arithmetic, name, method, operands, options, array)
    elif name in _ROUNDED_ONCE:
        arithmetic.disturb(array, arithmetic.unit * np.abs(array))
    else:
        arithmetic.disturb(array, arithmetic.function_unit * np.abs(array))
    return array


def _disturb_reduction(
    arithmetic: Arithmetic, name: str, method: str, operands: tuple[Any, ...], options: dict[str, Any], array: Array
) -> None:
    source = np.asarray(operands[0])
    terms = max(source.shape, default=1) if method == "accumulate" else source.size / max(1, array.size)
    if name != "add":
        arithmetic.disturb(array, arithmetic.unit * _growth(terms) * np.abs(array))
        return
    others = {key: value for key, value in options.items() if key not in ("out", "initial")}
    scale = np.asarray(getattr(np.add, method)(np.abs(source), *operands[1:], **others))
    errors = arithmetic.unit * _growth(terms) * scale
    axis = options.get("axis", operands[1] if len(operands) > 1 else 0)
    if method == "reduce" and isinstance(axis, int) and source.ndim and source.shape[axis] > 1:
        errors = errors + _systematic(arithmetic, np.abs(source), axis, scale)
    arithmetic.disturb(array, errors)


def _systematic(arithmetic: Arithmetic, terms: Array, axis: int, total: Array) -> Array:
    """Return the errors of a sequential sum along ``axis`` that do not cancel.

    Equal terms round the same way each time, and terms below the running sum's last place are lost, each of them.
    """
    alike = np.count_nonzero(np.abs(np.diff(terms, axis=axis)) <= _ALIKE * _without_last(terms, axis), axis=axis)
    sums = total.reshape(np.shape(alike))
    lost = np.sum(terms, axis=axis, where=terms < arithmetic.unit / 4 * np.expand_dims(sums, axis))
    errors: Array = np.asarray(arithmetic.unit / 8 * alike * sums + 2 * lost)
    return errors.reshape(total.shape)


def _rounded_objects(arithmetic: Arithmetic, array: Array) -> Array:
    """Disturb what ``np.vectorize(math.erf)`` and its like produce on their way."""
    try:
        values = array.astype(np.float64)
    except (TypeError, ValueError):
        return array
    arithmetic.disturb(values, arithmetic.function_unit * np.abs(values))
    return values.astype(object)


def _growth(terms: float) -> float:
    """How the rounding errors of a sum of ``terms`` numbers grow, in unit roundoffs of the sum of magnitudes.

    The errors of a sequential sum are independent, so they add up like a random walk; a tree does better.
    """
    return 1.0 + float(np.sqrt(max(terms, 0.0))) / 4


def _terms(magnitudes: list[Array], array: Array) -> float:
    if len(magnitudes) >= 2:
        product = float(magnitudes[0].size) * float(magnitudes[1].size)
        return max(1.0, float(np.sqrt(product / max(1, array.size))))
    return float(max((value.size for value in magnitudes), default=1))


def _arrays(args: Any) -> list[Array]:
    return [value for value in args if isinstance(value, np.ndarray)]


def _arithmetic_of(values: Any) -> Arithmetic | None:
    for value in values:
        if isinstance(value, Traced) and value.arithmetic is not None:
            return value.arithmetic
    return None


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
