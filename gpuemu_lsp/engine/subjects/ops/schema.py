"""The JSON schema of an op: ``dims`` with candidate sizes, ``inputs`` and ``output`` with the names of their dims."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.project.model import DimSpec, KernelSpec, PointerSpec, ScalarSpec
from gpuemu_lsp.engine.regular_file import file_text

_DTYPES = {"float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"}


class SchemaError(ValueError):
    """The schema cannot be used; the message is for the user."""


def with_schema(spec: KernelSpec) -> KernelSpec:
    """Return an op with the dims, arguments and dtypes of its schema, which gpuemu.toml takes precedence over.

    Raises
    ------
    SchemaError
        If the file is not such a schema.
    """
    assert spec.op is not None
    if spec.op.schema is None:
        return spec
    name = Path(spec.op.schema).name
    try:
        document = json.loads(file_text(spec.op.schema))
    except (OSError, ValueError) as error:
        raise SchemaError(f"{name} cannot be read as JSON: {error}") from error
    meta = document if isinstance(document, dict) else {}
    schema = meta.get("op_schema", meta)
    if not isinstance(schema, dict) or not isinstance(schema.get("inputs"), list):
        raise SchemaError(f"{name} has no `inputs`; it needs `dims`, `inputs` and `output`")
    dims = {dim.name: dim for dim in (_dim(item, name) for item in schema.get("dims", []))}
    dims |= dict(spec.dims or {})
    args: dict[str, PointerSpec | ScalarSpec] = {}
    for item in schema["inputs"]:
        args[_text(item, "name", name)] = PointerSpec(
            "in", _shape(item, dims, name), dtype=_dtype(item), range=_range(item, name)
        )
    if isinstance(schema.get("output"), dict):
        output = schema["output"]
        args[_text(output, "name", name)] = PointerSpec("out", _shape(output, dims, name), dtype=_dtype(output))
    listed = meta.get("dtypes")
    dtypes = tuple(one for one in listed if one in _DTYPES) if isinstance(listed, list) else ()
    return replace(spec, dims=dims, args=args, dtypes=spec.dtypes or dtypes or None)


def _dim(item: Any, name: str) -> DimSpec:
    sizes = item.get("candidates") if isinstance(item, dict) else None
    if not isinstance(sizes, list) or not all(isinstance(size, int) and size > 0 for size in sizes):
        raise SchemaError(f"{name}: a dim needs a `name` and `candidates`, a list of sizes")
    choices = tuple(dict.fromkeys(sizes)) or (1,)
    return DimSpec(_text(item, "name", name), min(choices), max(choices), choices=choices)


def _shape(item: Any, dims: Mapping[str, DimSpec], name: str) -> tuple[Any, ...]:
    used = item.get("dims") if isinstance(item, dict) else None
    if not isinstance(used, list):
        raise SchemaError(f"{name}: {_text(item, 'name', name)} has no `dims`")
    for dim in used:
        if dim not in dims:
            raise SchemaError(f"{name}: unknown dim '{dim}'; known: {', '.join(dims) or 'none'}")
    return tuple(parse(dim) for dim in used)


def _dtype(item: Any) -> str | None:
    found = item.get("dtype") if isinstance(item, dict) else None
    return found if found in _DTYPES else None


def _range(item: Any, name: str) -> tuple[float, float] | None:
    found = item.get("range") if isinstance(item, dict) else None
    if found is None:
        return None
    numbers = isinstance(found, list) and len(found) == 2
    if not numbers or not all(isinstance(one, int | float) and not isinstance(one, bool) for one in found):
        raise SchemaError(f"{name}: the `range` of {_text(item, 'name', name)} is {found}; write [smallest, largest]")
    if not -math.inf < found[0] < found[1] < math.inf:
        raise SchemaError(f"{name}: the `range` of {_text(item, 'name', name)} is {found}; the first must be smaller")
    return float(found[0]), float(found[1])


def _text(item: Any, key: str, name: str) -> str:
    found = item.get(key) if isinstance(item, dict) else None
    if not isinstance(found, str):
        raise SchemaError(f"{name}: an entry has no `{key}`")
    return found
