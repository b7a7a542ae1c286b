"""Warnings of NVRTC that the device view or the prelude causes, not the user's text.

The view has no host code, and functions without specifier are compiled for the device after a prelude: a helper that
only ``main`` calls looks unused, a macro of the C library redefined. Such warnings are false positives.
"""

from __future__ import annotations

import re

from gpuemu_lsp.engine.compile.messages import CompilerMessage
from gpuemu_lsp.engine.compile.preamble import OURS

_ALWAYS_DROPPED = {
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
    """Return whether a warning is due to the view; ``text`` is that of its file, None if that is not the user's."""
    if message.kind != "warning":
        return False
    if message.tool == "ptxas":
        return "Conflicting options --device-debug" in message.text
    if text is None or message.number in _ALWAYS_DROPPED or f" of {OURS}" in message.text:
        return True
    if message.number in _UNUSED and message.position is not None:
        return bool(_UNUSED_FUNCTION.match(message.text)) or not in_function(
            text, message.position.line, message.position.column or 0
        )
    return False


def in_function(text: str, line: int, column: int) -> bool:
    """Return whether a position (1-based line, 0-based byte column) is inside a function's body.

    A body is a pair of braces after a parameter list, unlike those of namespaces, classes and ``extern "C"``.
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
