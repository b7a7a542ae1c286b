"""What PyTorch's headers had when benchmarks recorded their answers, and have no longer."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from gpuemu.judge.model import Answer

_DISPATCH_BY_TYPE = re.compile(r"""(\bAT_DISPATCH_\w+\s*\([^"'{};]*?)\.type\(\)(?=\s*,)""")
"""A dispatch by ``Tensor.type()``, before the name, which is a string."""


def with_scalar_types(text: str) -> str:
    """Return a text whose dispatches use ``scalar_type()``, for which ``type()`` stood; its lines stay the same.

    The macros took both until PyTorch 2.9.
    """
    return _DISPATCH_BY_TYPE.sub(r"\1.scalar_type()", text)


def written_for_this_torch(answer: Answer, folder: Path) -> Answer:
    """Return an answer whose module is in a folder if its text uses what PyTorch has no longer, else the same."""
    if answer.path.suffix != ".py" or (text := with_scalar_types(answer.text)) == answer.text:
        return answer
    path = folder / "answer.py"
    path.write_text(text, encoding="utf-8")
    return replace(answer, path=path, imports=answer.path.parent)
