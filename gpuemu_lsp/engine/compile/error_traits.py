"""What the errors of NVRTC are about, read from their text: the only place that knows its wording.

Policies decide on the traits and the name; ``data`` of the findings has the diagnostic number where NVRTC prints one,
which it does for warnings only.
"""

from __future__ import annotations

import re

from gpuemu_lsp.engine.cause import ErrorTrait

_PATTERNS = {
    ErrorTrait.UNDECLARED: re.compile(
        r'^(?:identifier ".+" is undefined|name followed by "::" must be|namespace ".+" has no'
        r"|name must be a namespace name|.+ is not a (?:class |variable |function )?template"
        r'|incomplete type ".+" is not allowed|class ".+" has no member|this declaration has no storage class'
        r"|not a class or struct name|.+ has not been declared)"
    ),
    ErrorTrait.FOLLOWS: re.compile(r"<error-type>|has already been defined"),
    ErrorTrait.DEVICE_RUNTIME: re.compile(r'^identifier "cuda[A-Z]\w+" is undefined'),
    ErrorTrait.DYNAMIC_INITIALIZATION: re.compile(r"^dynamic initialization is not supported"),
    ErrorTrait.TYPE_INDEPENDENT: re.compile(
        r'^(?:expected |identifier ".+" is undefined|(?:class|struct|namespace) ".+" has no member|unrecognized token'
        r"|missing )"
    ),
    ErrorTrait.NEWER_ARCHITECTURE: re.compile(
        r"architecture|\.target\b|compute capability|\bsm_\d|\bSM ?\d\d|cluster|tensor ?map|hopper|blackwell"
        r"|__CUDA_ARCH__",
        re.IGNORECASE,
    ),
}
_NAMED = re.compile(r'"(?:class |struct |namespace )?([\w:]+)[^"]*"')


def traits_of(text: str) -> frozenset[ErrorTrait]:
    """Return the traits of an error with this text."""
    return frozenset(trait for trait, pattern in _PATTERNS.items() if pattern.search(text))


def undeclared_name(text: str) -> str | None:
    """Return the name in quotes that an error is about, None if it quotes none."""
    named = _NAMED.search(text)
    return named[1] if named is not None and named[1] != "::" else None
