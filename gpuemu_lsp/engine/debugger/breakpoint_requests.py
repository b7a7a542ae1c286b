"""Requests that set breakpoints; each replaces all breakpoints of its kind, or of its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Final

from gpuemu_lsp.engine.debugger.breakpoints import LineBreakpoint, LogPoint, Stopper
from gpuemu_lsp.engine.debugger.protocol import Arguments, Body, DebugRequestError, number, records, text
from gpuemu_lsp.engine.debugger.session import DebugSession
from gpuemu_lsp.engine.debugger.syntax import CExpressionError, parse
from gpuemu_lsp.engine.debugger.templates import template
from gpuemu_lsp.engine.debugger.views import View
from gpuemu_lsp.engine.debugger.watches import identified, watch, watchable
from gpuemu_lsp.engine.findings import Json, Place

FINDINGS: Final = "findings"
"""The exception filter that stops at the finding; the others are rules."""


class BreakpointRequests:
    """The breakpoints that a client has set."""

    def __init__(self, session: DebugSession, first_line: int) -> None:
        self._session, self._first_line = session, first_line
        self._numbers = count(1)
        self._by_kind: dict[str, list[int]] = {}
        self._handlers: dict[str, Callable[[Arguments], list[Json]]] = {
            "setBreakpoints": self._set_lines,
            "setDataBreakpoints": self._set_data,
            "setExceptionBreakpoints": self._set_exceptions,
        }

    def reply(self, command: str, arguments: Arguments) -> Body | None:
        """Answer a request, None for one that is not about setting breakpoints."""
        handler = self._handlers.get(command)
        return None if handler is None else {"breakpoints": handler(arguments)}

    def locations(self, arguments: Arguments) -> Body:
        """Return the lines of a range that have code."""
        first = number(arguments, "line")
        last = number(arguments, "endLine") or first
        lines = sorted(line + self._first_line for line in self._lines_of(_path(arguments)))
        return {"breakpoints": [{"line": line} for line in lines if first <= line <= last]}

    def data_info(self, view: View, expression: str) -> Body:
        """Return the identity of the data of an expression, null where its changes cannot be looked up."""
        try:
            data = watchable(view, expression)
        except CExpressionError as error:
            return {"dataId": None, "description": str(error)}
        accesses: list[Json] = ["write", "read", "readWrite"] if data.place is not None else ["write"]
        return {"dataId": data.identity, "description": data.description, "accessTypes": accesses, "canPersist": False}

    def add(self, stopper: Stopper) -> int:
        """Add a breakpoint that stays until the session ends, and return its number."""
        identity = next(self._numbers)
        self._session.breakpoints[identity] = stopper
        return identity

    def _clear(self, kind: str) -> None:
        for identity in self._by_kind.pop(kind, []):
            self._session.breakpoints.pop(identity, None)
            self._session.log_points.pop(identity, None)

    def _lines_of(self, path: str) -> dict[int, Place]:
        """Return the lines of the user's file that have code, with their places in the text that was compiled."""
        places = {self._session.located(place): place for place in self._session.block.statements.places}
        return {shown.range.start.line: place for shown, place in places.items() if shown.path == path}

    def _set_lines(self, arguments: Arguments) -> list[Json]:
        path = _path(arguments)
        self._clear(path)
        with_code = self._lines_of(path)
        return [self._set_line(path, one, with_code) for one in records(arguments, "breakpoints")]

    def _set_line(self, path: str, wanted: Arguments, with_code: Mapping[int, Place]) -> Json:
        asked = number(wanted, "line") - self._first_line
        line = min((one for one in with_code if one >= asked), default=None)
        if line is None:
            why = "no code here that the block executes" if with_code else "this file has no code of the kernel"
            return {"verified": False, "line": asked + self._first_line, "message": why}
        condition, message = text(wanted, "condition").strip(), text(wanted, "logMessage")
        try:
            node = parse(condition) if condition else None
            hits = _hit_number(text(wanted, "hitCondition"))
            logged = template(message) if message else None
        except (CExpressionError, DebugRequestError) as error:
            return {"verified": False, "line": line + self._first_line, "message": str(error)}
        session, identity = self._session, next(self._numbers)
        if hits and (session.block.begins_late or session.block.ends_early):
            why = "hits cannot be counted: only a part of the block is recorded"
            return {"verified": False, "line": line + self._first_line, "message": why}
        everywhere = node is not None or logged is not None
        place = with_code[line]
        stopper = LineBreakpoint(place.path, place.range.start.line, everywhere, node, hits)
        unknown = stopper.unknown_name(session.debuggee)
        if unknown is not None:
            why = f"there is no variable '{unknown}' at this line"
            return {"verified": False, "line": line + self._first_line, "message": why}
        if logged is None:
            session.breakpoints[identity] = stopper
        else:
            session.log_points[identity] = LogPoint(stopper, logged)
        self._by_kind.setdefault(path, []).append(identity)
        body: Body = {"id": identity, "verified": True, "line": line + self._first_line}
        if stopper.is_of_other_blocks(session.debuggee):
            body |= {"message": "the condition holds for no thread of the block that is looked at"}
        return body

    def _set_data(self, arguments: Arguments) -> list[Json]:
        self._clear("data")
        rows: list[Json] = []
        for wanted in records(arguments, "breakpoints"):
            try:
                data = identified(self._session, text(wanted, "dataId"))
            except CExpressionError as error:
                rows.append({"verified": False, "message": str(error)})
                continue
            identity = self.add(watch(data, text(wanted, "accessType") or "write"))
            self._by_kind.setdefault("data", []).append(identity)
            rows.append({"id": identity, "verified": True, "message": data.description})
        return rows

    def _set_exceptions(self, arguments: Arguments) -> list[Json]:
        given = arguments.get("filters")
        filters = [name for name in given if isinstance(name, str)] if isinstance(given, list) else []
        self._session.stops_at_finding = FINDINGS in filters
        self._session.stop_at_rules(frozenset(filters) - {FINDINGS})
        return [{"verified": True} for _ in filters]


def _path(arguments: Arguments) -> str:
    source = arguments.get("source")
    return text(source, "path") if isinstance(source, dict) else ""


def _hit_number(condition: str) -> int:
    """Return the number of the hit that counts, 0 for each."""
    word = condition.strip().lstrip("=").strip()
    if word and not word.isdecimal():
        raise DebugRequestError(f"a hit count is a number, not '{condition}'")
    return int(word or 0)
