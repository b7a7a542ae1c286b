"""Placeholders of the three forms of templates: ``%``, ``str.format`` and :class:`string.Template`."""

from __future__ import annotations

import re
import string
from collections.abc import Callable
from dataclasses import dataclass

_PERCENT = re.compile(r"%(?:\((?P<name>[^)]*)\))?(?P<form>[-#0 +]*\d*(?:\.\d+)?)(?P<kind>[diouxXeEfFgGcrsa%])")
_BRACE = re.compile(r"\{\{|\}\}|\{(?P<name>\w*)(?:!(?P<convert>[rsa]))?(?::(?P<form>[^{}]*))?\}")
_DOLLAR = re.compile(r"\$(?:(?P<escaped>\$)|(?P<name>[_a-zA-Z][_a-zA-Z0-9]*)|\{(?P<braced>[_a-zA-Z][_a-zA-Z0-9]*)\})")


@dataclass(frozen=True, slots=True)
class Placeholder:
    """The characters from ``start`` to ``stop`` of a template.

    ``key`` is the number or the name of the value, ``literal`` the text of an escaped sign. ``render`` formats a
    value where this is more than ``str``. ``optional``: it stays as it is where there is no such value.
    """

    start: int
    stop: int
    key: int | str | None = None
    literal: str | None = None
    render: Callable[[object], str] | None = None
    optional: bool = False


def percent_fields(text: str) -> list[Placeholder] | None:
    """Return the placeholders of ``text % values``, None if the text has a sign that is none."""
    found = []
    number = 0
    for match in _PERCENT.finditer(text):
        start, stop = match.span()
        if match["kind"] == "%":
            found.append(Placeholder(start, stop, literal="%"))
            continue
        key: int | str = number
        if match["name"] is not None:
            key = match["name"]
        else:
            number += 1
        form = f"%{match['form']}{match['kind']}"
        found.append(Placeholder(start, stop, key, render=None if form == "%s" else form.__mod__))
    return found if _covered(text, "%", found) else None


def brace_fields(text: str) -> list[Placeholder] | None:
    """Return the placeholders of ``text.format(...)``, None if the text has a brace that belongs to none."""
    found = []
    number = 0
    for match in _BRACE.finditer(text):
        start, stop = match.span()
        if match.group() in ("{{", "}}"):
            found.append(Placeholder(start, stop, literal=match.group()[0]))
            continue
        name = match["name"]
        key: int | str = int(name) if name.isdecimal() else name
        if not name:
            key, number = number, number + 1
        render = None
        if match["convert"] or match["form"]:
            convert, form = f"!{match['convert']}" if match["convert"] else "", match["form"] or ""
            render = f"{{0{convert}:{form}}}".format
        found.append(Placeholder(start, stop, key, render=render))
    return found if _covered(text, "{", found) and _covered(text, "}", found) else None


def dollar_fields(text: str, safe: bool) -> list[Placeholder] | None:
    """Return the placeholders of ``Template(text).substitute(...)``; with ``safe`` values may be missing."""
    found = []
    for match in _DOLLAR.finditer(text):
        start, stop = match.span()
        if match["escaped"]:
            found.append(Placeholder(start, stop, literal="$"))
        else:
            found.append(Placeholder(start, stop, match["name"] or match["braced"], optional=safe))
    return found if safe or _covered(text, string.Template.delimiter, found) else None


def _covered(text: str, sign: str, found: list[Placeholder]) -> bool:
    inside = sum(text.count(sign, one.start, one.stop) for one in found)
    return inside == text.count(sign)
