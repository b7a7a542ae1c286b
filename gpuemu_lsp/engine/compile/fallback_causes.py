"""Causes of a failed compilation that may be this product's and not the user's, read from NVRTC's log."""

from __future__ import annotations

import re

from gpuemu_lsp.engine.compile import messages
from gpuemu_lsp.engine.compile.preamble import PRELUDE
from gpuemu_lsp.engine.compile.program import NvrtcOutput

_CXX20_SYNTAX = re.compile(
    r"\b(?:concept|requires|consteval|constinit|likely|unlikely)\b|[{,]\s*\.\w+\s*=|<=>|\]\s*<\s*(?:class|typename)"
)
"""Syntax of C++20, some of which nvcc's host compiler accepts under older standards, such as ``{.a = 1}``."""

_DEVICE_RUNTIME = re.compile(r'separate compilation mode|^identifier "cuda[A-Z]\w+" is undefined')


def has_cxx20_syntax(text: str) -> bool:
    """Return whether a text may be C++20."""
    return _CXX20_SYNTAX.search(text) is not None


def needs_device_runtime(output: NvrtcOutput) -> bool:
    """Return whether device code uses the device runtime API, which needs relocatable device code."""
    return not output.succeeded and any(
        message.kind == "error" and _DEVICE_RUNTIME.search(message.text) for message in messages.parse(output.log)
    )


def conflicts_with_prelude(output: NvrtcOutput) -> bool:
    """Return whether an error involves the prelude: the user's file defines a name that it defines too."""
    return not output.succeeded and any(
        message.kind == "error"
        and (PRELUDE in message.text or any(position.path == PRELUDE for position in message.positions()))
        for message in messages.parse(output.log)
    )


def error_count(output: NvrtcOutput) -> int:
    """Return the number of errors in the log, 0 if the compilation succeeded."""
    return sum(message.kind == "error" for message in messages.parse(output.log)) if not output.succeeded else 0


def only_kernel(ptx: str, name: str) -> str | None:
    """Return the mangled name of the only kernel ``name``.

    As a name expression, ``norm`` or ``max`` is ambiguous with CUDA's functions of the same name.
    """
    found = set(re.findall(rf"\.entry (_Z{len(name)}{re.escape(name)}\w*)", ptx))
    return found.pop() if len(found) == 1 else None
