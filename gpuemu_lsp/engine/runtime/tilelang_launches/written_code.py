"""The code that TileLang writes: each line with the line of Python that it is from, and its PTX by content."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuemu_lsp.engine.runtime.tilelang_launches import CODE_VARIABLE

BEGIN, END = "GPUEMU_FROM", "GPUEMU_END"
"""The functions that are called around a statement: before it with the number of its file, and its line."""

_MARK = re.compile(rf"^\s*(?:{BEGIN}\((?P<file>\d+), (?P<line>\d+)\)|{END}\(\));\s*$")
_FILE = re.compile(r'^(\s*\.file\s+\d+\s+)"[^"]*tvm_kernels[^"]*\.cu"', re.MULTILINE)


def with_places(text: str, files: Sequence[str]) -> tuple[str, str]:
    """Return code without its marks, and the same with the place of each line in Python as a comment.

    A line is from the innermost statement around it that has a place.
    """
    plain: list[str] = []
    marked: list[str] = []
    around: list[str] = []
    for row in text.split("\n"):
        mark = _MARK.match(row)
        if mark is None:
            plain.append(row)
            marked.append(f"{row}  // from {around[-1]}" if around and row.strip() else row)
        elif mark["file"] is not None:
            around.append(f"{files[int(mark['file'])]}:{mark['line']}")
        elif around:
            around.pop()
    return "\n".join(plain), "\n".join(marked)


def compiled(code: str, marked: str, options: object, compile_code: Callable[[], bytes]) -> bytes:
    """Return the PTX of code, whose file is the marked code; ``compile_code`` compiles what is not kept."""
    folder = Path(os.environ[CODE_VARIABLE], _digest(code, repr(options)))
    folder.mkdir(parents=True, exist_ok=True)
    source, kept = folder / f"{_digest(marked)}.cu", folder / "code.ptx"
    _write(source, marked.encode())
    if not kept.exists():
        _write(kept, compile_code())
    text = kept.read_text()
    return _FILE.sub(lambda match: f'{match[1]}"{source}"', text).encode()


def _write(path: Path, data: bytes) -> None:
    """Write a file at once: another process may read it."""
    if not path.exists():
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        temporary.write_bytes(data)
        temporary.replace(path)


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\0".join(texts).encode("utf-8", "surrogateescape"), digest_size=12).hexdigest()
