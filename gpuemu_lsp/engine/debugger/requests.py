"""Requests of the debug adapter protocol that are about a session's state: JSON in, JSON out.

Names of requests, arguments and fields are those of the protocol's specification (Debug Adapter Protocol 1.71).
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from gpuemu_lsp.engine.debugger.breakpoint_requests import BreakpointRequests
from gpuemu_lsp.engine.debugger.breakpoints import Stop
from gpuemu_lsp.engine.debugger.console import COMMANDS, Console
from gpuemu_lsp.engine.debugger.disassembly import Disassembly
from gpuemu_lsp.engine.debugger.evaluate import evaluate
from gpuemu_lsp.engine.debugger.frames import StackFrame
from gpuemu_lsp.engine.debugger.objects import Object
from gpuemu_lsp.engine.debugger.protocol import Arguments, Body, DebugRequestError, address_of, linear, number, text
from gpuemu_lsp.engine.debugger.session import DebugSession
from gpuemu_lsp.engine.debugger.syntax import parse
from gpuemu_lsp.engine.debugger.templates import value_text
from gpuemu_lsp.engine.debugger.timeline import StepKind
from gpuemu_lsp.engine.debugger.views import Parts, Row, View, equal_runs, folded, item, lane_range, of_items
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.findings import Json, Place

_MOST_ROWS: Final = 1000
"""Rows that are returned to a client that does not ask for pages."""
_MOST_BYTES: Final = 1 << 20
_WORD: Final = re.compile(r"[A-Za-z_%][\w.]*$")


@dataclass(slots=True)
class Reply:
    """The answer to a request, and the events that follow it: name and body."""

    body: Body = field(default_factory=dict)
    events: list[tuple[str, Body]] = field(default_factory=list)


class Requests:
    """Answers the requests of one client.

    ``first_line`` is the number of a file's first line, and ``first_column`` that of a line's first column.
    """

    def __init__(self, session: DebugSession, first_line: int = 1, first_column: int = 1) -> None:
        self._session, self._first_line, self._first_column = session, first_line, first_column
        self._breakpoints = BreakpointRequests(session, first_line)
        self._frames: list[tuple[int, StackFrame]] = []
        self._parts: list[Parts] = []
        self._last: Stop | None = None
        self._handlers: dict[str, Callable[[Arguments], Reply]] = {
            "configurationDone": self._configuration_done,
            "threads": self._threads,
            "stackTrace": self._stack_trace,
            "scopes": self._scopes,
            "variables": self._variables,
            "evaluate": self._evaluate,
            "exceptionInfo": self._exception_info,
            "disassemble": self._disassemble,
            "readMemory": self._read_memory,
            "pause": lambda _: Reply(events=[self._stopped(Stop("pause", "paused"))]),
            "continue": lambda _: self._go(back=False),
            "reverseContinue": lambda _: self._go(back=True),
            "restartFrame": self._restart_frame,
            "gpuemu/focus": self._focus,
            "gpuemu/lanes": self._lanes,
            "breakpointLocations": lambda arguments: Reply(self._breakpoints.locations(arguments)),
            "dataBreakpointInfo": self._data_info,
            "completions": self._completions,
            **{name: self._step(name) for name in _STEPS},
        }

    def reply(self, command: str, arguments: Arguments) -> Reply:
        """Answer a request.

        Raises
        ------
        DebugRequestError, CExpressionError
            If it has no answer.
        """
        handler = self._handlers.get(command)
        if handler is not None:
            return handler(arguments)
        body = self._breakpoints.reply(command, arguments)
        if body is None:
            raise DebugRequestError(f"the request {command} is not supported")
        return Reply(body)

    # ---- stops -------------------------------------------------------------------------------------------------------

    def _configuration_done(self, _: Arguments) -> Reply:
        return Reply(events=[*map(output, self._session.subject.notes), self._stopped(self._session.at_start())])

    def _stopped(self, stop: Stop, hit: int | None = None) -> tuple[str, Body]:
        self._forget()
        self._last = stop
        body: Body = {
            "reason": stop.reason,
            "description": stop.description,
            "threadId": self._session.thread // WARP_SIZE + 1,
            "allThreadsStopped": True,
        }
        if stop.text:
            body["text"] = stop.text
        if hit is not None:
            body["hitBreakpointIds"] = [hit]
        return "stopped", body

    def _forget(self) -> None:
        """Forget what is valid until the next stop; it keeps a recording alive."""
        self._frames.clear()
        self._parts.clear()

    def _step(self, name: str) -> Callable[[Arguments], Reply]:
        step = _STEPS[name]

        def take(arguments: Arguments) -> Reply:
            thread = self._thread(arguments)
            self._forget()
            if arguments.get("granularity") == "instruction":
                stop = self._session.step_instruction(thread, back=step is StepKind.BACK)
            else:
                stop = self._session.step(thread, step)
            return Reply(events=[self._stopped(stop)])

        return take

    def _go(self, *, back: bool) -> Reply:
        texts: list[str] = []
        self._forget()
        stop, hit = self._session.go(texts.append, back=back)
        return Reply({"allThreadsContinued": True}, [*map(output, texts), self._stopped(stop, hit)])

    def _restart_frame(self, arguments: Arguments) -> Reply:
        thread, frame = self._frame(arguments)
        depth = len(self._session.stack(thread)) - self._session.stack(thread).index(frame)
        stop = self._session.step(thread, StepKind.BACK_OUT)
        while len(self._session.stack(thread)) >= depth and stop.reason == "step":
            stop = self._session.step(thread, StepKind.BACK_OUT)
        return Reply(events=[self._stopped(stop)])

    def _focus(self, arguments: Arguments) -> Reply:
        """Look at another block, and another thread: a linear number or an index of three numbers."""
        session = self._session
        block = arguments.get("block")
        if block is not None and not session.enter_block(linear(block, session.block.recording.grid, "block")):
            raise DebugRequestError(f"the launch does not come to block {block}")
        thread = arguments.get("thread")
        if thread is not None:
            session.focus(linear(thread, session.block.recording.threads, "thread"))
        return Reply(events=[self._stopped(Stop("goto", "another thread"))])

    # ---- threads and frames ------------------------------------------------------------------------------------------

    def _threads(self, _: Arguments) -> Reply:
        session = self._session
        rows: list[Json] = []
        for warp in session.warps():
            index = session.block.thread_index(session.thread_of(warp))
            name = f"warp {warp}: thread {index}, {session.lanes_here(warp)} lanes here"
            rows.append({"id": warp + 1, "name": name})
        return Reply({"threads": rows})

    def _thread(self, arguments: Arguments) -> int:
        """Return the thread in focus of the warp that a request is about."""
        identity = arguments.get("threadId")
        warp = identity - 1 if isinstance(identity, int) else self._session.thread // WARP_SIZE
        if not 0 <= warp * WARP_SIZE < self._session.block.recording.thread_count:
            raise DebugRequestError(f"there is no warp {warp}")
        return self._session.thread_of(warp)

    def _stack_trace(self, arguments: Arguments) -> Reply:
        session, thread = self._session, self._thread(arguments)
        frames = session.stack(thread)
        start, levels = number(arguments, "startFrame"), number(arguments, "levels") or len(frames)
        rows: list[Json] = []
        for frame in frames[start : start + levels]:
            self._frames.append((thread, frame))
            name = frame.function if frame is not frames[0] else f"{frame.function} {_at(session, thread)}"
            rows.append(
                {
                    "id": len(self._frames),
                    "name": name,
                    "instructionPointerReference": hex(frame.line),
                    "canRestart": len(frames) > 1,
                    **self._located(frame.place),
                }
            )
        return Reply({"stackFrames": rows, "totalFrames": len(frames)})

    def _located(self, place: Place) -> Body:
        place = self._session.located(place)
        start = place.range.start
        name = place.path.rpartition("/")[2]
        return {
            "source": {"name": name, "path": place.path},
            "line": start.line + self._first_line,
            "column": start.column + self._first_column,
        }

    def _frame(self, arguments: Arguments) -> tuple[int, StackFrame]:
        identity = arguments.get("frameId")
        if isinstance(identity, int) and 0 < identity <= len(self._frames):
            return self._frames[identity - 1]
        frames = self._session.stack(self._session.thread)
        if identity is not None or not frames:
            raise DebugRequestError("this frame is of an earlier stop")
        return self._session.thread, frames[0]

    def _view(self, arguments: Arguments) -> View:
        return self._session.view(*self._frame(arguments))

    # ---- values ------------------------------------------------------------------------------------------------------

    def _scopes(self, arguments: Arguments) -> Reply:
        view = self._view(arguments)
        named = self._session.block.named
        tables: list[tuple[str, str, Callable[[], Sequence[Row]], bool]] = [
            ("Locals", "locals", view.locals, False) if named else ("Arguments", "arguments", view.arguments, False),
            ("Thread", "", view.thread, False),
            ("Shared memory", "", view.shared, False),
            ("Buffers", "", view.buffers, False),
            ("Lanes", "", view.lanes, True),
            ("Registers", "registers", view.registers, True),
        ]
        rows: list[Json] = []
        for name, hint, items, expensive in tables:
            if (name == "Shared memory" and not view.names.shared) or (name == "Lanes" and not named):
                continue
            row: Body = {"name": name, "variablesReference": self._reference(of_items(items)), "expensive": expensive}
            if hint:
                row["presentationHint"] = hint
            rows.append(row)
        return Reply({"scopes": rows})

    def _reference(self, parts: Parts | None) -> int:
        if parts is None:
            return 0
        self._parts.append(parts)
        return len(self._parts)

    def _variables(self, arguments: Arguments) -> Reply:
        reference = number(arguments, "variablesReference")
        if not 0 < reference <= len(self._parts):
            raise DebugRequestError("these variables are of an earlier stop")
        parts = self._parts[reference - 1]
        if arguments.get("filter") == ("named" if parts.indexed else "indexed"):
            return Reply({"variables": []})
        rows = parts.read(number(arguments, "start"), number(arguments, "count") or _MOST_ROWS)
        return Reply({"variables": [self._row(row) for row in rows]})

    def _row(self, row: Row) -> Body:
        body: Body = {
            "name": row.name,
            "value": row.value,
            "variablesReference": self._reference(row.parts),
            "evaluateName": row.expression,
        }
        return body | self._details(row)

    @staticmethod
    def _details(row: Row) -> Body:
        body: Body = {"type": row.type} if row.type else {}
        if row.parts is not None:
            body |= (
                {"indexedVariables": row.parts.indexed} if row.parts.indexed else {"namedVariables": row.parts.named}
            )
        return body | ({"memoryReference": hex(row.address)} if row.address is not None else {})

    def _evaluate(self, arguments: Arguments) -> Reply:
        expression = text(arguments, "expression").strip()
        view = self._view(arguments)
        if arguments.get("context") == "repl":
            said = Console(self._session, view, self._breakpoints.add).answer(expression)
            if said is not None:
                events = [] if said.stop is None else [self._stopped(said.stop)]
                return Reply({"result": said.text, "variablesReference": 0}, events)
        value = evaluate(parse(expression), view.lookup, view.moment)
        if not isinstance(value, Object):
            return Reply({"result": value_text(value, view.moment), "variablesReference": 0})
        row = item(view.moment, expression, value, expression)
        return Reply({"result": row.value, "variablesReference": self._reference(row.parts), **self._details(row)})

    def _lanes(self, arguments: Arguments) -> Reply:
        """Return the variables of a frame in the lanes of its warp: on one line, and by runs of equal values."""
        view = self._view(arguments)
        rows: list[Json] = []
        for name in view.names.visible(view.frame):
            texts = view.lane_texts(name)
            runs: list[Json] = [
                {"lanes": lane_range(first, last), "value": value} for first, last, value in equal_runs(texts)
            ]
            rows.append({"name": name, "value": folded(texts), "runs": runs})
        first = view.moment.thread // WARP_SIZE * WARP_SIZE
        return Reply({"first": first, "lanes": rows})

    def _completions(self, arguments: Arguments) -> Reply:
        """Return the commands and names that begin with the word before the cursor."""
        written = text(arguments, "text")[: number(arguments, "column") - self._first_column]
        word = _WORD.search(written)
        beginning = word[0] if word is not None else ""
        commands = COMMANDS if beginning == written.strip() else ()
        names = sorted(name for name in self._view(arguments).all_names() if name.startswith(beginning))
        labels = [*(name for name in commands if name.startswith(beginning)), *names]
        return Reply({"targets": [{"label": label, "length": len(beginning)} for label in labels]})

    def _data_info(self, arguments: Arguments) -> Reply:
        expression = text(arguments, "name")
        container = number(arguments, "variablesReference")
        if 0 < container <= len(self._parts):
            parts = self._parts[container - 1]
            rows = parts.read(0, max(parts.indexed, _MOST_ROWS)) if not parts.indexed else []
            index = expression.strip("[]")
            if parts.indexed and index.isdecimal():
                rows = parts.read(int(index), 1)
            expression = next((row.expression for row in rows if row.name == expression), "") or expression
        return Reply(self._breakpoints.data_info(self._view(arguments), expression))

    def _exception_info(self, _: Arguments) -> Reply:
        subject = self._session.subject
        rule, said = subject.rule, subject.text
        if self._last is not None and self._last.reason == "exception":
            rule, said = self._last.description, self._last.text
        body: Body = {"exceptionId": rule or "gpuemu", "description": said, "breakMode": "always"}
        details = "\n".join(subject.notes)
        return Reply(body | ({"details": {"message": said, "stackTrace": details}} if details else {}))

    # ---- memory and code ---------------------------------------------------------------------------------------------

    def _read_memory(self, arguments: Arguments) -> Reply:
        address = address_of(arguments) + number(arguments, "offset")
        count = min(max(number(arguments, "count"), 0), _MOST_BYTES)
        block = self._session.block
        picture = block.accesses.picture(address)
        if picture is None:
            return Reply({"address": hex(address), "unreadableBytes": count})
        size = min(count, picture.address + len(picture.data) - address)
        data, _ = block.accesses.memory(address, size, self._session.tick)
        body: Body = {"address": hex(address), "data": base64.b64encode(data).decode(), "unreadableBytes": count - size}
        return Reply(body)

    def _disassemble(self, arguments: Arguments) -> Reply:
        code = Disassembly.of(self._session.block)
        first, count = number(arguments, "instructionOffset"), number(arguments, "instructionCount")
        rows: list[Json] = []
        for line, instruction, place in code.rows(address_of(arguments) + number(arguments, "offset"), first, count):
            row: Body = {"address": hex(max(line, 0)), "instruction": instruction}
            if place is not None:
                located = self._located(place)
                row |= {"location": located["source"], "line": located["line"]}
            rows.append(row if line >= 0 else row | {"presentationHint": "invalid"})
        return Reply({"instructions": rows})


_STEPS: Final = {"next": StepKind.OVER, "stepIn": StepKind.IN, "stepOut": StepKind.OUT, "stepBack": StepKind.BACK}


def _at(session: DebugSession, thread: int) -> str:
    return f"{session.block.thread_index(thread)} of block {session.block.recording.block_index}"


def output(text: str) -> tuple[str, Body]:
    """Return the event that shows a text in the console."""
    return "output", {"category": "console", "output": f"{text}\n"}
