"""Names of the shared arrays of a kernel, which numba-cuda numbers in its PTX."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from gpuemu_lsp.engine.ptx.model import Module

_PREFIX = "_cudapy_smem_"


def shared_arrays(function: Callable[..., Any] | None) -> tuple[str, ...]:
    """Return the variables that a Python function assigns shared arrays to, in the order of its text.

    It is empty if the source is not known, or has an array without a variable of its own.
    """
    if function is None:
        return ()
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return ()
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _makes_shared_array(node.func)]
    targets = [
        (node.lineno, node.targets[0].id)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and node.value in calls and isinstance(node.targets[0], ast.Name)
    ]
    names = tuple(name for _, name in sorted(targets))
    return names if len(names) == len(calls) == len(set(names)) else ()


def with_shared_names(ptx: str, module: Module, names: Sequence[str]) -> str:
    """Return a kernel's PTX with the names of its shared arrays, as it is if they do not correspond.

    Parameters
    ----------
    ptx, module
        The text, and what it is read as.
    names
        The variables of the source, in the order of the text, in which numba-cuda numbers them.
    """
    numbers = {
        variable.name: int(variable.name.removeprefix(_PREFIX))
        for variable in module.variables
        if variable.space == "shared" and variable.name.removeprefix(_PREFIX).isdigit()
    }
    taken = {variable.name for variable in module.variables} | set(module.functions)
    if len(numbers) != len(names) or taken.intersection(names):
        return ptx
    pairs = list(zip(sorted(numbers, key=numbers.__getitem__), names, strict=True))
    for symbol, name in reversed(pairs):  # a later number may begin with an earlier one
        ptx = ptx.replace(symbol, name)
    return ptx


def _makes_shared_array(function: ast.expr) -> bool:
    """Return whether a function is ``cuda.shared.array``, under whatever name its module has."""
    if not (isinstance(function, ast.Attribute) and function.attr == "array"):
        return False
    owner = function.value
    return (owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")) == "shared"
