"""Values in files of JSON and YAML, each with its file and the keys that lead to it, which errors name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


class FormError(Exception):
    """A file is not of its benchmark's form: its name, the key, and what was expected there."""


@dataclass(frozen=True, slots=True)
class Field:
    """A value in a file; ``keys`` lead to it, as in ``sources[0].path``, and are empty for the file's own value."""

    file: Path
    value: Any
    keys: str = ""

    def error(self, problem: str) -> FormError:
        """Return an error on this value."""
        return FormError(f"{self.file}: {self.keys or 'its value'} {problem}")

    def key(self, name: str) -> Field:
        """Return the value of a key, which must be there."""
        value = self.optional(name)
        if value is None:
            raise FormError(f"{self.file}: no key `{name}`{f' in {self.keys}' if self.keys else ''}")
        return value

    def optional(self, name: str) -> Field | None:
        """Return the value of a key, None if there is none or it is null."""
        return self.fields().get(name) if self._mapping().get(name) is not None else None

    def fields(self) -> dict[str, Field]:
        """Return the values of all keys."""
        inner = f"{self.keys}." if self.keys else ""
        return {str(name): Field(self.file, value, f"{inner}{name}") for name, value in self._mapping().items()}

    def items(self) -> list[Field]:
        """Return the values of a list."""
        if not isinstance(self.value, list):
            raise self.error("is not a list")
        return [Field(self.file, value, f"{self.keys}[{place}]") for place, value in enumerate(self.value)]

    def text(self) -> str:
        """Return a text."""
        if not isinstance(self.value, str):
            raise self.error("is not a text")
        return self.value

    def size(self) -> int:
        """Return a positive integer."""
        if type(self.value) is not int or self.value < 1:
            raise self.error("is not a positive integer")
        return self.value

    def _mapping(self) -> Mapping[str, Any]:
        if not isinstance(self.value, dict):
            raise self.error("is not an object with keys")
        return self.value


def json_file(path: Path) -> Field:
    """Return the value of a file of JSON."""
    return _json(path, path.read_text(encoding="utf-8"), "")


def json_lines(path: Path) -> list[Field]:
    """Return the values of a file with JSON in each line."""
    lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
    return [_json(path, line, f"line {number}") for number, line in lines if line.strip()]


def yaml_file(path: Path) -> Field:
    """Return the value of a file of YAML."""
    try:
        return Field(path, yaml.safe_load(path.read_text(encoding="utf-8")))
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        raise FormError(f"{path}{f':{place.line + 1}' if place else ''}: is not YAML: {error.problem}") from error
    except yaml.YAMLError as error:
        raise FormError(f"{path}: is not YAML: {error}") from error


def _json(path: Path, text: str, keys: str) -> Field:
    try:
        return Field(path, json.loads(text), keys)
    except ValueError as error:
        raise FormError(f"{path}: {f'{keys} ' if keys else ''}is not JSON: {error}") from error
