"""Which of NVRTC's warnings come from our view of the file and not from the file.

The device view has no host code, unannotated functions count as device code, and a prelude stands in front: a helper
that only ``main`` calls looks unused, a macro of the C library looks redefined. Such warnings would be false alarms.
"""

from __future__ import annotations

import re

from gpuemu_lsp.engine.compile.messages import CompilerMessage
from gpuemu_lsp.engine.compile.preamble import PRELUDE

_ALWAYS = {
    "20283-D",  # precompiled headers
    "161-D", "1675-D", "3140-D",  # unknown pragmas: those of the host compiler
    "114-D",  # referenced but not defined: the definition may be host code
    "20208-D",  # long double in a helper that only host code uses
    "20236-D", "20096-D",  # address of a host variable
}  # fmt: skip
_UNUSED = {"177-D", "550-D", "179-D"}
_UNUSED_FUNCTION = re.compile(r"^(?:function|type|.*function template) ")
_OPENS_FUNCTION = re.compile(r"[)\]]\s*(?:const|noexcept|override|mutable|->\s*[\w:<>*&\s]+)*\s*$")
_NOISE = re.compile(
    rb"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#(?:[^\n\\]|\\\r?\n|\\.)*",
    re.DOTALL | re.MULTILINE,
)


def is_caused_by_view(message: CompilerMessage, text: str | None) -> bool:
    """Return whether a warning is due to our view. ``text`` is that of the file it sits in, None for a foreign file."""
    if message.kind != "warning":
        return False
    if message.tool == "ptxas":
        return "Conflicting options --device-debug" in message.text
    if text is None or message.number in _ALWAYS or PRELUDE in message.text:
        return True
    if message.number in _UNUSED and message.spot is not None:
        return bool(_UNUSED_FUNCTION.match(message.text)) or not in_function(
            text, message.spot.line, message.spot.column or 0
        )
    return False


def in_function(text: str, line: int, column: int) -> bool:
    """Return whether a place (1-based line, 0-based byte column) lies inside a function's body.

    A body is a pair of braces after a parameter list; those of namespaces, classes and ``extern "C"`` are none.
    """
    raw = _NOISE.sub(lambda match: re.sub(rb"[^\n]", b" ", match[0]), text.encode(errors="replace"))
    end = sum(len(item) + 1 for item in raw.split(b"\n")[: line - 1]) + column
    bodies: list[bool] = []
    start = 0
    for match in re.finditer(rb"[{};]", raw[:end]):
        if match[0] == b"{":
            head = raw[start : match.start()].decode(errors="replace")
            bodies.append(any(bodies) or bool(_OPENS_FUNCTION.search(head)))
        elif match[0] == b"}" and bodies:
            bodies.pop()
        start = match.end()
    return any(bodies)
