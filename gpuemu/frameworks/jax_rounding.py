"""Monte Carlo arithmetic on the primitives of JAX, as :mod:`gpuemu_lsp.engine.oracle.torch_reference` has it on ATen.

A function is traced to a jaxpr, whose equations are evaluated one after the other; the result of one that rounds is
perturbed as that of the same NumPy function. Control flow (``scan``, ``while``, ``cond``) is one equation, which hides
the rounding inside: it counts as a leak, after which the error budget is larger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gpuemu.verifier.values import Array
from gpuemu_lsp.engine.oracle.rounding import MonteCarloArithmetic, growth
from gpuemu_lsp.engine.oracle.trace import traced

_EXACT = frozenset(
    (
        *("broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims", "slice", "dynamic_slice", "gather"),
        *("dynamic_update_slice", "concatenate", "pad", "rev", "select_n", "max", "min", "abs", "neg", "sign", "floor"),
        *("ceil", "round", "convert_element_type", "copy", "copy_p", "iota", "reduce_max", "reduce_min", "argmax"),
        *("argmin", "eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "xor", "stop_gradient", "clamp", "split"),
        *("is_finite", "sort", "real", "imag", "device_put", "cummax", "cummin", "tile", "scatter", "top_k", "rem"),
        *("reduce_and", "reduce_or", "bitcast_convert_type", "select_and_gather_add", "nextafter"),
    )
)
"""Primitives whose result is made of their operands, or representable."""
_ROUNDED_ONCE = frozenset({"mul", "div", "sqrt", "square"})
_SUMS = frozenset({"add", "sub", "add_any", "scatter-add", "scatter_add"})
_FUNCTIONS = frozenset(
    (
        *("exp", "exp2", "expm1", "log", "log1p", "tanh", "logistic", "erf", "erfc", "erf_inv", "pow", "integer_pow"),
        *("rsqrt", "cbrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh"),
        *("atanh", "lgamma", "digamma"),
    )
)
_REDUCTIONS = frozenset({"reduce_sum", "dot_general", "conv_general_dilated", "cumsum", "reduce_window_sum"})
"""Sums of products or terms, whose error is relative to the same sum of magnitudes."""
_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
"""Parameters of primitives that call a jaxpr once: ``jit``, and functions with derivatives of their own."""
_NARROW = {"float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}
_LOOPS = frozenset({"scan", "while", "cond"})


def rounded_results(
    function: Callable[[Mapping[str, Any]], Sequence[Any]],
    given: Mapping[str, Array],
    arithmetic: MonteCarloArithmetic,
) -> tuple[Any, ...]:
    """Return the results of a function of arrays, with rounding errors in every operation, as traced arrays."""
    values = {name: jnp.asarray(one) for name, one in given.items()}
    closed = jax.make_jaxpr(lambda inputs: tuple(function(inputs)))(values)
    flat = jax.tree_util.tree_leaves(values)
    results = _evaluated(closed.jaxpr, closed.consts, flat, arithmetic)
    return tuple(traced(np.array(one), arithmetic) for one in results)


def arithmetic_of(
    function: Callable[[Mapping[str, Any]], Sequence[Any]], given: Mapping[str, Any]
) -> tuple[frozenset[str], bool]:
    """Return the narrow formats in which a function computes, and whether it has matrix products in fp32."""
    closed = jax.make_jaxpr(lambda inputs: tuple(function(inputs)))(dict(given))
    narrow, products = set[str](), False
    for equation in _equations(closed.jaxpr):
        name = equation.primitive.name
        dtypes = {str(one.aval.dtype) for one in equation.outvars if hasattr(one.aval, "dtype")}
        if name not in _EXACT:
            narrow |= {_NARROW[dtype] for dtype in dtypes if dtype in _NARROW}
        products = products or (name in ("dot_general", "conv_general_dilated") and "float32" in dtypes)
    return frozenset(narrow), products


def _equations(jaxpr: Any) -> Iterator[Any]:
    """Yield the equations of a jaxpr and of those that it calls."""
    for equation in jaxpr.eqns:
        inner = [
            getattr(one, "jaxpr", one)
            for value in equation.params.values()
            for one in (value if isinstance(value, tuple | list) else (value,))
            if hasattr(getattr(one, "jaxpr", one), "eqns")
        ]
        if not inner:
            yield equation
        for one in inner:
            yield from _equations(one)


def _evaluated(jaxpr: Any, consts: Sequence[Any], args: Sequence[Any], arithmetic: MonteCarloArithmetic) -> list[Any]:
    known: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))
    for equation in jaxpr.eqns:
        # A literal has its value, and is not hashable.
        operands = [one.val if hasattr(one, "val") else known[one] for one in equation.invars]
        for variable, value in zip(equation.outvars, _results(equation, operands, arithmetic), strict=True):
            known[variable] = value
    return [one.val if hasattr(one, "val") else known[one] for one in jaxpr.outvars]


def _results(equation: Any, operands: list[Any], arithmetic: MonteCarloArithmetic) -> list[Any]:
    name = equation.primitive.name
    inner = next((equation.params[key] for key in _CALLS if key in equation.params), None)
    if inner is not None and name not in _LOOPS:
        jaxpr, consts = (inner.jaxpr, inner.consts) if hasattr(inner, "consts") else (inner, ())
        return _evaluated(jaxpr, consts, operands, arithmetic)
    results = _bound(equation, operands)
    if name in _EXACT:
        return results
    return [_perturbed(equation, operands, one, arithmetic) for one in results]


def _bound(equation: Any, operands: Sequence[Any]) -> list[Any]:
    functions, parameters = equation.primitive.get_bind_params(equation.params)
    result = equation.primitive.bind(*functions, *operands, **parameters)
    return list(result) if equation.primitive.multiple_results else [result]


def _perturbed(equation: Any, operands: Sequence[Any], result: Any, arithmetic: MonteCarloArithmetic) -> Any:
    if not jnp.issubdtype(result.dtype, jnp.floating):
        return result
    values = np.array(result, np.float64)
    name, size = equation.primitive.name, np.abs(values)
    if name in _SUMS:
        # An eighth: of the eight unit roundoffs of a perturbation this leaves the one that a product loses without fma.
        terms = [np.abs(np.asarray(one)) for one in operands if np.shape(one) == values.shape]
        arithmetic.perturb(values, arithmetic.unit * (size + sum(terms) / 8))
    elif name in _REDUCTIONS:
        (sums,) = _bound(equation, [abs(one) for one in operands])
        count = max(_terms(equation, operands, values.size), 1)
        arithmetic.perturb(values, arithmetic.unit * growth(count) * np.asarray(sums))
    elif name in _ROUNDED_ONCE:
        arithmetic.perturb(values, arithmetic.unit * size)
    else:
        arithmetic.leaks += name not in _FUNCTIONS
        arithmetic.perturb(values, arithmetic.function_unit * size)
    return jnp.asarray(values).astype(result.dtype)


def _terms(equation: Any, operands: Sequence[Any], results: int) -> int:
    """Return the number of terms of each sum."""
    name, first = equation.primitive.name, operands[0]
    if name == "dot_general":
        ((contracted, _), _) = equation.params["dimension_numbers"]
        return int(np.prod([first.shape[axis] for axis in contracted], dtype=np.int64))
    if name == "conv_general_dilated":
        kernel = operands[1].shape
        outputs = int(kernel[equation.params["dimension_numbers"].rhs_spec[0]])
        return int(np.prod(kernel, dtype=np.int64)) // max(outputs, 1)
    if name == "cumsum":
        return int(first.shape[equation.params["axis"]])
    if name == "reduce_window_sum":
        return int(np.prod(equation.params["window_dimensions"], dtype=np.int64))
    return int(first.size) // max(results, 1)
