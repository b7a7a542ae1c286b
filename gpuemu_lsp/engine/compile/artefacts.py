"""Which of NVRTC's warnings come from our view of the file and not from the file.

The device view has no host code, unannotated functions count as device code, and a prelude stands in front: a helper
that only ``main`` calls looks unused, a macro of the C library looks redefined. Such warnings would be false alarms.
"""

from __future__ import annotations

import re

from gpuemu_lsp.engine.compile.messages import Message
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


def is_artefact(message: Message, text: str | None) -> bool:
    """Say whether a warning is due to our view. ``text`` is that of the file it sits in, None for a foreign file."""
    if message.kind != "warning":
        return False
    if message.tool == "ptxas":
        return "Conflicting options --device-debug" in message.text
    if text is None or message.number in _ALWAYS or PRELUDE in message.text:
        return True
    if message.number in _UNUSED and message.spot is not None:
        return bool(_UNUSED_FUNCTION.match(message.text)) or not in_function(text, message.spot.line)
    return False


def in_function(text: str, line: int) -> bool:
    """Say whether a 1-based line begins or lies inside a function's body: braces after a parameter list."""
    raw = _NOISE.sub(lambda match: b" " + b"\n" * match[0].count(b"\n"), text.encode(errors="replace"))
    lines = raw.split(b"\n")
    upto = b"\n".join(lines[:line])
    functions: list[bool] = []
    start = 0
    for match in re.finditer(rb"[{};]", upto):
        if match[0] == b"{":
            head = upto[start : match.start()].decode(errors="replace")
            functions.append(any(functions) or bool(_OPENS_FUNCTION.search(head)))
        elif match[0] == b"}" and functions:
            ended = functions.pop()
            if upto.count(b"\n", 0, match.start()) == line - 1 and ended:
                return True
        start = match.end()
    return any(functions)
