"""Validation of single values: each function returns the converted value, or :data:`INVALID` after reporting."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path as FilePath
from typing import Any, cast

from gpuemu_lsp.engine.project import files
from gpuemu_lsp.engine.project.expressions import (
    MAX_VALUE,
    Expression,
    ExpressionError,
    attributes,
    evaluate,
    names,
    parse,
)
from gpuemu_lsp.engine.project.message_text import closest, did_you_mean, shorten, show, toml
from gpuemu_lsp.engine.project.model import KeywordValue, PythonValue
from gpuemu_lsp.engine.project.reporter import Reporter
from gpuemu_lsp.engine.project.tree import Path
from gpuemu_lsp.engine.project.value_kinds import (
    ARCH_PATTERN,
    DTYPES,
    PYTHON_VALUE,
    ConfigKey,
    Formula,
    Integer,
    Literal,
    PathTo,
    Real,
    String,
    ValueKind,
    describe,
)

_FUNCTION = re.compile(r"(?P<path>.+):(?P<function>[A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class FileRef:
    """A checked path and, for ``file.py:function``, the function."""

    path: str
    function: str | None = None


class Invalid:
    """Type of :data:`INVALID`: an error was reported, and there is no value."""


INVALID = Invalid()


@dataclass(frozen=True, slots=True)
class ConfigContext:
    """State shared by the checks of one file. Relative paths are relative to ``folder``."""

    reporter: Reporter
    folder: FilePath


def wrong(kind: ValueKind, value: Any, path: Path, context: ConfigContext, key: ConfigKey) -> Invalid:
    """Report a value of the wrong type or out of range, with the kind expected and an example."""
    item = isinstance(path[-1], int)
    example = "" if key.example is None or item else f", for example `{toml(key.example)}`"
    context.reporter.bad_value(path, f"{_label(path)} is {show(value)}; it must be {describe(kind)}{example}.")
    return INVALID


def _label(path: Path) -> str:
    return f"Item {int(path[-1]) + 1} of `{path[-2]}`" if isinstance(path[-1], int) else f"`{path[-1]}`"


def text(kind: String, value: str, path: Path, context: ConfigContext, key: ConfigKey) -> str | Invalid:
    """Accept a string of one line that is not blank, or one of the choices if there are any."""
    if kind.choices:
        if value in kind.choices:
            return value
        close = closest(value, kind.choices)
        message = f"{_label(path)} is {show(value)}; it must be {describe(kind)}.{did_you_mean(close)}"
        context.reporter.bad_value(path, message, suggestion=close)
        return INVALID
    if not value.strip() or any(ord(character) < 32 for character in value):
        why = "has a control character or a line break" if value.strip() else "is empty"
        context.reporter.bad_value(path, f"`{key.name}` {why}; it must be {describe(kind)} on one line.")
        return INVALID
    return value


def integer(kind: Integer, value: int, path: Path, context: ConfigContext, key: ConfigKey) -> int | Invalid:
    """Accept an integer within its bounds."""
    high = MAX_VALUE if kind.maximum is None else kind.maximum
    return value if kind.minimum <= value <= high else wrong(kind, value, path, context, key)


def real(kind: Real, value: float, path: Path, context: ConfigContext, key: ConfigKey) -> float | Invalid:
    """Accept a number that is not NaN, not below its minimum, and finite unless ``infinite``."""
    try:
        number = float(value)
    except OverflowError:  # an integer beyond the largest double
        return wrong(kind, value, path, context, key)
    too_small = kind.minimum is not None and number < kind.minimum
    if math.isnan(number) or too_small or (math.isinf(number) and not kind.infinite):
        return wrong(kind, value, path, context, key)
    return number


def dtype(value: str, path: Path, context: ConfigContext) -> str | Invalid:
    """Accept a dtype in any of its spellings; return NumPy's name."""
    if value in DTYPES:
        return DTYPES[value]
    message, close = not_a_dtype(value)
    context.reporter.bad_value(path, message, suggestion=close)
    return INVALID


def not_a_dtype(name: str) -> tuple[str, str | None]:
    """Return the message for an unknown dtype, and the one that it may stand for."""
    known, close = f" Known are {', '.join(sorted(set(DTYPES.values())))}.", closest(name, DTYPES)
    return f"`{shorten(name)}` is not a dtype.{did_you_mean(close) or known}", close


def arch(value: str, path: Path, context: ConfigContext) -> str | Invalid:
    """Accept ``sm_NN``."""
    if re.fullmatch(ARCH_PATTERN, value):
        return value
    allowed = 'write "sm_" and the compute capability, such as "sm_80" or "sm_90a"'
    context.reporter.bad_value(path, f"`{shorten(value)}` is not an architecture; {allowed}.")
    return INVALID


def path_to(kind: PathTo, value: str, path: Path, context: ConfigContext, key: ConfigKey) -> FileRef | Invalid:
    """Accept the path of a file or folder that exists and is readable."""
    name, function = value, None
    if kind.function and (match := _FUNCTION.fullmatch(value)):
        name, function = match["path"], match["function"]
    if not name.strip():
        context.reporter.bad_value(path, f"`{key.name}` is empty; it must be {describe(kind)}.")
        return INVALID
    full = files.absolute(context.folder, name)
    why = files.problem(full, kind.folder)
    if why is None:
        return FileRef(full, function)
    close = files.similar(context.folder, name) if why == files.MISSING else None
    hint = f"Did you mean `{close}`?" if close else "Paths are relative to the folder of gpuemu.toml."
    context.reporter.missing_file(path, f"`{shorten(name)}` {why}. {hint}", close)
    return INVALID


def literal(kind: Literal, value: Any, path: Path, context: ConfigContext, key: ConfigKey) -> KeywordValue | Invalid:
    """Accept a value as it is; a list, which must not contain another, becomes a tuple."""
    if not isinstance(value, list):
        return cast("KeywordValue", value)
    bad = [index for index, item in enumerate(value) if not isinstance(item, str | bool | int | float)]
    for index in bad:
        wrong(kind, value[index], (*path, index), context, key)
    return INVALID if bad else tuple(value)


def constexpr(
    value: str | float, path: Path, context: ConfigContext, key: ConfigKey
) -> Expression | PythonValue | float | bool | Invalid:
    """Accept a compile-time value of Triton."""
    if isinstance(value, bool | float):
        return value
    if isinstance(value, str) and re.fullmatch(PYTHON_VALUE, value):
        return PythonValue(value)
    return formula(Formula(), value, path, context, key)


def formula(
    kind: Formula, value: str | int, path: Path, context: ConfigContext, key: ConfigKey
) -> Expression | Invalid:
    """Accept a valid expression; one without names must have a value of at least the minimum."""
    try:
        expression = parse(value)
        if names(expression) or attributes(expression):
            return expression
        number = evaluate(expression, {})
    except ExpressionError as error:
        context.reporter.bad_expression(path, value if isinstance(value, str) else "", error)
        return INVALID
    if kind.minimum is not None and number < kind.minimum:
        context.reporter.bad_value(path, f"`{key.name}` is {number}; it must be at least {kind.minimum}.")
        return INVALID
    return expression
