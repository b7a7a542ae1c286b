"""Tasks with a file of shapes: kernelbench.com's ``shapes.py`` next to ``reference.py``.

``SHAPES`` is a list of dictionaries; the names of the task's module with numbers, in the same or in upper case, get the
values of each.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuemu.judge.forms.settings import varied
from gpuemu.judge.literals import Literal, size_literals, with_values
from gpuemu.judge.model import Texts

_FILE, _NAME = "shapes.py", "SHAPES"


def texts(task: Path) -> Texts | None:
    """Return a task with those of its shapes that are tried, None if it has no list of them."""
    file = task.parent / _FILE
    if not file.is_file():
        return None
    text = task.read_text(encoding="utf-8")
    literals = size_literals(text)
    settings = [_values(shape, literals) for shape in varied(_shapes(file.read_text(encoding="utf-8")))]
    different = [dict(items) for items in dict.fromkeys(tuple(sorted(setting.items())) for setting in settings)]
    return Texts(None, tuple(with_values(text, setting) for setting in different)) if any(different) else None


def _shapes(text: str) -> list[Mapping[str, Any]]:
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Assign) and [ast.unparse(target) for target in statement.targets] == [_NAME]:
            try:
                value = ast.literal_eval(statement.value)
            except ValueError:
                return []
            return [shape for shape in value if isinstance(shape, dict)] if isinstance(value, list | tuple) else []
    return []


def _values(shape: Mapping[str, Any], literals: tuple[Literal, ...]) -> dict[Literal, int]:
    sizes = {str(name): value for name, value in shape.items() if type(value) is int}
    values = {**{name.upper(): value for name, value in sizes.items()}, **sizes}
    return {literal: values[literal.name] for literal in literals if literal.name in values}
