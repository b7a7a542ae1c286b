"""What a reference is given: every value the kernel got, widened, under the names its author may have used."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from gpuemu_lsp.engine.fuzz.dtypes import is_float
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg

Wrap: TypeAlias = Callable[[float], Any]

_NUMBERED = re.compile(r"input_(\d+)$")


class ReferenceInputs(dict[str, Any]):
    """The ``inputs`` of a reference: by ``as`` or parameter name, in any case; the only tensor also by any other name.

    A key that is none of these is an error that lists the names there are: guessing would compare with another
    function.
    """

    def __init__(self, values: Mapping[str, Any], aliases: Mapping[str, str], tensors: tuple[str, ...]) -> None:
        super().__init__(values)
        self._aliases = dict(aliases)
        self._tensors = tensors

    def __missing__(self, key: str) -> Any:
        found = self._find(key) if isinstance(key, str) else None
        if found is None and isinstance(key, str) and len(self._tensors) == 1:
            found = self._tensors[0]
        if found is None:
            raise KeyError(f"{key!r} is none of this kernel's inputs: {', '.join(self)}")
        return dict.__getitem__(self, found)

    def __contains__(self, key: object) -> bool:
        return dict.__contains__(self, key) or (isinstance(key, str) and self._find(key) is not None)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value by any of its names, else ``default``; position never counts here."""
        found = key if dict.__contains__(self, key) or not isinstance(key, str) else self._find(key)
        return default if found is None else dict.__getitem__(self, found)

    def _find(self, key: str) -> str | None:
        alias = self._aliases.get(key)
        if alias is not None:
            return alias
        same: set[str] = {name for name in (*self, *self._aliases) if name.lower() == key.lower()}
        if len(same) == 1:
            name = same.pop()
            return self._aliases.get(name, name)
        numbered = _NUMBERED.match(key)
        if numbered and int(numbered[1]) < len(self._tensors):
            return self._tensors[int(numbered[1])]
        return None


def input_tensors(plan: Plan) -> tuple[TensorArg, ...]:
    """Return the tensors that go in, in C order."""
    return tuple(arg for arg in plan.args if isinstance(arg, TensorArg) and arg.direction != "out")


def output_tensors(plan: Plan) -> tuple[TensorArg, ...]:
    """Return the tensors that come out, in C order: ``out`` and ``inout``."""
    return tuple(arg for arg in plan.args if isinstance(arg, TensorArg) and arg.direction != "in")


def widened(values: Array, dtype: str) -> Array:
    """Return a copy as the reference sees it.

    Floats become fp64, exactly. Integers below 32 bits become int64, as C promotes them before it computes; wider
    ones and bools keep their dtype.
    """
    if is_float(dtype):
        return values.astype(np.float64)
    if dtype in ("int8", "uint8", "int16", "uint16"):
        return values.astype(np.int64)
    return values.copy()


def build(plan: Plan, case: Case, tensors: Mapping[str, Array], wrap: Wrap = float) -> ReferenceInputs:
    """Build the mapping for one call; ``tensors`` are widened arrays by parameter name.

    ``wrap`` makes what the reference sees of a float scalar.
    """
    values: dict[str, Any] = {}
    aliases: dict[str, str] = {}
    names: list[str] = []
    for arg in plan.args:
        if isinstance(arg, ScalarArg):
            values[arg.key] = scalar_value(arg, case, wrap)
        elif arg.direction == "out":
            continue
        else:
            values[arg.key] = tensors[arg.param]
            names.append(arg.key)
        aliases[arg.param] = arg.key
    return ReferenceInputs(values, {k: v for k, v in aliases.items() if k not in values}, tuple(names))


def keywords(plan: Plan, case: Case, accepted: Iterable[str], everything: bool, wrap: Wrap = float) -> dict[str, Any]:
    """Return the keyword arguments of a call: scalars and dims the function names, or all scalars for ``**kwargs``."""
    wanted = set(accepted)
    own = [(arg, scalar_value(arg, case, wrap)) for arg in plan.args if isinstance(arg, ScalarArg)]
    scalars = {arg.key: value for arg, value in own}
    by_param = {arg.param: value for arg, value in own}
    chosen = dict(scalars) if everything else {}
    for source in (case.dims, by_param, scalars):
        chosen.update({name: value for name, value in source.items() if name in wanted})
    return chosen


def scalar_value(arg: ScalarArg, case: Case, wrap: Wrap = float) -> Any:
    """Return the exact value the kernel gets as a Python number, a float as ``wrap`` makes it."""
    value = case.scalars[arg.param]
    if arg.dtype == "bool":
        return bool(value)
    return wrap(float(value)) if is_float(arg.dtype) else int(value)
