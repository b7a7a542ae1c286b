"""An exception that an answer raised or caught, and whose fault it is."""

from __future__ import annotations

import dis
import linecache
import os
import re
import traceback
from dataclasses import dataclass
from pathlib import Path

from gpuemu.judge.messages import compiler_error, first_line, is_missing_here

_OWN_FOLDERS = tuple(f"{Path(__file__).resolve().parents[2] / package}/" for package in ("gpuemu", "gpuemu_lsp"))
_NAMED = re.compile(r"""["'](?:aten::)?(\w+)["'] ?(?:not implemented for|with arguments)""")
"""What a kernel of PyTorch for the CPU that does not exist is called, for a dtype or at all."""
_ALLOCATION = re.compile(r"Tried to allocate (?P<gib>[\d.]+) GiB")
_MOST_GIB = 256.0
"""More than the memory of a GPU."""
_COMPILATION = frozenset({"CompilationError", "CompileTimeAssertionFailure", "UnsupportedLanguageConstruct"})
"""Those of Triton's compiler, which compiles at the first launch."""


@dataclass(frozen=True, slots=True)
class Raised:
    """The ``error``, a type, and the ``message`` of an exception.

    ``building``: it is from PyTorch's build of an extension. ``by_answer``: a ``raise`` statement of the answer raised
    it. ``is_not_emulated``: it says what an emulated device lacks.
    """

    error: str
    message: str
    building: bool = False
    by_answer: bool = False
    is_not_emulated: bool = False

    @staticmethod
    def of(error: BaseException, path: str) -> Raised:
        """Return what is recorded of an exception in the process of the answer in a file."""
        frames = traceback.walk_tb(error.__traceback__)
        building = any(frame.f_globals.get("__name__") == "torch.utils.cpp_extension" for frame, _ in frames)
        name, message, by = type(error).__name__, str(_innermost_compilation(error)), _raising_file(error)
        return Raised(name, message, building, by == path, _is_not_emulated(error, by, path))

    @property
    def compiler_error(self) -> str:
        """The first error of a compiler in the message, empty if it has none."""
        return compiler_error(self.message)

    @property
    def is_build_error(self) -> bool:
        """Whether a kernel or an extension does not compile."""
        return self.error in _COMPILATION or self.building

    @property
    def is_missing_here(self) -> bool:
        """Whether a machine with a GPU would not raise it."""
        return self.is_not_emulated or (not self.by_answer and is_missing_here(self.compiler_error))

    @property
    def sentence(self) -> str:
        """The type, with the compiler's error or the first line of the message."""
        return f"{self.error}: {self.compiler_error or first_line(self.message)}"


def _raising_file(error: BaseException) -> str | None:
    """Return the file whose ``raise`` statement raised an exception, None if a function of C++ did.

    Such a function has no frame: the innermost one of what it raises is that of its call.
    """
    innermost = error.__traceback__
    while innermost is not None and innermost.tb_next is not None:
        innermost = innermost.tb_next
    if innermost is None:
        return None
    code = innermost.tb_frame.f_code
    return code.co_filename if dis.opname[code.co_code[innermost.tb_lasti]] == "RAISE_VARARGS" else None


def _innermost_compilation(error: BaseException) -> BaseException:
    """Return the error of Triton's compiler that says why: for a function that a kernel calls it raises two."""
    while error.__cause__ is not None and type(error.__cause__).__name__ in _COMPILATION:
        error = error.__cause__
    return error


def _is_removed_from_triton(error: BaseException) -> bool:
    """Return whether a kernel calls what this version of Triton has no longer: a function that only raises an error."""
    cause: BaseException | None = error if type(error).__name__ in _COMPILATION else None
    while cause is not None and cause.__cause__ is not None:
        cause = cause.__cause__
    if not isinstance(cause, NotImplementedError) or _raising_file(cause) is None:
        return False
    code = [frame.f_code for frame, _ in traceback.walk_tb(cause.__traceback__)][-1]
    return f"{os.sep}triton{os.sep}" in code.co_filename and code.co_names == (NotImplementedError.__name__,)


def _is_not_emulated(error: BaseException, raising_file: str | None, path: str) -> bool:
    """Return whether an exception that was raised in a file of Python, or in C++, is a lack of the emulated device.

    It is one too that Triton has functions no longer which answers to a benchmark may use.
    """
    if _is_removed_from_triton(error):
        return True
    if raising_file is not None:
        own = isinstance(error, NotImplementedError) and raising_file.startswith(_OWN_FOLDERS)
        # `torch.compile` raises it where Triton is missing.
        return own or (type(error).__name__ == "TritonMissing" and type(error).__module__.startswith("torch."))
    if isinstance(error, NotImplementedError):
        # An extension names its own dispatch, which has no such dtype on a GPU either.
        name = _NAMED.search(str(error))
        return name is None or not any(name[1] in line for line in linecache.getlines(path))
    size = _ALLOCATION.search(str(error))
    return type(error).__name__ == "OutOfMemoryError" and (size is None or float(size["gib"]) <= _MOST_GIB)
