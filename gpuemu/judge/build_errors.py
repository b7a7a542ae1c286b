"""What a failed build of an answer says: the compiler's error, and whether it is the answer's fault."""

from __future__ import annotations

import re

from gpuemu.judge.model import Call

_EXCEPTIONS = frozenset({"CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"})
"""Those of Triton's compiler, which compiles at the first launch."""
_COMPILER_ERROR = re.compile(r"^.*?([^/\s]+(?:\(\d+\)|:\d+(?::\d+)?): (?:fatal )?error: .*)$", re.MULTILINE)
_MISSING = re.compile(
    r"pip install|(?:fatal error: |cannot open source file \")(?:cu(?!te\b|tlass)|nv|thrust/|cub/)\w*"
)
"""Errors about a header of NVIDIA's toolkit that is not installed here, where it would be on a GPU's machine."""


def is_build_error(call: Call) -> bool:
    """Return whether a call has failed as a kernel or an extension does not compile."""
    return call.error in _EXCEPTIONS or call.building


def compiler_error(text: str) -> str:
    """Return the first error of a compiler in what a build has written, empty if it has none."""
    match = _COMPILER_ERROR.search(text)
    return match[1] if match is not None else ""


def is_missing_here(error: str) -> bool:
    """Return whether a compiler's error is about a header that only this machine lacks."""
    return _MISSING.search(error) is not None
