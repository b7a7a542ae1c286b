"""Arguments of a reference: the kernel's exact input values, widened, under every name its author may use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from gpuemu_lsp.engine.fuzz.dtypes import is_float
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import evaluate
from gpuemu_lsp.engine.project.model import ConstexprValue, PythonValue

Wrap: TypeAlias = Callable[[float], Any]

_INDEX = re.compile(r"\[(\d+)\]")
_NUMBERED = re.compile(r"input_(\d+)$")


class ReferenceInputs(dict[str, Any]):
    """The ``inputs`` mapping of a reference.

    Values are found by their ``as`` or parameter name, upper and lower case alike, and tensors also as ``input_0``,
    ``input_1``, ...; a kernel's only tensor is found under any name. Any other key raises KeyError with the known
    names: a guess could compare the kernel with another function.
    """

    def __init__(self, values: Mapping[str, Any], aliases: Mapping[str, str], tensors: tuple[str, ...]) -> None:
        super().__init__(values)
        self._aliases = dict(aliases)
        self._tensors = tensors

    def __missing__(self, key: str) -> Any:
        found = self._find(key) if isinstance(key, str) else None
        # A name that two structs have is ambiguous: the only tensor would be a guess among them.
        is_field = any(other.endswith(f".{key}") for other in self)
        if found is None and isinstance(key, str) and len(self._tensors) == 1 and not is_field:
            found = self._tensors[0]
        if found is None:
            raise KeyError(f"{key!r} is not an input of this kernel; its inputs are {', '.join(self)}")
        return dict.__getitem__(self, found)

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or (isinstance(key, str) and self._find(key) is not None)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value by any of its names, else ``default``.

        Unlike indexing, a kernel's only tensor is not returned for an unknown name: ``get`` asks whether one exists.
        """
        found = key if dict.__contains__(self, key) or not isinstance(key, str) else self._find(key)
        return default if found is None else dict.__getitem__(self, found)

    def _find(self, key: str) -> str | None:
        alias = self._aliases.get(key)
        if alias is not None:
            return alias
        # Two parameters `a` and `A`: neither is meant by the other's name.
        same: set[str] = {name for name in (*self, *self._aliases) if name.lower() == key.lower()}
        if len(same) == 1:
            name = same.pop()
            return self._aliases.get(name, name)
        numbered = _NUMBERED.match(key)
        if numbered and int(numbered[1]) < len(self._tensors):
            return self._tensors[int(numbered[1])]
        return None


def input_tensors(plan: Plan) -> tuple[TensorArg, ...]:
    """Return the tensors a kernel reads, ``in`` and ``inout``, in parameter order."""
    return tuple(arg for arg in plan.args if isinstance(arg, TensorArg) and arg.direction != "out")


def output_tensors(plan: Plan) -> tuple[TensorArg, ...]:
    """Return the tensors a kernel writes, ``out`` and ``inout``, in parameter order."""
    return tuple(arg for arg in plan.args if isinstance(arg, TensorArg) and arg.direction != "in")


def compared_tensors(plan: Plan) -> tuple[TensorArg, ...]:
    """Return the outputs that are compared with the reference, in parameter order."""
    return tuple(arg for arg in output_tensors(plan) if arg.compare != "none")


def widened(values: Array, dtype: str) -> Array:
    """Return a copy of ``values``, of any shape, in the dtype that the reference computes in.

    Floats become fp64, exactly. Integers below 32 bits become int64, because C promotes them to ``int`` before it
    computes and NumPy would wrap; wider integers and bools keep their dtype.
    """
    if is_float(dtype):
        return values.astype(np.float64)
    if dtype in ("int8", "uint8", "int16", "uint16"):
        return values.astype(np.int64)
    return values.copy()


def build(plan: Plan, case: Case, tensors: Mapping[str, Array], wrap: Wrap = float) -> ReferenceInputs:
    """Build the mapping for one call from widened arrays by parameter name.

    ``wrap`` converts float scalars; a traced run passes :func:`~gpuemu_lsp.engine.oracle.trace.traced_scalar`.
    """
    values: dict[str, Any] = {}
    aliases: dict[str, str] = {}
    names: list[str] = []
    for arg in plan.args:
        if isinstance(arg, ScalarArg):
            values[arg.key] = scalar_value(arg, case, wrap)
        # A pure output has no value yet. Passing one would let a reference return its own argument.
        elif arg.direction == "out":
            continue
        else:
            values[arg.key] = tensors[arg.param]
            names.append(arg.key)
        aliases[arg.param] = arg.key
    # A kernel indexes an array in a struct, and so does its reference, although each element is an argument.
    arrays = _member_arrays(plan, case, wrap)
    values |= arrays
    aliases |= _field_names([*(arg.key for arg in plan.args), *arrays])
    return ReferenceInputs(values, {k: v for k, v in aliases.items() if k not in values}, tuple(names))


def _member_arrays(plan: Plan, case: Case, wrap: Wrap) -> dict[str, Any]:
    """Return the arrays of scalars in structs, ``p.w`` for ``p.w[0]``, ``p.w[1]``, ..., in the shape of C."""
    elements: dict[str, list[tuple[tuple[int, ...], Any]]] = {}
    for arg in plan.args:
        if isinstance(arg, ScalarArg) and arg.param.endswith("]"):
            index = tuple(int(at) for at in _INDEX.findall(arg.param))
            elements.setdefault(_INDEX.sub("", arg.param), []).append((index, scalar_value(arg, case, wrap)))
    arrays: dict[str, Any] = {}
    for name, found in elements.items():
        shape = [1 + max(index[axis] for index, _ in found) for axis in range(len(found[0][0]))]
        arrays[name] = np.array([value for _, value in found]).reshape(shape)
    return arrays


def _field_names(keys: Iterable[str]) -> dict[str, str]:
    """Return the key of a struct's field by its own name: ``x`` for ``p.x``, also next to ``p.v.x``, not to ``q.x``."""
    found: dict[str, list[str]] = {}
    for key in keys:
        found.setdefault(key.rpartition(".")[2], []).append(key)
    chosen: dict[str, str] = {}
    for name, same in found.items():
        outermost = min(key.count(".") for key in same)
        first = [key for key in same if key.count(".") == outermost]
        if len(first) == 1 and outermost:
            chosen[name] = first[0]
    return chosen


def keywords(plan: Plan, case: Case, accepted: Iterable[str], everything: bool, wrap: Wrap = float) -> dict[str, Any]:
    """Return the keyword arguments of a call.

    They are the scalars, dims, constexprs and keyword arguments of an op named in ``accepted``, and with ``everything``
    (``**kwargs``) all but the dims.
    """
    named = set(accepted)
    own = [(arg, scalar_value(arg, case, wrap)) for arg in plan.args if isinstance(arg, ScalarArg)]
    scalars = {arg.key: value for arg, value in own}
    by_param = {arg.param: value for arg, value in own}
    chosen = dict(scalars) if everything else {}
    # Later sources win: a scalar renamed with `as` over its parameter name, and both over a dim of the same name.
    by_field = {name: scalars[key] for name, key in _field_names(scalars).items()}
    choices = plan.triton.choices if plan.triton is not None else ()
    texts = {choice.param: _python_value(choice.value(case.dims), case) for choice in choices}
    texts.update(plan.kwargs)
    chosen.update(texts if everything else {})
    for source in (case.dims, by_field, by_param, scalars, texts):
        chosen.update({name: value for name, value in source.items() if name in named})
    return chosen


def _python_value(value: ConstexprValue, case: Case) -> Any:
    """Return a compile-time value of a Triton kernel: a number, a string (``float16`` for ``tl.float16``), or None."""
    if isinstance(value, PythonValue):
        return None if value.text == "None" else value.text.strip("'").removeprefix("tl.")
    return value if isinstance(value, bool | float) else evaluate(value, case.dims)


def scalar_value(arg: ScalarArg, case: Case, wrap: Wrap = float) -> Any:
    """Return the exact value passed to the kernel as a Python number; floats are converted by ``wrap``."""
    # Fuzzed scalars are already rounded to the parameter's dtype, so float() is exact.
    value = case.scalars[arg.param]
    if arg.dtype == "bool":
        return bool(value)
    return wrap(float(value)) if is_float(arg.dtype) else int(value)
