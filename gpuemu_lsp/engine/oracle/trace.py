"""Traced evaluation of a reference: Monte Carlo arithmetic on NumPy arrays.

A correct kernel differs from the fp64 reference because each of its operations rounds. How much that changes a result
depends on the formula: ``1 + tanh(x)`` near -1 loses all digits, a sum of a thousand terms loses a little per term.
The effect is therefore measured on the reference itself. Its arrays are replaced by :class:`TracedArray`, whose
operations add random errors of the size that rounding in the kernel's arithmetic has, and overflow where that
arithmetic overflows. The change of the outputs estimates the error of a correct kernel.

The method is D. S. Parker's Monte Carlo Arithmetic (UCLA technical report CSD-970002, 1997); Verificarlo, Verrou and
CADNA apply it to compiled programs.

Values that leave NumPy arrays (``float(x[i])``, C extensions) are not perturbed. ``MonteCarloArithmetic.leaks`` counts
the conversions that can be observed, and the error budget is then larger.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from gpuemu_lsp.engine.fuzz.model import Array
from gpuemu_lsp.engine.oracle.rounding import MonteCarloArithmetic, UfuncCall, growth, rounded

_PRODUCTS = frozenset(["dot", "vdot", "inner", "outer", "tensordot", "einsum", "convolve", "correlate", "matmul"])
_EXPONENTIALS = frozenset(["exp", "exp2"])
_SUMS = frozenset(["nansum", "nanmean", "trapezoid", "trapz", "norm"])


class TracedArray(np.ndarray[Any, Any]):
    """An array whose operations round in the given arithmetic."""

    arithmetic: MonteCarloArithmetic | None
    magnitude: Array | None
    """Sum of the magnitudes that were subtracted to give each element, None if unknown; see :func:`magnitude_of`."""
    product: bool
    """True for products, and for elements of them; see :func:`is_product`."""
    noise: Array | None
    """Absolute difference of two computations of each element, None for none; see :func:`noise_of`."""
    counted: bool
    """True if conversion to a Python number counts as a leak. Scalar arguments are exact until they are used."""

    def __array_finalize__(self, origin: Any) -> None:
        # Called for every view and copy. The arithmetic is inherited; the magnitude belongs to one result only, and a
        # slice or reshape of it would need a different array.
        self.arithmetic = getattr(origin, "arithmetic", None)
        self.magnitude = None
        self.product = getattr(origin, "product", False)
        self.noise = None
        self.counted = True

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        arithmetic = arithmetic_of((*inputs, *kwargs.get("out", ())))
        out = kwargs.pop("out", None)
        repeats = ufunc.__name__ in _EXPONENTIALS
        operands = tuple(plain(value) if repeats else recomputed(value) for value in inputs)
        options = {name: plain(value) for name, value in kwargs.items()}
        # With `out=`, as in `x += y`, an operand may be the output: the perturbation needs its old value, so the result
        # is computed apart and copied. Under `where=` the elements that are left out must keep theirs.
        apart = out is not None and arithmetic is not None and "where" not in options
        apart = apart and all(given is not None for given in out)
        if out is not None and not apart:
            options["out"] = tuple(plain(value) for value in out)
        result = getattr(ufunc, method)(*operands, **options)
        if arithmetic is None or result is None or result is NotImplemented:
            return result
        products = tuple(plain(value) for value in inputs if getattr(value, "product", False))
        call = UfuncCall(ufunc.__name__, method, operands, options, getattr(inputs[0], "magnitude", None), products)
        magnitude = magnitude_of(ufunc.__name__, method, inputs)
        noise = noise_of(arithmetic, call, inputs, result)
        results = result if isinstance(result, tuple) else (result,)
        wrapped = []
        for position, value in enumerate(results):
            array = rounded(arithmetic, call, np.asarray(value))
            given = out[position] if out is not None and position < len(out) else None
            if given is not None and apart:
                np.copyto(plain(given), array, casting="same_kind")
            wrapped.append(given if given is not None else traced(array, arithmetic))
            if isinstance(wrapped[-1], TracedArray):
                wrapped[-1].magnitude = magnitude
                wrapped[-1].product = is_product(call)
                wrapped[-1].noise = noise
        return tuple(wrapped) if isinstance(result, tuple) else wrapped[0]

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        # Functions built from ufuncs round through __array_ufunc__. Only those that compute in C without ufuncs need
        # an error here; matmul is a ufunc.
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
            # Products: the same contraction of magnitudes (Higham, section 3.5). Other sums have no such formula; their
            # largest output stands for the magnitudes.
            if name in _PRODUCTS:
                bare = [abs(plain(v)) if isinstance(v, np.ndarray) else v for v in args]
                scale = np.abs(plain(function(*bare, **{k: plain(v) for k, v in kwargs.items()})))
            else:
                scale = np.max(np.abs(array), initial=0.0)
            arithmetic.perturb(array, arithmetic.unit * growth(terms) * scale)
        found = traced(array, arithmetic)
        found.product = name in _PRODUCTS
        return found

    def __getitem__(self, index: Any) -> Any:
        item = super().__getitem__(index)
        # Indexing a single element gives a NumPy scalar, whose operations would no longer be traced.
        if isinstance(item, np.floating):
            return traced(np.asarray(item), self.arithmetic)
        return item

    def cumsum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Sum with rounding; ``ndarray.cumsum`` does not call the ufunc."""
        source = self.ravel() if axis is None else self
        return np.add.accumulate(source, axis=axis or 0, dtype=dtype, out=out)

    def dot(self, *args: Any, **kwargs: Any) -> Any:
        """Multiply with rounding; ``ndarray.dot`` does not call the array function."""
        return np.dot(self, *args, **kwargs)

    def item(self, *args: Any) -> Any:
        """Convert to a Python number, counted as a leak."""
        self._leak()
        return super().item(*args)

    def tolist(self) -> Any:
        """Convert to Python numbers, counted as a leak."""
        self._leak()
        return super().tolist()

    def __float__(self) -> float:
        self._leak()
        return float(plain(self))

    def _leak(self) -> None:
        if self.arithmetic is not None and self.counted:
            self.arithmetic.leaks += 1


def traced(values: Any, arithmetic: MonteCarloArithmetic | None) -> Any:
    """Return a view of an array whose operations round; return any other value unchanged."""
    if arithmetic is None or not isinstance(values, np.ndarray):
        return values
    view = values.view(TracedArray)
    view.arithmetic = arithmetic
    return view


def traced_scalar(arithmetic: MonteCarloArithmetic, value: float) -> Any:
    """Return a scalar argument whose operations round: the kernel also computes ``1 - beta ** t`` in its arithmetic."""
    # `range(n)` or `if eps > 0` read the argument itself, which is exact. Results computed from it count as usual.
    scalar = traced(np.asarray(value), arithmetic)
    scalar.counted = False
    return scalar


def plain(value: Any) -> Any:
    """Return the plain array of a traced one, also inside a list or tuple; return any other value unchanged."""
    if isinstance(value, TracedArray):
        return value.view(np.ndarray)
    if isinstance(value, list | tuple) and any(isinstance(part, TracedArray) for part in value):
        return type(value)(plain(part) for part in value)
    return value


@contextlib.contextmanager
def traced_globals(function: Callable[..., Any], arithmetic: MonteCarloArithmetic | None) -> Iterator[None]:
    """Replace NumPy in the globals of the function's module by one whose new arrays are traced, for the duration.

    Without that ``np.asarray(x)`` would return a plain array, and ``np.arange(n)`` would never be traced.
    """
    # The module's own global and not `sys.modules["numpy"]`: libraries that the reference calls compute their exact
    # constants and tables with plain NumPy.
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


def traced_numpy(arithmetic: MonteCarloArithmetic) -> ModuleType:
    """Return NumPy as a module whose new arrays are traced."""
    return _TracedNumpy(arithmetic)


class _TracedNumpy(ModuleType):
    """NumPy module whose functions return traced arrays."""

    def __init__(self, arithmetic: MonteCarloArithmetic) -> None:
        super().__init__("numpy")
        self._arithmetic = arithmetic

    def __getattr__(self, name: str) -> Any:
        found = getattr(np, name)
        # Types are needed for isinstance, ufuncs trace themselves, and np.linalg works on what it is passed.
        if isinstance(found, type | np.ufunc | ModuleType) or not callable(found):
            return found
        if name in ("asarray", "array", "ascontiguousarray", "require"):
            found = _keeping_subclass(found)

        def made(*args: Any, **kwargs: Any) -> Any:
            result = traced(found(*args, **kwargs), self._arithmetic)
            # np.where and similar functions return elements of their arguments in a plain array.
            if isinstance(result, TracedArray) and any(getattr(value, "product", False) for value in args):
                result.product = True
            return result

        return made


def _keeping_subclass(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an array constructor so that it reads lists of traced scalars without counting leaks."""

    def made(*args: Any, **kwargs: Any) -> Any:
        return function(*(plain(value) for value in args), **kwargs)

    return made


def magnitude_of(name: str, method: str, inputs: tuple[Any, ...]) -> Array | None:
    """Return the magnitude of the values that cancelled in a ufunc call, None if unknown.

    It serves sums of squared differences. A variance may be computed as ``E[(x - m)**2]`` or as ``E[x**2] - m**2``, a
    distance by expanding its square. Both are correct, and the second has an error of unit roundoffs of ``x**2``, so
    the sum is perturbed by that much. The magnitude follows the difference through squaring and changes of sign.
    """
    if method != "__call__":
        return None
    # Subtraction of a scalar is left out: `x - 1` has no second formula with a larger error.
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


def is_product(call: UfuncCall) -> bool:
    """Return whether the result of a ufunc call is a product, or elements of one.

    ``fma`` does not round the product that it adds to. In ``exp(s - max(s))`` with ``s = scale * x`` a compiler may
    contract the subtraction, while the maximum was rounded: their difference at the maximum is then not zero, but the
    rounding error of the product. The subtraction of two equal numbers of the reference shows nothing of that.
    """
    if call.name in ("multiply", "divide", "true_divide", "matmul", "vecdot", "matvec", "vecmat"):
        return call.method == "__call__"
    return bool(call.products) and call.name in ("maximum", "minimum", "fmax", "fmin", "negative", "absolute", "clip")


def noise_of(arithmetic: MonteCarloArithmetic, call: UfuncCall, inputs: tuple[Any, ...], result: Any) -> Array | None:
    """Return by how much two computations of a result may differ, None for those that do not.

    A compiler that computes ``p = exp(s - m)`` twice instead of moving it between threads, as Triton does, may contract
    the subtraction in one of them only. ``p / sum(p)`` of a single term is then not exactly one.
    """
    if call.method != "__call__":
        return None
    if call.products and call.name in ("add", "subtract"):
        return np.asarray(arithmetic.unit * sum(np.abs(product) for product in call.products))
    own: Array | None = getattr(inputs[0], "noise", None)
    if own is None or call.name not in _EXPONENTIALS:
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(np.abs(result) * own)


def recomputed(value: Any) -> Any:
    """Return the plain array of an operand as another computation of it gives it."""
    noise, arithmetic = getattr(value, "noise", None), getattr(value, "arithmetic", None)
    if noise is None or arithmetic is None or value.dtype.kind != "f":
        return plain(value)
    other = np.array(plain(value))
    arithmetic.perturb(other, np.broadcast_to(noise, other.shape))
    return other


def _terms(magnitudes: list[Array], array: Array) -> float:
    """Estimate the number of terms summed per element of a product or sum."""
    # A contraction over n of an (m, n) and an (n, p) array to (m, p): sqrt(mn * np / mp) = n.
    if len(magnitudes) >= 2:
        product = float(magnitudes[0].size) * float(magnitudes[1].size)
        return max(1.0, float(np.sqrt(product / max(1, array.size))))
    return float(max((value.size for value in magnitudes), default=1))


def _spectrum(name: str, array: Array, args: Any, kwargs: Any) -> tuple[float, Array]:
    """Return the length of a Fourier transform and the norm of its result, per transform.

    The error bound of the FFT is normwise (Higham, section 24.1): every output has an error relative to the norm,
    also where the output itself is nearly zero.
    """
    # fft2 and fftn transform all axes they are given at once.
    if name.endswith(("2", "n")):
        return float(array.size), np.sqrt(np.mean(np.abs(array) ** 2))
    axis = kwargs.get("axis", args[2] if len(args) > 2 else -1)
    return float(array.shape[axis]), np.sqrt(np.mean(np.abs(array) ** 2, axis=axis, keepdims=True))


def _arrays(args: Any) -> list[Array]:
    return [value for value in args if isinstance(value, np.ndarray)]


def arithmetic_of(values: Any) -> MonteCarloArithmetic | None:
    """Return the arithmetic of the first traced array among some values, None without one."""
    for value in values:
        if isinstance(value, TracedArray) and value.arithmetic is not None:
            return value.arithmetic
    return None
