"""An exception that an answer raised or caught, and whose fault it is."""

from __future__ import annotations

import dis
import traceback
from dataclasses import dataclass

from gpuemu.judge.messages import compiler_error, first_line, is_missing_here

_NOT_EMULATED = frozenset({"NotImplementedError", "OutOfMemoryError", "TritonMissing"})
"""Exceptions that say what an emulated device lacks; the last is that of `torch.compile` where Triton is missing."""
_COMPILATION = frozenset({"CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"})
"""Those of Triton's compiler, which compiles at the first launch."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The ``error``, a type, and the ``message`` of an exception.

    ``building``: it is from PyTorch's build of an extension. ``by_answer``: a ``raise`` statement of the answer raised
    it.
    """

    error: str
    message: str
    building: bool = False
    by_answer: bool = False

    @staticmethod
    def of(error: BaseException, path: str) -> Raised:
        """Return what is recorded of an exception in the process of the answer in a file."""
        frames = traceback.walk_tb(error.__traceback__)
        building = any(frame.f_globals.get("__name__") == "torch.utils.cpp_extension" for frame, _ in frames)
        return Raised(type(error).__name__, str(error), building, _is_raised_in(error, path))

    @property
    def compiler_error(self) -> str:
        """The first error of a compiler in the message, empty if it has none."""
        return compiler_error(self.message)

    @property
    def is_build_error(self) -> bool:
        """Whether a kernel or an extension does not compile."""
        return self.error in _COMPILATION or self.building

    @property
    def is_not_emulated(self) -> bool:
        """Whether the emulated device lacks what was called."""
        return self.error in _NOT_EMULATED and not self.by_answer

    @property
    def is_missing_here(self) -> bool:
        """Whether a machine with a GPU would not raise it."""
        return self.is_not_emulated or (not self.by_answer and is_missing_here(self.compiler_error))

    @property
    def sentence(self) -> str:
        """The type, with the compiler's error or the first line of the message."""
        return f"{self.error}: {self.compiler_error or first_line(self.message)}"


def _is_raised_in(error: BaseException, path: str) -> bool:
    """Return whether a ``raise`` statement of a file raised an exception.

    A function of C++ has no frame: the innermost one of what it raises is that of its call.
    """
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None or innermost.tb_frame.f_code.co_filename != path:
        return False
    return dis.opname[innermost.tb_frame.f_code.co_code[innermost.tb_lasti]] == "RAISE_VARARGS"
