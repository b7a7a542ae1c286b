"""Run a reference as if its every operation were rounded: Monte Carlo arithmetic on NumPy arrays.

A correct kernel differs from the fp64 reference because each of its operations rounds. How much that may change a
result depends on the formula: ``1 + tanh(x)`` near -1 loses everything, a sum of a thousand terms loses a little per
term. So the budget is measured on the reference itself. Its arrays are replaced by :class:`TracedArray` ones whose
operations disturb their results by random errors of the size that rounding in the kernel's arithmetic has, and that
overflow where it would. How far the outputs move says what rounding explains. (Parker, Monte Carlo Arithmetic, 1997;
Verrou and CADNA do it to binaries.)

Values that leave NumPy arrays (``float(x[i])``, C extensions) are simply not disturbed; ``Arithmetic.leaks`` counts
those that can be seen to leave, and the caller is then more generous.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from gpuemu_lsp.engine.fuzz.model import Array
from gpuemu_lsp.engine.oracle.rounding import MonteCarloArithmetic, growth, rounded

_PRODUCTS = frozenset(["dot", "vdot", "inner", "outer", "tensordot", "einsum", "convolve", "correlate", "matmul"])
_SUMS = frozenset(["nansum", "nanmean", "trapezoid", "trapz", "norm"])


class TracedArray(np.ndarray[Any, Any]):
    """An array whose operations round."""

    arithmetic: MonteCarloArithmetic | None
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
            array = rounded(
                arithmetic, ufunc.__name__, method, operands, getattr(inputs[0], "magnitude", None), options, array
            )
            given = out[position] if out is not None and position < len(out) else None
            wrapped.append(given if given is not None else traced(array, arithmetic))
            if isinstance(wrapped[-1], TracedArray):
                wrapped[-1].magnitude = magnitude
        return tuple(wrapped) if isinstance(result, tuple) else wrapped[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        result = super().__array_function__(function, types, args, kwargs)
        name = getattr(function, "__name__", "")
        arithmetic = self.arithmetic
        transform = getattr(function, "__module__", "").startswith("numpy.fft")
        if arithmetic is None or not (transform or name in _PRODUCTS or name in _SUMS) or name == "matmul":
            return result
        array = np.array(plain(result), dtype=None, copy=True)
        if transform and array.dtype.kind in "fc":
            size, norm = _spectrum(name, array, args, kwargs)
            arithmetic.perturb(array, arithmetic.function_unit * growth(size) * norm)
        elif array.dtype.kind in "fc":
            magnitudes = [abs(plain(value)) for value in _arrays(args)]
            terms = _terms(magnitudes, array)
            if name in _PRODUCTS:
                bare = [abs(plain(v)) if isinstance(v, np.ndarray) else v for v in args]
                scale = np.abs(plain(function(*bare, **{k: plain(v) for k, v in kwargs.items()})))
            else:
                scale = np.max(np.abs(array), initial=0.0)
            arithmetic.perturb(array, arithmetic.unit * growth(terms) * scale)
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


def traced(values: Any, arithmetic: MonteCarloArithmetic | None) -> Any:
    """Return a view whose operations round; anything but an array stays what it is."""
    if arithmetic is None or not isinstance(values, np.ndarray):
        return values
    view = values.view(TracedArray)
    view.arithmetic = arithmetic
    return view


def traced_scalar(arithmetic: MonteCarloArithmetic, value: float) -> Any:
    """Return a scalar argument whose operations round: ``1 - beta ** t`` is computed in the kernel's arithmetic too."""
    scalar = traced(np.asarray(value), arithmetic)
    scalar.counted = False
    return scalar


def plain(value: Any) -> Any:
    """Return the ordinary array behind a traced one; sequences too. Anything else stays what it is."""
    if isinstance(value, TracedArray):
        return value.view(np.ndarray)
    if isinstance(value, list | tuple) and any(isinstance(part, TracedArray) for part in value):
        return type(value)(plain(part) for part in value)
    return value


@contextlib.contextmanager
def traced_globals(function: Callable[..., Any], arithmetic: MonteCarloArithmetic | None) -> Iterator[None]:
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

    def __init__(self, arithmetic: MonteCarloArithmetic) -> None:
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


def _terms(magnitudes: list[Array], array: Array) -> float:
    if len(magnitudes) >= 2:
        product = float(magnitudes[0].size) * float(magnitudes[1].size)
        return max(1.0, float(np.sqrt(product / max(1, array.size))))
    return float(max((value.size for value in magnitudes), default=1))


def _spectrum(name: str, array: Array, args: Any, kwargs: Any) -> tuple[float, Array]:
    """Return a Fourier transform's length and, by Parseval's theorem, the norm of what each element is a sum of.

    Every output errs by roundoffs of that, also where it is nearly zero (Higham, Accuracy and Stability, 24.1).
    """
    if name.endswith(("2", "n")):
        return float(array.size), np.sqrt(np.mean(np.abs(array) ** 2))
    axis = kwargs.get("axis", args[2] if len(args) > 2 else -1)
    return float(array.shape[axis]), np.sqrt(np.mean(np.abs(array) ** 2, axis=axis, keepdims=True))


def _arrays(args: Any) -> list[Array]:
    return [value for value in args if isinstance(value, np.ndarray)]


def _arithmetic_of(values: Any) -> MonteCarloArithmetic | None:
    for value in values:
        if isinstance(value, TracedArray) and value.arithmetic is not None:
            return value.arithmetic
    return None
