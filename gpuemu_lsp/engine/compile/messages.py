"""Parser of NVRTC's log.

NVRTC's front end (EDG) writes ``path(line): error: text``, indented continuation lines, the source line indented by
two, and a caret under the token. The caret's column counts UTF-8 bytes. ptxas appends messages without column.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

_HEAD = re.compile(
    r"^(?:(?P<path>.+?)\((?P<line>\d+)\)|(?P<end>At end of source)|(?P<command>Command-line error)): "
    r"(?:(?P<kind>catastrophic error|internal error|error|warning|remark|note)(?: #(?P<number>\d+(?:-D)?))?: )?"
    r"(?P<text>.*)$"
)
_PTXAS = re.compile(
    r"^\s*ptxas\s+(?:application ptx input, line (?P<line>\d+); )?(?P<kind>error|fatal|warning)\s*: (?P<text>.*)$"
)
_PRAGMA = re.compile(r"^\s*ptxas\s+warning\s*: Pragma 'gpuemu-")
"""About pragmas of our own headers, which ptxas does not know."""
_INSTANTIATION = re.compile(r'^\s+(?P<text>.*?)(?: at line (?P<line>\d+)(?: of "?(?P<path>.+?)"?)?)?\s*$')


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A position in the log: 1-based line (0 if absent), 0-based byte column or None."""

    path: str
    line: int
    column: int | None = None


@dataclass(frozen=True, slots=True)
class DiagnosticNote:
    """A note that belongs to a message: a candidate, a matching brace, a template instantiation."""

    position: LogPosition
    text: str


@dataclass(frozen=True, slots=True)
class CompilerMessage:
    """One diagnostic. ``kind`` is ``error`` or ``warning``, ``tool`` ``nvrtc`` or ``ptxas``, ``number`` like ``177-D``.

    ``position`` is None for messages about options, from ptxas, and at the end of the source (``at_end``). ``ptx_line``
    is the 1-based PTX line in a ptxas message, 0 if absent.
    """

    kind: str
    text: str
    position: LogPosition | None
    number: str | None = None
    tool: str = "nvrtc"
    notes: tuple[DiagnosticNote, ...] = field(default=())
    ptx_line: int = 0
    at_end: bool = False
    options: bool = False
    echo: str = ""
    """The source line that the log repeats under the message."""

    def positions(self) -> tuple[LogPosition, ...]:
        """Return the positions of the message and its notes."""
        own = (self.position,) if self.position is not None else ()
        return (*own, *(note.position for note in self.notes))


def parse(log: str) -> tuple[CompilerMessage, ...]:
    """Return the diagnostics of an NVRTC log in order; other lines are ignored."""
    messages: list[CompilerMessage] = []
    lines = log.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        if _PRAGMA.match(line):
            index += 1
        elif ptxas := _PTXAS.match(line):
            kind = "warning" if ptxas["kind"] == "warning" else "error"
            messages.append(
                CompilerMessage(kind, ptxas["text"].strip(), None, tool="ptxas", ptx_line=int(ptxas["line"] or 0))
            )
            index += 1
        elif line.startswith("nvrtc: error: "):
            messages.append(
                CompilerMessage("error", line.removeprefix("nvrtc: error: ").strip(), None, options="option" in line)
            )
            index += 1
        elif (head := _HEAD.match(line)) and (head["kind"] or head["command"]):
            index = _read_message(lines, index, head, messages)
        else:
            index += 1
    return tuple(messages)


def _read_message(lines: list[str], index: int, head: re.Match[str], messages: list[CompilerMessage]) -> int:
    """Append the message whose head is at ``index``; return the index of the first line after it."""
    body: list[str] = []
    index += 1
    while index < len(lines) and lines[index].startswith(" ") and not _PTXAS.match(lines[index]):
        body.append(lines[index])
        index += 1
    column, echo, extra, notes = _read_body(body, head["path"] or "")
    position = LogPosition(head["path"], int(head["line"]), column) if head["path"] else None
    text = " ".join((head["text"].strip(), *extra))
    kind = head["kind"] or "error"
    if kind in ("note", "remark"):
        if messages and position is not None:
            # An instantiation chain after a note belongs to the message, as do its entries without a path.
            own = messages[-1].position
            chain = _read_body(body, own.path if own is not None else position.path)[3]
            messages[-1] = replace(messages[-1], notes=(*messages[-1].notes, DiagnosticNote(position, text), *chain))
        return index
    messages.append(
        CompilerMessage(
            "warning" if kind == "warning" else "error",
            text,
            position,
            head["number"],
            notes=tuple(notes),
            at_end=head["end"] is not None,
            echo=echo,
        )
    )
    return index


def _read_body(body: list[str], path: str) -> tuple[int | None, str, list[str], list[DiagnosticNote]]:
    """Split a message body into caret column, repeated source line, further text, and instantiation chain."""
    caret = next((at for at, line in enumerate(body) if at > 0 and line.strip() == "^"), None)
    column = len(body[caret].rstrip()) - 3 if caret is not None else None
    before = body[: caret - 1] if caret is not None else body
    after = body[caret + 1 :] if caret is not None else ()
    notes = [
        DiagnosticNote(LogPosition(match["path"] or path, int(match["line"])), match["text"])
        for line in after
        if (match := _INSTANTIATION.match(line)) and match["line"]
    ]
    echo = body[caret - 1][2:] if caret is not None else ""
    return column, echo, [line.strip() for line in before], notes
