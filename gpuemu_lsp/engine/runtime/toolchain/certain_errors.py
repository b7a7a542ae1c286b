"""Errors of one part of a split source that the whole source has too, which then need not be compiled to fail.

A part lacks most headers, and what only the other part has. So an undeclared name counts only if neither of these has
its word, and a missing member only of types that no header can change.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

_ERROR = re.compile(r"^.*(?:\(\d+\)|:\d+:\d+): error: .*$", re.MULTILINE)
_UNDECLARED = re.compile(r"identifier \"(\w+)\" is undefined|‘(\w+)’ was not declared in this scope")
_NO_MEMBER = re.compile(
    r"(?:class|struct) \"(?:const )?(?:uint3|dim3|(?:u?char|u?short|u?int|u?long|float|double)[1-4])\" has no member"
    r"|‘(?:class at::Tensor|struct (?:dim3|uint3|cudaDeviceProp))’ has no member named"
)
_SYSTEM_HEADERS = Path("/usr/include")


def certain_errors(messages: str, other_part: str, folders: Sequence[Path]) -> list[str]:
    """Return the lines of a compiler's messages with errors that the whole source has.

    Parameters
    ----------
    messages
        What nvcc or g++ wrote for one part.
    other_part
        The text of the other one.
    folders
        Folders of the headers that the whole source may include.
    """
    errors = _ERROR.findall(messages)
    certain = [line for line in errors if _NO_MEMBER.search(line)]
    for line in errors:
        match = _UNDECLARED.search(line)
        if match is not None:
            name = match[1] or match[2]
            if not re.search(rf"\b{name}\b", other_part) and not _is_in_headers(name, (*folders, _SYSTEM_HEADERS)):
                certain.append(line)
    return certain


def _is_in_headers(name: str, folders: Iterable[Path]) -> bool:
    """Return whether a header has a word; also if it cannot be searched."""
    existing = [str(folder) for folder in folders if folder.is_dir()]
    # A folder that stands for NVIDIA's toolkit has links, which -r does not follow.
    status = subprocess.run(["grep", "-RqwF", "--", name, *existing], capture_output=True, check=False).returncode
    return status != 1
